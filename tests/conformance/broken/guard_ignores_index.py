"""A guard that stays on the current device, whichever device it is told to enter."""

import ctypes

from tests.conformance.broken.virtual_functions import GUARD, replace


@replace(GUARD, "setDevice", None, ctypes.c_uint16)
def set_device(_device: int) -> None:
    return None


@replace(GUARD, "uncheckedSetDevice", None, ctypes.c_uint16)
def unchecked_set_device(_device: int) -> None:
    return None
