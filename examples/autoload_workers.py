"""Feeds the device from the worker processes of a DataLoader, and uses the device in workers that may not, and may."""

from __future__ import annotations

import warnings

import torch
from torch.utils.data import DataLoader, Dataset

warnings.simplefilter("ignore", DeprecationWarning)  # of os.fork from Python 3.12 on: the driver has threads


# LITERALINCLUDE START: autoload-workers
class Squares(Dataset[torch.Tensor]):
    """The squares of 0 to 3, computed on a device by whoever asks for one."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        torch.manual_seed(index)  # what a worker does that shuffles
        return torch.tensor([float(index)], device=self.device).square().cpu()


def feed(context: str, device: str) -> None:
    """Loads with a worker, pins each batch, copies it to the device without waiting, and adds 1 there."""
    loader = DataLoader(Squares(device), 2, num_workers=1, multiprocessing_context=context, pin_memory=True)
    try:
        for batch in loader:
            on_device = batch.to("openreg", non_blocking=True) + 1
            print(f"   pinned: {batch.is_pinned()}, on {on_device.device}: {on_device.flatten().tolist()}")
    except RuntimeError as error:
        print(f"   {str(error).splitlines()[-1]}")


def main() -> None:
    """Starts the device, keeps it busy, and starts workers in both ways."""
    torch.openreg._sleep(500_000_000)
    print("the device is busy:", not torch.accelerator.current_stream().query())
    for context, device in (("fork", "cpu"), ("fork", "openreg"), ("spawn", "openreg")):
        print(f"workers by {context}, which use the device {device}")
        feed(context, device)
    print("seed of the device:", torch.openreg.initial_seed())


# LITERALINCLUDE END: autoload-workers

if __name__ == "__main__":
    torch.manual_seed(42)
    main()
