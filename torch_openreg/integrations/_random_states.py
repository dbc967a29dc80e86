"""Random numbers of the devices in the checkpoints of accelerate and of the Trainer of transformers."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from torch_openreg import openreg


# LITERALINCLUDE START: integrations-random-states
def save(folder: str | Path, rank: int, device: torch.device) -> None:
    """Writes the states of all generators of this process into a checkpoint.

    Each process has generators of its own, so each writes a file.

    Args:
        folder: the checkpoint, which exists.
        rank: the number of this process among all of the job.
        device: where this process trains.
    """
    torch.save({"device": device.index, "states": openreg.get_rng_state_all()}, _file(folder, rank))


def load(folder: str | Path, rank: int, device: torch.device) -> None:
    """Continues with the states that `save()` has written.

    The device of the training may have another index now: it continues with the state of the device that has trained.

    Warns:
        UserWarning: if this process has no states in the checkpoint. For CUDA, transformers logs an error and goes on;
            accelerate goes on, and nobody notices.
    """
    file = _file(folder, rank)
    if not file.is_file():
        warnings.warn(
            f"openreg: the checkpoint {folder} has no random states of the devices for process {rank} ({file.name}): "
            "dropout and other random numbers will not be those of a run that was not interrupted. Save checkpoints "
            "after register(), and resume with as many processes",
            stacklevel=3,
        )
        return
    saved = torch.load(file)
    for index, state in enumerate(saved["states"][: openreg.device_count()]):
        openreg.set_rng_state(state, index)
    openreg.set_rng_state(saved["states"][saved["device"]], device)


def _file(folder: str | Path, rank: int) -> Path:
    return Path(folder, f"openreg_random_states_{rank}.pt")


# LITERALINCLUDE END: integrations-random-states
