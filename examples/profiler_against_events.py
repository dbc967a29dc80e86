"""Compares the times of a profile with those that events measure."""

from __future__ import annotations

import os
from collections.abc import Callable

os.environ["KINETO_LOG_LEVEL"] = "99"  # otherwise the profiler logs its start to stderr

import torch
from torch.autograd import DeviceType
from torch.profiler import profile


# LITERALINCLUDE START: profiler-against-events
def compare(work: Callable[[], object]) -> tuple[float, float]:
    """Returns the milliseconds of all device work, by its profile and by two events around it."""
    start, end = (torch.Event("openreg", enable_timing=True) for _ in range(2))
    work()
    with profile() as recorded:
        torch.openreg._sleep(20_000_000)  # so that the host has queued the work before the device starts it
        start.record()
        work()
        end.record()
        end.synchronize()
    rows = [row for row in recorded.key_averages() if row.device_type == DeviceType.PrivateUse1]
    summed = sum(row.self_device_time_total for row in rows if row.key != "sleep") / 1000
    return summed, start.elapsed_time(end)


# LITERALINCLUDE END: profiler-against-events


def main() -> None:
    """Prints a table."""
    torch.set_num_threads(1)
    matrix = torch.rand(512, 512, device="openreg")
    long = torch.rand(1 << 22, device="openreg")
    many = torch.rand(1 << 20, device="openreg")
    kinds: dict[str, Callable[[], object]] = {
        "5 matrix products": lambda: [matrix @ matrix for _ in range(5)],
        "10 copies of 16 MiB": lambda: [long.clone() for _ in range(10)],
        "50 sums of a million": lambda: [many.sum() for _ in range(50)],
    }
    for name, work in kinds.items():
        ratio = 0.0
        for _ in range(50):  # other load on the processor lengthens the time between two kernels: the share falls
            summed, measured = compare(work)
            ratio = max(ratio, summed / measured)
            if ratio > 0.95:
                break
        print(f"{name}: profile / events = {ratio:.1f}")


if __name__ == "__main__":
    main()
