"""Random numbers: the seed and the state of each device's default generator."""

from __future__ import annotations

import torch

from torch_openreg import _C
from torch_openreg.openreg._lazy import _lazy_call, _lazy_init
from torch_openreg.openreg.device import _index, device_count


# LITERALINCLUDE START: random-manual-seed
def manual_seed(seed: int) -> None:
    """Seeds the current device's default generator. Before the driver starts, the call waits for it.

    Args:
        seed: 64 bits; a negative number counts from 2**64 down, as in `torch.manual_seed`.
    """
    seed = int(seed)
    _lazy_call(lambda: _seed_device(-1, seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the default generators of all devices. `torch.manual_seed` calls it."""
    seed = int(seed)

    def seed_devices() -> None:
        for index in range(device_count()):
            _seed_device(index, seed)

    _lazy_call(seed_devices)


def _seed_device(index: int, seed: int) -> None:
    _C._get_default_generator(index).manual_seed(seed)


# LITERALINCLUDE END: random-manual-seed


def initial_seed() -> int:
    """The seed of the current device's default generator."""
    _lazy_init()
    return _C._get_default_generator(-1).initial_seed()


def get_rng_state(device: torch.device | int | str = "openreg") -> torch.Tensor:
    """The state of a device's default generator: a CPU tensor of 16 `uint8`, the seed and then the offset."""
    _lazy_init()
    return _C._get_default_generator(_index(device)).get_state()


def set_rng_state(new_state: torch.Tensor, device: torch.device | int | str = "openreg") -> None:
    """Sets the state of a device's default generator to what `get_rng_state` returned.

    Raises:
        RuntimeError: if the tensor is not such a state.
    """
    _lazy_init()
    _C._get_default_generator(_index(device)).set_state(new_state)
