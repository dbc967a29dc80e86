"""An event whose query never reports completion."""

import ctypes

from tests.conformance.broken.virtual_functions import GUARD, replace


@replace(GUARD, "queryEvent", ctypes.c_bool, ctypes.c_void_p)
def query(_event: int) -> bool:
    return False
