"""A guard whose streams wait for no event, and which reports each stream as being captured."""

import ctypes

from tests.conformance.broken.virtual_functions import GUARD, replace


@replace(GUARD, "block", None, ctypes.c_void_p, ctypes.c_void_p)
def block(_event: int, _stream: int) -> None:
    return None


@replace(GUARD, "isStreamCapturing", ctypes.c_bool, ctypes.c_void_p)
def is_capturing(_stream: int) -> bool:
    return True
