"""Hooks that count no devices, and return the index they are given as the previous device."""

import ctypes

from tests.conformance.broken.virtual_functions import HOOKS, replace


@replace(HOOKS, "deviceCount", ctypes.c_int8)
def device_count() -> int:
    return 0


@replace(HOOKS, "exchangeDevice", ctypes.c_int8, ctypes.c_int8)
def exchange_device(device: int) -> int:
    return device
