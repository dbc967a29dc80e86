from __future__ import annotations

import pytest
import torch

from tests.conftest import RunProcess


def test_generated_methods() -> None:
    x = torch.ones(2).openreg()
    assert x.is_openreg
    assert not torch.ones(2).is_openreg
    assert torch.nn.Linear(2, 2).openreg().weight.device == torch.device("openreg:0")
    assert torch.ones(2).untyped_storage().openreg().device == torch.device("openreg:0")


def test_the_module_is_registered() -> None:
    assert torch.get_device_module("openreg") is torch.openreg
    assert torch._C._get_privateuse1_backend_name() == "openreg"
    assert set(torch.openreg.__all__) <= set(dir(torch.openreg))


def test_documented_names_have_docstrings() -> None:
    for name in torch.openreg.__all__:
        assert getattr(torch.openreg, name).__doc__, name


@pytest.mark.needs("simulator")
def test_launch_modes_give_the_same_values(run_process: RunProcess) -> None:
    code = """
        import torch
        torch.manual_seed(0)
        x = torch.randn(64, 64, device="openreg")
        for _ in range(20):
            x = (x.t() * 0.5).abs().clone() - x[:, ::1].mean()
        print(x.double().sum().item())
        """
    outputs = {mode: run_process(code, OPENREG_LAUNCH=mode) for mode in ("auto", "async", "inline")}
    assert all(o.returncode == 0 for o in outputs.values()), outputs
    assert len({o.stdout for o in outputs.values()}) == 1


def test_checkpoint_restores_the_random_state() -> None:
    from torch.utils.checkpoint import checkpoint

    x = torch.ones(100, device="openreg", requires_grad=True)
    y = checkpoint(torch.nn.functional.dropout, x, 0.5, use_reentrant=False)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
