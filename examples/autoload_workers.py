"""Feeds the device from DataLoader workers, and uses it in workers: forked ones, which may not, and spawned ones."""

from __future__ import annotations

import warnings

import torch
from torch.utils.data import DataLoader, Dataset

warnings.simplefilter("ignore", DeprecationWarning)  # from os.fork since Python 3.12: the driver has threads


# LITERALINCLUDE START: autoload-workers
class Squares(Dataset[torch.Tensor]):
    """The squares of 0 to 3, computed on a device by the process that reads them."""

    def __init__(self, device: str) -> None:
        self.device = device

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        torch.manual_seed(index)  # as a shuffling worker does
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


# LITERALINCLUDE END: autoload-workers

if __name__ == "__main__":
    main()
