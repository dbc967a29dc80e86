"""The operators of csrc/stable, which use only PyTorch's stable interface."""

from __future__ import annotations

import gc
import re
import subprocess
from pathlib import Path

import pytest
import torch

import torch_openreg._C
import torch_openreg.stable
from tests.conftest import RunProcess
from tests.layouts import DTYPES, LAYOUTS, to_device, values
from tests.offers import DEVICES

# The operator's kernel runs as host code (csrc/kernels/stable).
pytestmark = pytest.mark.needs("host kernels")

RMS_NORM = torch.ops.openreg_stable.rms_norm
REAL = [dtype for dtype in DTYPES if dtype.is_floating_point]
# A tensor without dimensions has no last one: test_refusals.
WITH_DIMENSIONS = {name: make for name, make in LAYOUTS.items() if make(torch.float32).dim() > 0}
LIBRARIES = Path(torch_openreg._C.__file__).parent / "lib"
OPCHECKS = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """PyTorch's own RMS norm, on the CPU."""
    return torch.nn.functional.rms_norm(x, weight.shape, weight, eps)


def weight_for(x: torch.Tensor) -> torch.Tensor:
    """A weight of the input's dtype, with elements of both signs."""
    return torch.linspace(-1, 2, x.shape[-1], dtype=torch.float64).to(x.dtype)


@pytest.mark.parametrize("device", ["cpu", "openreg"])
@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("layout", WITH_DIMENSIONS)
def test_values_and_layout(layout: str, dtype: torch.dtype, device: str) -> None:
    x = LAYOUTS[layout](dtype)
    weight = weight_for(x)
    torch.openreg.reset_fallback_stats()
    actual = RMS_NORM(to_device(x) if device == "openreg" else x, weight.to(device), 1e-3)
    assert not any("rms_norm" in name for name in torch.openreg.fallback_stats())
    assert actual.dtype == dtype
    assert actual.shape == x.shape
    assert actual.is_contiguous()
    assert actual.device.type == device
    torch.testing.assert_close(actual.cpu(), rms_norm(x.double(), weight.double(), 1e-3).to(dtype))


@pytest.mark.parametrize("device", ["cpu", "openreg"])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (0, 3), (2, 0), (0,), (300, 700)], ids=str)
def test_shapes(shape: tuple[int, ...], device: str) -> None:
    x = values(shape, torch.float32)
    weight = weight_for(x)
    torch.testing.assert_close(RMS_NORM(x.to(device), weight.to(device), 1e-5).cpu(), rms_norm(x, weight, 1e-5))


def test_weight_with_a_stride() -> None:
    x, weight = values((3, 4), torch.float32), torch.arange(8.0)[::2]
    actual = RMS_NORM(x.to("openreg"), torch.arange(8.0, device="openreg")[::2], 1e-5)
    torch.testing.assert_close(actual.cpu(), rms_norm(x, weight, 1e-5))


def test_input_with_an_offset_and_lazy_negation() -> None:
    z = torch.complex(torch.arange(12.0), torch.arange(12.0) - 5).reshape(3, 4)
    weight = torch.ones(4)
    negative = z.to("openreg").conj().imag[1:]
    assert negative.is_neg()
    actual = RMS_NORM(negative, weight.to("openreg"), 1e-5)
    torch.testing.assert_close(actual.cpu(), rms_norm(z.conj().imag[1:].resolve_neg(), weight, 1e-5))


def test_arguments_stay_as_they_are() -> None:
    x, weight = torch.arange(6.0, device="openreg").view(2, 3), torch.ones(3, device="openreg")
    RMS_NORM(x, weight, 1e-5)
    assert x.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    assert (x._version, weight._version) == (0, 0)


@pytest.mark.parametrize("current", range(len(DEVICES)))
def test_each_device(current: int) -> None:
    x = values((3, 4), torch.float32)
    with torch.accelerator.device_index(current):
        for device in map(torch.device, DEVICES):
            result = RMS_NORM(x.to(device), torch.ones(4, device=device), 1e-5)
            assert result.device == device
            torch.testing.assert_close(result.cpu(), rms_norm(x, torch.ones(4), 1e-5))
        assert torch.accelerator.current_device_index() == current


@pytest.mark.needs("queue")
def test_runs_on_the_current_stream_only() -> None:
    x, weight = torch.ones(2, 4, device="openreg"), torch.ones(4, device="openreg")
    torch.accelerator.synchronize()
    with torch.Stream("openreg") as busy:
        torch.openreg._sleep(200_000_000)
        behind = RMS_NORM(x, weight, 0.0)
        assert not busy.query()
    with torch.Stream("openreg") as idle:
        beside = RMS_NORM(x, weight, 0.0)
        idle.synchronize()
        assert beside.cpu().tolist() == [[1.0] * 4] * 2
    assert not busy.query()
    busy.synchronize()
    assert behind.cpu().tolist() == [[1.0] * 4] * 2


def test_memory_of_the_arguments_is_not_reused_too_early() -> None:
    with torch.Stream("openreg") as stream:
        torch.openreg._sleep(100_000_000)
        source = torch.full((64, 64), 3.0, device="openreg")
        result = RMS_NORM(source.t(), torch.ones(64, device="openreg"), 0.0)
        del source
        gc.collect()
        other = torch.zeros(64, 64, device="openreg")
        stream.synchronize()
    assert result.cpu().unique().tolist() == [1.0]
    assert other.cpu().unique().tolist() == [0.0]


REFUSALS = [
    (lambda x, w: (x.long(), w), "rms_norm takes float, double, half or bfloat16, got Long"),
    (lambda x, w: (x, w.double()), "the weight of rms_norm has the dtype of its input, Float, got Double"),
    (lambda x, w: (x[0, 0], w), "takes an input of one or more dimensions and a weight of one, got 0 and 1"),
    (lambda x, w: (x, x), "takes an input of one or more dimensions and a weight of one, got 2 and 2"),
]


@pytest.mark.parametrize("device", ["cpu", "openreg", "meta"])
@pytest.mark.parametrize(("make", "message"), REFUSALS)
def test_refusals(make: object, message: str, device: str) -> None:
    assert callable(make)
    x, weight = torch.ones(2, 3, device=device), torch.ones(3, device=device)
    with pytest.raises(RuntimeError, match=re.escape(message)):
        RMS_NORM(*make(x, weight), 1e-5)


@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_refuses_a_weight_of_another_size(device: str) -> None:
    x = torch.ones(2, 3, device=device)
    with pytest.raises(RuntimeError, match="one element for each of the input's last dimension, 3, got 2"):
        RMS_NORM(x, x[0, :2], 1e-5)


def test_refuses_two_devices() -> None:
    x = torch.ones(2, 3, device="openreg")
    for other in DEVICES[1:]:
        with pytest.raises(
            RuntimeError, match=f"the input of rms_norm is on openreg:0, its weight on {other}: move one"
        ):
            RMS_NORM(x, torch.ones(3, device=other), 1e-5)
    with pytest.raises(RuntimeError, match="the input of rms_norm is on cpu, its weight on openreg:0: move one"):
        RMS_NORM(x.cpu(), x[0], 1e-5)


@pytest.mark.needs("faults", "host kernels")
def test_error_of_the_driver(run_process: RunProcess) -> None:
    ran = run_process(
        """
        import ctypes
        import torch, torch_openreg.stable
        driver = ctypes.CDLL("libopenreg.so")
        x = torch.ones(2, 3, device="openreg")
        weight = torch.ones(3, device="openreg")
        torch.accelerator.synchronize()
        driver.orInjectFault(1, 0, 1)  # the next kernel fails
        for attempt in range(2):
            try:
                torch.ops.openreg_stable.rms_norm(x, weight, 1e-5)
                torch.accelerator.synchronize()
            except RuntimeError as error:
                print(str(error).splitlines()[0])
        """
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("orErrorLaunchFailure: ") == 2, ran.stdout


@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_gradients_against_differences(device: str) -> None:
    x = values((2, 3), torch.float64).div(8).add(0.03).to(device).requires_grad_()
    weight = torch.linspace(-1, 2, 3, dtype=torch.float64).to(device).requires_grad_()
    for arguments in ((x, weight), (x[0].detach().requires_grad_(), weight), (x.detach(), weight)):
        assert torch.autograd.gradcheck(lambda *tensors: RMS_NORM(*tensors, 1e-3), arguments)
        assert torch.autograd.gradgradcheck(lambda *tensors: RMS_NORM(*tensors, 1e-3), arguments)


# Since 2.14 PyTorch warns about what its own check does.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("device", ["cpu", "openreg"])
def test_opcheck(device: str) -> None:
    x, weight = values((2, 3), torch.float32).to(device), torch.ones(3, device=device)
    for arguments in ((x, weight, 1e-5), (x.clone().requires_grad_(), weight.clone().requires_grad_(), 1e-5)):
        torch.library.opcheck(RMS_NORM.default, arguments, test_utils=OPCHECKS)
    turned = values((3, 2), torch.float32).to(device).t()
    torch.library.opcheck(RMS_NORM.default, (turned, weight, 1e-5), test_utils=OPCHECKS)


def test_traced_sizes_stay_symbols() -> None:
    torch._dynamo.reset()
    x, weight = torch.ones(4, 8, device="openreg"), torch.ones(8, device="openreg")
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(x, 1)
    torch._dynamo.mark_dynamic(weight, 0)
    compiled = torch.compile(lambda x, weight: RMS_NORM(x, weight, 0.0), backend="aot_eager", fullgraph=True)
    assert compiled(x, weight).shape == (4, 8)


def test_library_asks_pytorch_for_functions_of_c_only() -> None:
    command = ["nm", "-D", "--undefined-only", str(LIBRARIES / "libopenreg_stable.so")]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    names = {line.split()[-1] for line in listed.splitlines()}
    of_torch = {name for name in names if name.startswith(("torch_", "aoti_torch_"))}
    assert {"torch_library_impl", "torch_stream_native_handle"} <= of_torch
    assert not {name for name in names if re.match(r"_ZN?K?(2at|3c10|5torch)", name)}


@pytest.mark.parametrize("device", ["cpu", "openreg"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_gradients_of_numbers_whose_squares_do_not_fit(dtype: torch.dtype, device: str) -> None:
    torch.manual_seed(0)
    found = []
    for function in (lambda x, w: RMS_NORM(x, w, 1e-5), lambda x, w: rms_norm(x, w, 1e-5)):
        x = (torch.randn(4, 64) * 300).to(dtype).to(device).requires_grad_()
        weight = torch.ones(64, dtype=dtype, device=device, requires_grad=True)
        function(x, weight).square().sum().backward()
        assert x.grad is not None
        assert weight.grad is not None
        found.append((x.grad.float().cpu(), weight.grad.float().cpu()))
        torch.manual_seed(0)
    torch.testing.assert_close(found[0], found[1], rtol=2e-2, atol=2e-2)
    assert found[0][0].abs().max() > 0
