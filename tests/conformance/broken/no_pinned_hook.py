"""The hook isPinnedPtr is removed. What is left answers as PyTorch's own body does, which is no error: false."""

import ctypes

from tests.conformance.broken.virtual_functions import HOOKS, replace


@replace(HOOKS, "isPinnedPtr", ctypes.c_bool, ctypes.c_void_p)
def is_pinned(_address: int) -> bool:
    return False
