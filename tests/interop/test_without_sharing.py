"""Where the driver has no openreg_ipc.h, every way to share device memory raises in the process that tries."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.offers import LAST_DEVICE, OFFERS

pytestmark = pytest.mark.skipif(OFFERS["sharing"][0](), reason="the driver shares memory")
MEMORY = (
    rf"^memory of {LAST_DEVICE} cannot be shared with another process, since the driver has no openreg_ipc.h: share or "
    r"send tensor.cpu\(\), and move it to the device there$"
)


@pytest.mark.parametrize("make", [lambda x: x, torch.nn.Parameter, lambda x: x[:0].clone(), lambda x: {"x": x}])
def test_device_memory_cannot_be_sent(make: Callable[[torch.Tensor], object]) -> None:
    queue = torch.multiprocessing.get_context("spawn").SimpleQueue()
    with pytest.raises(NotImplementedError, match=MEMORY):
        queue.put(make(torch.ones(2, device=LAST_DEVICE)))


def test_device_memory_cannot_be_shared() -> None:
    x = torch.ones(2, device=LAST_DEVICE)
    uses: list[Callable[[], object]] = [
        x.share_memory_,
        x.untyped_storage().share_memory_,
        x._typed_storage()._share_memory_,
        lambda: torch.UntypedStorage._new_shared(8, device=LAST_DEVICE),
        lambda: x._typed_storage()._new_shared(2, device=LAST_DEVICE),
        torch.nn.Linear(2, 2, device=LAST_DEVICE).share_memory,
    ]
    for use in uses:
        with pytest.raises(NotImplementedError, match=MEMORY):
            use()
    assert not x.is_shared()


def test_events_cannot_be_shared() -> None:
    with pytest.raises(NotImplementedError, match=f"^events of {LAST_DEVICE} cannot be shared with another process"):
        torch.openreg.InterprocessEvent(LAST_DEVICE)


def test_workers_that_return_device_tensors_end_with_the_message(tmp_path: Path) -> None:
    script = tmp_path / "workers.py"
    script.write_text(
        "import torch\n"
        "class Data(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 2\n"
        f"    def __getitem__(self, index): return torch.ones(2, device='{LAST_DEVICE}')\n"
        "if __name__ == '__main__':\n"
        "    list(torch.utils.data.DataLoader(Data(), 2, num_workers=1, multiprocessing_context='spawn'))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert f"memory of {LAST_DEVICE} cannot be shared with another process" in done.stderr
