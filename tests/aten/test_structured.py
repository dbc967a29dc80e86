"""Operators whose registration is generated: what happens around the kernel. Values are compared elsewhere."""

from __future__ import annotations

import importlib.util
import math
import re
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tests.layouts import values
from tests.offers import DEVICES, LAST_DEVICE
from tests.runtime.busy import assert_queued

FOLDER = Path(__file__).parents[2] / "csrc" / "kernels" / "library"
pytestmark = pytest.mark.skipif(
    "aten::mm.out" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
    reason="this build has no kernels",
)


@pytest.fixture
def generator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The generator, with its list in a temporary folder."""
    if not FOLDER.is_dir():
        pytest.skip("these kernels are made in another way: csrc/kernels is not there")
    spec = importlib.util.spec_from_file_location("generate_structured", FOLDER / "generate_structured.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "generate_structured", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "LIST", tmp_path / "structured.toml")
    return module


def listed(structured: str = "", in_place: str = "") -> str:
    return f"[[structured]]\noperators = [{structured}]\n[[in_place]]\noperators = [{in_place}]\n"


@pytest.mark.needs("host kernels")
def test_each_overload_of_the_list_has_a_kernel(generator: ModuleType) -> None:
    generator.LIST = FOLDER / "structured.toml"
    read = generator.read()
    overloads = [function.func.name for operator in read.operators for function in operator.functions.values()]
    overloads += [function.function.func.name for function in read.functions]
    kernels = torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1")
    assert {f"aten::{name}" for name in overloads} <= set(kernels)


def test_each_entry_of_the_list_comes_into_one_file_with_its_like(generator: ModuleType) -> None:
    generator.LIST = FOLDER / "structured.toml"
    read = generator.read()
    parts = read.parts(4)
    for kind in ("operators", "functions", "stubs"):
        names = [str(entry) for part in parts for entry in getattr(part, kind)]
        assert sorted(names) == sorted(map(str, getattr(read, kind)))
    types = [{generator.types(operator.last) for operator in part.operators} for part in parts]
    assert sum(map(len, types)) == len(set.union(*types))
    sizes = [part.size() for part in parts]
    assert max(sizes) < 1.5 * min(sizes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (listed('"exp"'), r"structured.toml: \[\[structured\]\] has no operator 'exp'"),
        (listed('"exp.out", "exp.out"'), "'exp.out' stands there twice"),
        (listed(in_place='"exp_"'), r"\[\[in_place\]\] has no operator 'exp_'"),
        ('[[native]]\noperators = ["exp"]', r"\[\[native\]\] has no operator 'exp'"),
        ('[[native]]\noperators = ["cummax.out"]', "what computes 'cummax.out' on the CPU is for the CPU alone$"),
        (
            '[[structured]]\nthrough = "stubs"\noperators = ["mm.out"]',
            "what computes 'mm.out' on the CPU is for the CPU alone, and calls no stub",
        ),
    ],
)
def test_the_list_is_checked(generator: ModuleType, text: str, message: str) -> None:
    generator.LIST.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        generator.read()


def test_an_operator_is_its_class_and_its_registrations(generator: ModuleType) -> None:
    generator.LIST.write_text(listed('"sort.values_stable"', '"fill_.Scalar"'), encoding="utf-8")
    source = generator.source(generator.read())
    assert "struct sort_values_stable : LibraryKernel<sort_values_stable, false> {" in source
    assert "openreg::out_variant<sort_values_stable>({&values, &indices}, self, stable, dim, descending);" in source
    assert 'm.impl("sort.values_stable", sort_values_stable::out);' in source
    assert 'm.impl("fill_.Scalar", fill_Scalar::in_place_only);' in source
    assert "kOnOneDevice = std::array" in source


def test_what_ends_in_a_stub_has_no_kernel_of_its_own(generator: ModuleType) -> None:
    text = '[[structured]]\nthrough = "stubs"\noperators = ["neg.out"]\n[[native]]\noperators = ["where.self"]\n'
    stubs = '[[stubs]]\nheader = "BinaryOps.h"\nwaits = true\nstubs = ["fmod_stub"]\n'
    generator.LIST.write_text(text + stubs, encoding="utf-8")
    source = generator.source(generator.read())
    assert "struct neg_out {\n  using Meta = at::native::structured_neg_out;" in source
    assert "compute(" not in source
    assert "at::Tensor & condition, const at::Tensor & self, const at::Tensor & other)>(at::native::where));" in source
    assert (
        'REGISTER_PRIVATEUSE1_DISPATCH(fmod_stub, (&openreg::LibraryLoop<"fmod", fmod_stub, true>::kernel))' in source
    )
    assert "#include <ATen/native/BinaryOps.h>" in source


@pytest.mark.needs("queue", "host kernels")
def test_a_launch_with_dtypes_that_are_known_does_not_wait() -> None:
    def steps(x: torch.Tensor) -> torch.Tensor:
        return (x + 1).cumsum(0).view(2, 4).mm(x.view(4, 2)).softmax(1).add_(1)

    x = torch.ones(8, device="openreg", dtype=torch.float64)
    steps(x)
    torch.openreg._sleep(30_000_000)
    y = steps(x)
    busy = not torch.openreg.current_stream().query()
    assert busy
    assert y.tolist() == [[1.5, 1.5], [1.5, 1.5]]


def test_an_operator_that_refuses_values_answers_behind_the_work_before_it() -> None:
    x = torch.zeros(4, device="openreg")
    torch.openreg._sleep(20_000_000)
    x.add_(1)
    with pytest.raises(IndexError, match="index 4 is out of bounds for dimension 0 with size 4"):
        x[torch.tensor([4], device="openreg")]
    assert x[torch.tensor([3, 0])].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("times", [1, 2])
def test_what_a_kernel_does_not_take_is_refused_at_the_call(times: int) -> None:
    flags = torch.ones(2, 2, dtype=torch.bool, device="openreg")
    bytes_ = torch.ones(3, dtype=torch.uint8, device="openreg")
    assert bytes_.clamp(max=3).tolist() == [1, 1, 1]  # the same call with a number that fits
    for _ in range(times):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            flags.mm(flags)
        with pytest.raises(RuntimeError, match="value cannot be converted to type uint8_t without overflow"):
            bytes_.clamp(max=300)
        with pytest.raises(RuntimeError, match="cannot be converted to type float without overflow"):
            torch.ones(2, device="openreg").fill_(1j)
    torch.accelerator.synchronize()
    assert (flags & flags).all().item()


# Each dtype with its largest number, and with one that is too large.
LARGEST = [
    *((torch.uint8, 127, 256), (torch.int8, -127, 128), (torch.int16, 32767, 32768), (torch.int32, 2**31 - 1, 2**31)),
    *((torch.int64, 50256, 1e19), (torch.float16, -65504.0, 65536.0), (torch.bfloat16, -math.inf, 3.4e38)),
    *((torch.float32, torch.finfo(torch.float32).min, 3.5e38), (torch.float64, math.nan, 1j)),
    *((torch.complex64, 1000 + 0j, 1e39), (torch.int32, 7 + 0j, math.inf), (torch.int64, 2**53, math.nan)),
]


@pytest.mark.needs("queue", "host kernels")
@pytest.mark.parametrize(("dtype", "fits", "refused"), LARGEST, ids=str)
def test_a_number_that_the_dtype_holds_is_queued_and_another_one_refused_at_the_call(
    dtype: torch.dtype, fits: complex, refused: complex
) -> None:
    mask = torch.tensor([True, False])
    expected, mask_on_device = torch.zeros(2, dtype=dtype), mask.to("openreg")
    x = expected.to("openreg")
    x.masked_fill_(mask_on_device, type(fits)(1))  # makes the dtypes known
    with pytest.raises(RuntimeError) as of_cpu:
        expected.masked_fill_(mask, refused)
    for few in (2, 2, 0, 0):  # also where there are no elements
        torch.openreg._sleep(20_000_000)
        with pytest.raises(RuntimeError, match=re.escape(str(of_cpu.value))):
            x[:few].masked_fill_(mask_on_device[:few], refused)
    assert_queued(lambda: x.masked_fill_(mask_on_device, fits))
    torch.testing.assert_close(x.cpu(), expected.masked_fill_(mask, fits), rtol=0, atol=0, equal_nan=True)


@pytest.mark.needs("queue", "host kernels")
def test_masked_fill_waits_for_what_the_library_may_reject() -> None:
    x, mask = torch.zeros(2, 3, device="openreg"), torch.tensor([True, False, True], device="openreg")
    number, bytes_ = torch.tensor(7.0, device="openreg"), torch.zeros(3, dtype=torch.int8, device="openreg")
    x.masked_fill_(mask, 1.0), x.masked_fill_(mask, number)
    assert_queued(lambda: x.masked_fill(mask, number))
    assert_queued(lambda: x.t().masked_fill_(mask[:, None], 2.0))
    assert x.tolist() == [[2.0, 0.0, 2.0]] * 2
    calls = [
        (lambda: x.masked_fill_(mask[:2], 1.0), r"The size of tensor a \(3\) must match the size of tensor b \(2\)"),
        (lambda: x[0].masked_fill_(mask.expand(2, 3), 1.0), r"output with shape \[3\] doesn't match"),
        (lambda: x.masked_fill_(mask, number.view(1)), "only supports a 0-dimensional value tensor"),
        (lambda: bytes_.masked_fill_(mask, number * 100), "value cannot be converted to type int8_t without overflow"),
        (lambda: x.masked_fill_(mask.long(), 1.0), "only supports boolean masks"),
    ]
    for call, message in calls:
        torch.openreg._sleep(20_000_000)
        with pytest.raises(RuntimeError, match=message):
            call()


def test_a_call_without_elements_is_no_trial() -> None:
    flags = torch.ones(2, 2, dtype=torch.bool, device="openreg")
    assert torch.addmm(flags[:0], flags[:0], flags).shape == (0, 2)
    with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
        torch.addmm(flags, flags, flags)


@pytest.mark.needs("host kernels")
def test_devices_must_agree() -> None:
    x, y = torch.ones(2, 2, device="openreg:0"), torch.ones(2, 2, device=LAST_DEVICE)
    for other in (y.to(device) for device in ("cpu", *DEVICES[1:])):
        with pytest.raises(RuntimeError, match=rf"Expected all tensors .* got mat2 is on {other.device}"):
            x.mm(other)
        with pytest.raises(RuntimeError, match=r"at least two devices, openreg:0 and "):
            x.masked_fill_(other > 0, 1.0)
        with pytest.raises(RuntimeError, match=r"got tensors is on .*different from other tensors on openreg:0"):
            torch.cat([x, other])
        with pytest.raises(
            RuntimeError, match=rf"Expected out tensor to have device openreg:0, but got {other.device}"
        ):
            torch.sum(x, 0, out=other)
    with torch.openreg.device(LAST_DEVICE):
        assert x.mm(x).device == x.device
    assert (2 - y).device == y.device


def test_a_cpu_tensor_is_taken_as_it_is_at_the_call() -> None:
    x, number, index = torch.ones(2, device="openreg"), torch.tensor(3.0), torch.tensor([1])
    torch.openreg._sleep(20_000_000)
    product = x * number
    number.fill_(5.0)
    picked = x[index]
    index.fill_(0)
    assert product.tolist() == [3.0, 3.0]
    assert picked.tolist() == [1.0]


def test_outputs() -> None:
    x = torch.arange(6.0, device="openreg").view(2, 3)
    columns = torch.zeros(2, 4, device="openreg")
    assert torch.mm(x, x.t(), out=columns[:, ::2]).stride() == (4, 2)
    assert columns.tolist() == [[5.0, 0.0, 14.0, 0.0], [14.0, 0.0, 50.0, 0.0]]
    grown = torch.empty(0, device="openreg")
    address = torch.exp(x, out=grown).data_ptr()
    assert torch.exp(x, out=grown).data_ptr() == address
    with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
        torch.exp(x[0], out=grown)
    torch.mm(x, x.t(), out=(square := torch.ones(2, 2, device="openreg")))
    torch.mm(square, square, out=square)
    expected = torch.tensor([[5.0, 14.0], [14.0, 50.0]])
    assert square.tolist() == [[221.0, 770.0], [770.0, 2696.0]]
    assert torch.add(x, x, out=x).tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]
    assert torch.equal(torch.mm(x / 2, x.t() / 2).cpu(), expected)


def test_outputs_that_overlap_are_refused() -> None:
    x = torch.arange(6.0, device="openreg")
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torch.cumsum(x[:4], 0, out=x[1:5])
    with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
        torch.triu(x[:4].view(2, 2), out=x[1:5].view(2, 2))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.cumsum(x[:3], 0, out=x[:1].expand(3))
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x[:1].expand(3).add_(1)
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_the_state_of_the_calling_thread_stays_outside() -> None:
    x = torch.ones(4, 4, device="openreg")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert x.mm(x).dtype == torch.float32
        assert torch.logsumexp(x, 1).dtype == torch.float32
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiled:
        torch.addcmul(x.half(), x.half(), x.half())
    assert {event.key for event in profiled.events() if event.key.startswith("aten::zeros")} == set()


def test_lazy_bits_reach_the_kernel() -> None:
    x = torch.tensor([[1 + 2j, 3j]])
    here = x.to("openreg")
    assert torch.equal((here.conj() @ here.t()).cpu(), x.conj() @ x.t())
    assert torch.equal((here.conj().imag + 1).cpu(), x.conj().imag + 1)
    assert torch.vdot(here[0], here[0]).item() == torch.vdot(x[0], x[0]).item()


def test_threads_share_what_is_known_of_a_kernel() -> None:
    results: list[list[float]] = []

    def work(number: int) -> None:
        x = torch.full((16,), float(number), device="openreg")
        for _ in range(50):
            x = (x * 2 - x).clamp(min=-1.0)
        results.append(x.tolist())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == [[float(number)] * 16 for number in range(4)]


def test_index_put_with_cpu_indices() -> None:
    x = torch.zeros(4, device="openreg")
    x[torch.tensor([0, 2])] = torch.tensor([5.0, 6.0], device="openreg")
    assert x.tolist() == [5.0, 0.0, 6.0, 0.0]
    x[torch.tensor([True, False, False, True], device="openreg")] = 1.0
    assert x.tolist() == [1.0, 0.0, 6.0, 1.0]


@pytest.mark.needs("host kernels")
def test_an_mlp_trains_like_on_the_cpu_and_falls_back_nowhere() -> None:
    losses = []
    torch.openreg.reset_fallback_stats()
    for device in ("cpu", "openreg"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).to(device)
        x, y = values((6, 8), torch.float32).to(device) / 20, (torch.arange(6) % 2).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        steps = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            steps.append(loss.item())
        losses.append(steps)
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)  # processors differ in the rounding of a + alpha * b
    assert losses[0][-1] < losses[0][0]
    assert torch.openreg.fallback_stats() == {}
