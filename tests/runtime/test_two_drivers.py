"""The driver of tests/driver and that of the backend are independent, whichever a process loads first."""

from __future__ import annotations

import pytest

from tests.conftest import RunProcess

USE = """
import torch
x = torch.ones(4, device="openreg")
stream = torch.Stream("openreg")
mine = driver.malloc(100)
free, _ = driver.mem_get_info()
for device in reversed(range(driver.device_count())):  # the last is the one with the memory
    driver.set_device(device)
    assert (code := driver.lib.orDeviceReset()) in (driver.Error.SUCCESS, driver.Error.NOT_SUPPORTED), code
if code == driver.Error.SUCCESS:
    assert driver.mem_get_info()[0] > free
stream.wait_stream(torch.accelerator.current_stream())  # where kernels run later, x is not filled yet
with stream:
    y = x + 1
stream.synchronize()
print(y.tolist(), torch.openreg.memory_allocated() > 0)
with open("/proc/self/maps") as maps:
    files = {name for name in (line.split()[-1] for line in maps) if name.endswith("libopenreg.so")}
print(len(files))
"""
FIRST = "from tests.driver import openreg as driver\n"


@pytest.mark.parametrize("order", [FIRST + "import torch", "import torch\n" + FIRST])
def test_a_reset_of_one_leaves_the_memory_of_the_other(run_process: RunProcess, order: str) -> None:
    ran = run_process(order + USE)
    assert (ran.returncode, ran.stdout) == (0, "[2.0, 2.0, 2.0, 2.0] True\n1\n"), ran.stderr
