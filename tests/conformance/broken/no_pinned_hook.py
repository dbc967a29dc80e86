"""The hook isPinnedPtr is not overridden. PyTorch's default raises no error, but returns false."""

import ctypes

from tests.conformance.broken.virtual_functions import HOOKS, replace


@replace(HOOKS, "isPinnedPtr", ctypes.c_bool, ctypes.c_void_p)
def is_pinned(_address: int) -> bool:
    return False
