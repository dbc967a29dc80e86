from __future__ import annotations

import torch


def test_capability_lists_what_runs() -> None:
    supported = torch.accelerator.get_device_capability("openreg:0")["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.int64} <= supported
    assert not {torch.qint8, torch.quint4x2} & supported
    for dtype in supported:
        assert torch.zeros(3, dtype=dtype).to("openreg").cpu().dtype == dtype


def test_synchronize_every_way() -> None:
    torch.openreg.synchronize()
    torch.openreg.synchronize("openreg:1")
    torch.accelerator.synchronize()


def test_backward_across_devices() -> None:
    x = torch.arange(6.0, requires_grad=True)
    y = (x.to("openreg:0") * 3).to("openreg:1").exp()
    (y.sum() * 2).backward()
    expected = torch.autograd.grad(((x * 3).exp().sum() * 2), x)[0]
    torch.testing.assert_close(x.grad, expected)
