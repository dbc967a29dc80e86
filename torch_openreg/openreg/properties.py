"""What a device is and what it can do, for programs and libraries that choose their code accordingly."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_init
from torch_openreg.openreg._utils import _get_device_index


# LITERALINCLUDE START: properties-in-python
@dataclass(frozen=True)
class DeviceProperties:
    """What a program can know about a device before it runs anything there.

    A number is 0 if the device does not have it or the driver does not know it.

    Attributes:
        name: the product name, for people to read.
        driver: the library that drives the device; two builds of this package may differ in nothing else.
        total_memory: bytes of device memory.
        max_allocation: bytes of the largest single allocation.
        local_memory: bytes that the work-items of a group share (CUDA: `shared_memory_per_block`).
        major: the device generation, for code that depends on it.
        minor: the revision within the generation.
        multi_processor_count: how many groups of work-items run side by side.
        max_group_size: maximum work-items in a group (CUDA: `max_threads_per_block`).
        simd_width: work-items that run in lockstep (CUDA: `warp_size`).
        has_unified_memory: whether host code may use device addresses.
        has_fp16: whether kernels may compute in float16; likewise `has_bf16` and `has_fp64`.
        uuid: distinguishes devices of the same kind, and is the same in every process.
    """

    name: str
    driver: str
    total_memory: int
    max_allocation: int
    local_memory: int
    major: int
    minor: int
    multi_processor_count: int
    max_group_size: int
    simd_width: int
    has_unified_memory: bool
    has_fp16: bool
    has_bf16: bool
    has_fp64: bool
    uuid: str


def get_device_properties(device: torch.device | int | str | None = None) -> DeviceProperties:
    """The properties of a device (default: the current one).

    Raises:
        RuntimeError: if the index is out of range; the message names the valid ones.
        ValueError: if the device is not a device of openreg.
    """
    _lazy_init()
    return DeviceProperties(**_C._get_device_properties(_get_device_index(device, optional=True)))


def get_device_name(device: torch.device | int | str | None = None) -> str:
    """The name of a device (default: the current one)."""
    return get_device_properties(device).name


def get_device_capability(device: torch.device | int | str | None = None) -> tuple[int, int]:
    """The generation of a device (default: the current one) as `(major, minor)`.

    `torch.accelerator.get_device_capability` answers another question: which dtypes the device has kernels for.
    """
    properties = get_device_properties(device)
    return properties.major, properties.minor


# LITERALINCLUDE END: properties-in-python


# LITERALINCLUDE START: properties-bf16
def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current device computes in bfloat16.

    Args:
        including_emulation: whether computing in another dtype and rounding counts. This device does that: its
            arithmetic is float32.
    """
    return including_emulation and torch.bfloat16 in torch.accelerator.get_device_capability()["supported_dtypes"]


# LITERALINCLUDE END: properties-bf16
