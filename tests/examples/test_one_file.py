"""The device in one file: copied, renamed, and compared with the CPU in cases that its page does not cover."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "one_file"
# Runs where the device is named acme. It must print nothing.
VALUES = """
    import copy
    import acme
    import torch

    def same(make):
        there, here = make("acme"), make("cpu")
        assert there.device.type == "acme", there.device
        assert there.stride() == here.stride() and there.dtype == here.dtype, (there.stride(), here.stride())
        torch.testing.assert_close(there.cpu(), here, rtol=0, atol=0)

    def through(view):
        def make(device):
            x = torch.arange(24.0, device=device).reshape(2, 3, 4)
            view(x).mul_(2)
            return x
        return make

    same(lambda device: torch.arange(6, device=device).reshape(2, 3).t().to(torch.float64))
    same(lambda device: torch.arange(6.0).to(device).reshape(2, 3).t().contiguous())
    same(lambda device: torch.ones(0, 3).to(device))
    same(lambda device: torch.tensor(3.0, device=device) + 1)
    same(lambda device: (torch.arange(3, device=device) * 1j).conj().clone())
    same(lambda device: torch.view_as_real(torch.arange(3, device=device) * 1j).clone())
    same(lambda device: torch.arange(4.0, device=device)[1:].resize_(5)[:3])
    last = {"memory_format": torch.channels_last}
    same(lambda device: torch.empty(1, 2, 3, 4, device=device).resize_(1, 2, 2, 2, **last) * 0)
    same(lambda device: copy.deepcopy(torch.arange(4.0, device=device)[1:]))
    same(lambda device: torch.arange(4.0, device=device).masked_select(torch.arange(4, device=device) > 1))
    same(lambda device: torch.add(torch.ones(2, 3, device=device), 1, out=torch.empty(0, device=device)))
    for view in (
        lambda x: x[1], lambda x: x.transpose(0, 2), lambda x: x.view(6, 4)[:, ::2], lambda x: x.unfold(2, 2, 2),
        lambda x: torch.view_as_complex(x.view(2, 3, 2, 2)), lambda x: x[:, 0].reshape(8),
    ):
        same(through(view))
    x = torch.ones(2, device="acme")
    x.untyped_storage().resize_(16)
    assert x.untyped_storage().nbytes() == 16 and x.tolist() == [1.0, 1.0]
    assert torch.empty(0, device="acme").set_(x.untyped_storage()).numel() == 4
    other = torch.empty(0, device="acme").set_(x)
    x.fill_(5)
    assert other.tolist() == [5, 5] and other.is_set_to(x) and not other.is_set_to(x[1:])
    def trained(device):
        norm = torch.nn.BatchNorm1d(2).to(device)
        norm(torch.arange(6.0, device=device).view(3, 2))
        return torch.stack([norm.running_mean, norm.running_var])
    same(trained)
    same(lambda device: torch.nn.InstanceNorm1d(3).to(device)(torch.arange(24.0).to(device).view(2, 3, 4)))
    try:
        torch.ones(2, device="acme:1")
    except RuntimeError as error:
        assert "acme:1 does not exist: there is one device, number 0" in str(error)
    else:
        raise AssertionError("acme:1 exists")
"""


@pytest.fixture(scope="module")
def renamed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the two files, under another name."""
    folder = tmp_path_factory.mktemp("acme")
    (folder / "device.cpp").write_text((FOLDER / "device.cpp").read_text(encoding="utf-8"), encoding="utf-8")
    source = (FOLDER / "tiny.py").read_text(encoding="utf-8")
    assert source.count('"tiny"') == 1
    (folder / "acme.py").write_text(source.replace('"tiny"', '"acme"'), encoding="utf-8")
    return folder


def run(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TORCH_")}
    command = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_under_another_name_it_computes_as_the_cpu(renamed: Path) -> None:
    ran = run(renamed, VALUES)
    assert (ran.returncode, ran.stdout) == (0, ""), ran.stderr


def test_a_process_with_another_device_is_told_so(renamed: Path) -> None:
    ran = run(renamed, "import torch, acme")
    assert ran.stderr.splitlines()[-1] == (
        "ImportError: acme: the process has the device openreg already: import acme before torch"
    )


def test_it_is_as_short_as_its_page_says() -> None:
    lines = (FOLDER / "device.cpp").read_text(encoding="utf-8").splitlines()
    assert sum("LITERALINCLUDE" not in line for line in lines) < 200
