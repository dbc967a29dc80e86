"""OPENREG_NATIVE_KERNELS decides whether native kernels are loaded."""

from __future__ import annotations

import pytest

import torch_openreg
from tests.conftest import RunProcess
from torch_openreg import _C

SOURCE = 'import torch; print(torch.openreg.kernel_source("aten::add.Tensor"))'


@pytest.mark.parametrize("choice", ["auto", "on", "off", None])
def test_choices(run_process: RunProcess, choice: str | None) -> None:
    if choice == "on" and not _C._has_modules():
        pytest.skip("the driver takes no modules")
    result = run_process(SOURCE, **({} if choice is None else {"OPENREG_NATIVE_KERNELS": choice}))
    has_host_kernels = torch_openreg._build_info.HOST_KERNELS
    is_native = choice == "on" or (choice != "off" and _C._has_modules() and not has_host_kernels)
    assert result.stderr == ""
    assert result.stdout.strip() == ("native" if is_native else "host" if has_host_kernels else "composite")


def test_a_wrong_value(run_process: RunProcess) -> None:
    result = run_process("import torch_openreg", status=1, OPENREG_NATIVE_KERNELS="yes")
    assert "OPENREG_NATIVE_KERNELS is 'auto', 'on' or 'off', got 'yes'" in result.stderr


@pytest.mark.skipif(_C._has_modules(), reason="the driver takes modules")
def test_on_without_modules(run_process: RunProcess) -> None:
    result = run_process("import torch_openreg", status=1, OPENREG_NATIVE_KERNELS="on")
    assert "the driver has no orModuleLoad" in result.stderr
