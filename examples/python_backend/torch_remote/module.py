"""The device module, ``torch.remote``: the functions that PyTorch looks up there and users call."""

from __future__ import annotations

from typing import Any

import torch

from . import answers, memory
from .base import base
from .devices import DeviceDied, devices

__all__ = ["DeviceDied"]


def _index_in(device: Any) -> int:
    """The index in a ``torch.device`` or its name, -1 if there is none. Throws: ``ValueError`` for another type."""
    if device is None:
        return -1
    named = torch.device(device)
    if named.type != "remote":
        raise ValueError(f"remote: a device of remote is needed, got {str(named)!r}")
    return -1 if named.index is None else named.index


def _seconds(nanoseconds: int) -> float:
    """A duration in seconds. Throws: ``ValueError`` if it is negative, which the device would notice too late."""
    if nanoseconds < 0:
        raise ValueError(f"remote: a stream is kept busy for 0 nanoseconds or more, got {nanoseconds}")
    return nanoseconds / 1e9


# LITERALINCLUDE START: remote-module-devices
def is_available() -> bool:
    """Whether there is a device: always."""
    return True


def is_initialized() -> bool:
    """Whether a device has been started."""
    return any(device.process is not None for device in devices)


def __getattr__(name: str) -> bool:
    """Computes ``_initialized``, an attribute that PyTorch reads in place of the function."""
    if name == "_initialized":
        return is_initialized()
    raise AttributeError(f"torch.remote has no {name}")


def _is_in_bad_fork() -> bool:
    return any(device.belongs_to_parent for device in devices)


def device_count() -> int:
    """How many devices there are: TORCH_REMOTE_DEVICES, or 2."""
    return memory.COUNT


def current_device() -> int:
    """The index of the current device."""
    return base().current_device()


def index_of(device: Any = None) -> int:
    """The index of a device: an index, a ``torch.device``, its name, or None or -1 for the current one."""
    index = device if isinstance(device, int) else _index_in(device)
    index = current_device() if index == -1 else index
    if not 0 <= index < memory.COUNT:
        raise ValueError(f"remote:{index} does not exist, there are {memory.COUNT} devices (TORCH_REMOTE_DEVICES)")
    return index


def set_device(device: Any) -> None:
    """Makes a device current."""
    base().set_device(index_of(device))


class device:  # noqa: N801 (PyTorch calls it so)
    """A context in which a device is current."""

    def __init__(self, device: Any) -> None:
        self.inside = index_of(device)

    def __enter__(self) -> None:
        self.outside = current_device()
        set_device(self.inside)

    def __exit__(self, *_: object) -> None:
        set_device(self.outside)


def synchronize(device: Any = None) -> None:
    """Waits until a device has nothing left to do."""
    answers.synchronize(index_of(device))


def reset(device: Any = None) -> None:
    """Ends the process of a device. Its tensors are lost; the next use starts another one."""
    devices[index_of(device)].reset()


def memory_allocated(device: Any = None) -> int:
    """Bytes of a device that tensors use."""
    memory.settle()
    return memory.memories[index_of(device)].used


def _sleep(cycles: int) -> None:
    """Keeps the current stream busy for so many nanoseconds. PyTorch's tests know it by this name."""
    index = current_device()
    devices[index].launch_on(base().current_stream(index), "sleep", _seconds(cycles))


# LITERALINCLUDE END: remote-module-devices


# LITERALINCLUDE START: remote-module-random
def manual_seed(seed: int) -> None:
    """Seeds the generator of the current device."""
    base().default_generator(current_device()).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; ``torch.manual_seed`` calls it."""
    for index in range(memory.COUNT):
        base().default_generator(index).manual_seed(seed)


def initial_seed() -> int:
    """The seed of the current device."""
    return int(base().default_generator(current_device()).initial_seed())


def get_rng_state(device: Any = None) -> torch.Tensor:
    """The state of a device's generator."""
    state: torch.Tensor = base().default_generator(index_of(device)).get_state()
    return state


def set_rng_state(state: torch.Tensor, device: Any = None) -> None:
    """Sets the state of a device's generator."""
    base().default_generator(index_of(device)).set_state(state)


# LITERALINCLUDE END: remote-module-random


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast can cast to."""
    return [torch.float16, torch.bfloat16]
