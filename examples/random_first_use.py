"""Which functions for random numbers start the driver? Each call is the first one of a forked process."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch

STATE = torch.tensor([7, 0]).view(torch.uint8)

CALLS: dict[str, Callable[[], object]] = {
    "manual_seed": lambda: torch.openreg.manual_seed(7),
    "manual_seed_all": lambda: torch.openreg.manual_seed_all(7),
    "seed": torch.openreg.seed,
    "seed_all": torch.openreg.seed_all,
    "initial_seed": torch.openreg.initial_seed,
    "get_rng_state": torch.openreg.get_rng_state,
    "get_rng_state_all": torch.openreg.get_rng_state_all,
    "set_rng_state": lambda: torch.openreg.set_rng_state(STATE),
    "set_rng_state_all": lambda: torch.openreg.set_rng_state_all([STATE, STATE]),
    "default_generators": lambda: torch.openreg.default_generators,
    "default_generators[0]": lambda: torch.openreg.default_generators[0],
}

for name, call in CALLS.items():
    child = os.fork()
    if child == 0:
        call()
        print(f"{name}: {torch.openreg.is_initialized()}", flush=True)
        os._exit(0)
    os.waitpid(child, 0)
