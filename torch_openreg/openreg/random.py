"""Random numbers: the seed and the state of each device's default generator, under the names of `torch.cuda`."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import overload

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_call, _lazy_init
from torch_openreg.openreg._utils import _index
from torch_openreg.openreg.device import current_device, device_count


# LITERALINCLUDE START: random-default-generators
class _DefaultGenerators(Sequence[torch.Generator]):
    """The default generator of each device. Indexing starts the driver; creating the sequence does not."""

    def __len__(self) -> int:
        return device_count()

    @overload
    def __getitem__(self, index: int) -> torch.Generator: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[torch.Generator, ...]: ...

    def __getitem__(self, index: int | slice) -> torch.Generator | tuple[torch.Generator, ...]:
        _lazy_init()
        if isinstance(index, slice):
            return tuple(self[i] for i in range(len(self))[index])
        count = len(self)
        position = operator.index(index)
        if not -count <= position < count:
            raise IndexError(
                f"openreg: default_generators has {count} elements, one for each device, got index {index}"
            )
        return _C._get_default_generator(position % count)


default_generators = _DefaultGenerators()


def _get_generator(device: torch.device) -> torch.Generator:
    """The default generator of a device. PyTorch's compiler looks it up by this name."""
    index = _index(device)
    return default_generators[current_device() if index < 0 else index]


# LITERALINCLUDE END: random-default-generators


# LITERALINCLUDE START: random-manual-seed
def manual_seed(seed: int) -> None:
    """Seeds the current device's default generator. If the driver has not started, the call is queued until it has.

    Args:
        seed: a 64-bit number; 2**64 is added to a negative one, as in `torch.manual_seed`.
    """
    seed = int(seed)
    _lazy_call(lambda: _seed_device(-1, seed), seed=True)


def manual_seed_all(seed: int) -> None:
    """Seeds the default generators of all devices. `torch.manual_seed` calls it."""
    seed = int(seed)

    def seed_devices() -> None:
        for index in range(device_count()):
            _seed_device(index, seed)

    _lazy_call(seed_devices, seed_all=True)


def _seed_device(index: int, seed: int) -> None:
    _C._get_default_generator(index).manual_seed(seed)


# LITERALINCLUDE END: random-manual-seed


# LITERALINCLUDE START: random-seed
def seed() -> None:
    """Seeds the current device's default generator with a number from the operating system."""

    def seed_device() -> None:
        _C._get_default_generator(-1).seed()

    _lazy_call(seed_device, seed=True)


def seed_all() -> None:
    """Seeds the default generators of all devices with one number from the operating system."""

    def seed_devices() -> None:
        manual_seed_all(default_generators[0].seed())

    _lazy_call(seed_devices, seed_all=True)


def initial_seed() -> int:
    """The seed of the current device's default generator."""
    _lazy_init()
    return _C._get_default_generator(-1).initial_seed()


# LITERALINCLUDE END: random-seed


# LITERALINCLUDE START: random-state
def get_rng_state(device: torch.device | int | str = "openreg") -> torch.Tensor:
    """The state of a device's default generator: a CPU tensor of 16 `uint8`: the seed, then the offset."""
    _lazy_init()
    return _C._get_default_generator(_index(device)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of the default generators of all devices, in the order of the devices."""
    _lazy_init()
    return [get_rng_state(index) for index in range(device_count())]


def set_rng_state(new_state: torch.Tensor, device: torch.device | int | str = "openreg") -> None:
    """Sets the state of a device's default generator to what `get_rng_state` returned.

    Raises:
        RuntimeError: if the tensor is not such a state.
    """
    _lazy_init()
    _C._get_default_generator(_index(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of the default generators to what `get_rng_state_all` returned, perhaps on fewer devices.

    Raises:
        ValueError: if there are more states than devices; no state has been set then.
        RuntimeError: if one of the tensors is not a state; those of the devices before it have been set.
    """
    states = list(new_states)
    if len(states) > device_count():
        raise ValueError(f"openreg: there are {device_count()} devices, and {len(states)} states, one for each device")
    for index, state in enumerate(states):
        set_rng_state(state, index)


# LITERALINCLUDE END: random-state
