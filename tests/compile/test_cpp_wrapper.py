"""Graphs whose kernels are called by generated C++ (`cpp_wrapper`): values, order, and what errors say."""

from __future__ import annotations

import ctypes
import subprocess
import sysconfig
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it
from torch.utils.cpp_extension import include_paths

from tests.compile.compared import assert_equal_calls, assert_same
from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE
from torch_openreg.compile.entry_point import library

pytestmark = pytest.mark.usefixtures("inductor")
CPP: dict[str, str | int | bool | Callable[..., Any]] = {"cpp_wrapper": True}


def test_operators_and_kernels_forward_and_backward() -> None:
    def block(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.gelu(F.linear(F.layer_norm(x, (20,)), weight, bias)) * x

    values = (torch.randn(size, requires_grad=True) for size in ((6, 20), (20, 20), (20,)))
    assert_same(block, *values, options=CPP)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64, torch.bool])
def test_dtypes(dtype: torch.dtype) -> None:
    assert_same(lambda x: (x + x).sum(0), torch.randint(0, 2, (9, 17)).to(dtype), options=CPP)


def test_sizes_that_change_and_numbers() -> None:
    def function(x: Tensor, factor: float) -> Tensor:
        return (x * factor + x.shape[0]).sum(0)

    compiled = torch.compile(function, dynamic=True, fullgraph=True, options=CPP)
    assert_equal_calls(compiled, function, torch.randn(9, 17), 3.5, device=LAST_DEVICE)
    with torch.compiler.set_stance("fail_on_recompile"):
        for size in ((5, 17), (30, 3), (2, 1000)):
            assert_equal_calls(compiled, function, torch.randn(size), 0.25, device=LAST_DEVICE)


def test_layouts() -> None:
    compiled = torch.compile(lambda x: (x + 1).sin(), fullgraph=True, options=CPP)
    x = torch.randn(8, 6)
    views: list[Callable[[Tensor], Tensor]] = [
        lambda x: x[:0], lambda x: x[0, 0], lambda x: x.t()[1:], lambda x: x[:, ::2], lambda x: x[:1].expand(5, 6)
    ]  # fmt: skip
    for view in views:
        given, expected = view(x.to(LAST_DEVICE)), (view(x) + 1).sin()
        assert given.stride() == view(x).stride()
        torch.testing.assert_close(compiled(given).cpu(), expected)


def test_operators_with_several_results_with_lists_and_of_the_backend() -> None:
    def function(x: Tensor, index: Tensor) -> Tensor:
        values, order = torch.sort(x, -1)  # two results
        added = torch.zeros_like(x).index_put((index,), values, accumulate=True)  # a list, in place
        capped: Tensor = torch.ops.openreg.soft_cap(added + order, 2.0)  # without a C function
        return capped * 3

    assert_same(function, torch.randn(6, 5), torch.tensor([0, 2, 2, 1, 0, 2]), options=CPP)


def test_random_numbers_are_those_without_the_wrapper() -> None:
    x = torch.ones(1000, device=LAST_DEVICE)
    drawn = []
    for options in ({}, CPP):
        torch.manual_seed(5)
        compiled = torch.compile(lambda x: F.dropout(x, 0.5) + torch.rand_like(x), fullgraph=True, options=options)
        drawn.append(compiled(x).cpu())
    assert torch.equal(*drawn)


def test_a_branch_a_loop_and_the_cpu() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def function(x: Tensor, y: Tensor) -> Tensor:
        x = torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos() * 2, (x,))
        x = while_loop(lambda x: x.sum() < 100, lambda x: (x * 2,), (x,))[0]
        return x + (y.cpu() * 2).exp().to(x.device)

    for x in (torch.rand(6), -torch.rand(6)):
        assert_same(function, x, torch.rand(6), options=CPP)


@pytest.mark.needs("queue")
def test_a_call_is_queued_on_the_current_stream_of_its_device() -> None:
    function = torch.compile(lambda x, y: (x @ y).relu() * 2, fullgraph=True, options=CPP)
    x, y = torch.randn(20, 10), torch.randn(10, 30)
    given = x.to(LAST_DEVICE), y.to(LAST_DEVICE)
    function(*given)
    torch.openreg.synchronize(LAST_DEVICE)
    assert torch.openreg.current_device() == 0
    with torch.Stream(LAST_DEVICE) as stream:
        torch.openreg._sleep(3_000_000_000)
        result = function(*given)
        assert not stream.query()
    assert torch.openreg.current_device() == 0
    stream.synchronize()
    torch.testing.assert_close(result.cpu(), (x @ y).relu() * 2)


def test_several_threads() -> None:
    function = torch.compile(lambda x: (x * 2).sin().sum(0), fullgraph=True, options=CPP)
    values = [torch.randn(50, 40) for _ in range(8)]
    function(values[0].to(LAST_DEVICE))

    def run(x: Tensor) -> Tensor:
        with torch.Stream(LAST_DEVICE) as stream:
            result: Tensor = function(x.to(LAST_DEVICE))
        stream.synchronize()
        return result.cpu()

    with ThreadPoolExecutor(4) as pool:
        for result, x in zip(pool.map(run, values * 4), values * 4, strict=True):
            torch.testing.assert_close(result, (x * 2).sin().sum(0))


def test_training_gives_the_losses_of_the_cpu() -> None:
    def losses(device: str, **options: Any) -> list[float]:
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.ReLU(), torch.nn.Linear(20, 1)).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, y = torch.randn(16, 12).to(device), torch.randn(16, 1).to(device)
        loss_of = torch.compile(lambda x, y: F.mse_loss(model(x), y), **options)
        history = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        return history

    assert losses(LAST_DEVICE, options=CPP) == pytest.approx(losses("cpu", backend="eager"), rel=1e-5)


def test_a_replayed_graph() -> None:
    compiled = torch.compile(lambda x: (x @ x).sin(), fullgraph=True, options=CPP | {"triton.cudagraphs": True})
    for _ in range(4):
        x = torch.randn(6, 6)
        torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), (x @ x).sin())


def test_memory_that_has_run_out_is_named() -> None:
    grow = torch.compile(lambda x: x[:, None].expand(-1, 2**40) + 1, fullgraph=True, options=CPP)
    with pytest.raises(RuntimeError, match=r"openreg out of memory: tried to allocate \d+ bytes on openreg"):
        grow(torch.ones(3, device=LAST_DEVICE))


def test_an_operator_that_fails_names_its_cause() -> None:
    function = torch.compile(lambda x, p: torch.multinomial(p, 2) + x, fullgraph=True, options=CPP)
    x, weights = torch.zeros(2, device=LAST_DEVICE), torch.ones(3, device=LAST_DEVICE)
    assert function(x, weights).shape == (2,)
    with pytest.raises(RuntimeError, match="probability tensor contains either `inf`, `nan` or element < 0"):
        function(x, -weights)


def test_arguments_of_each_kind() -> None:
    """Called as generated code does; Inductor seldom passes a number that is no integer."""
    from torch._inductor.codecache import CppCodeCache

    class Value(ctypes.Structure):
        class Any(ctypes.Union):
            _fields_ = (("tensor", ctypes.c_void_p), ("integer", ctypes.c_int64), ("real", ctypes.c_double))

        _fields_ = (("kind", ctypes.c_int32), ("value", Any))

    fill = "static void generated(float* out, int64_t n, float x) { while (n-- > 0) out[n] = x; }"
    source = library(f"#include <cstdint>\n{fill}\n", ["float*", "const int64_t", "const float"])
    kernel = CppCodeCache.load(source).kernel
    launch = ctypes.CDLL("libtorch_openreg.so").openreg_launch_generated  # the one in this process
    out = torch.zeros(3, device=LAST_DEVICE)
    (capsule,) = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors([out])
    ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
    handle = ctypes.pythonapi.PyCapsule_GetPointer(ctypes.py_object(capsule), None)
    values = (Value * 3)(
        Value(0, Value.Any(tensor=handle)), Value(1, Value.Any(integer=2)), Value(2, Value.Any(real=2.5))
    )
    entry = ctypes.cast(kernel, ctypes.c_void_p)
    assert launch(entry, b"filled", ctypes.c_int32(out.get_device()), values, ctypes.c_int64(3)) == 0
    assert out.tolist() == [2.5, 2.5, 0.0]
    torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs([capsule])


def test_streams_inside_are_refused() -> None:
    stream = torch.Stream(LAST_DEVICE)

    def function(x: Tensor) -> Tensor:
        with stream:
            y = x + 1
        return y * 2

    with pytest.raises(Exception, match="openreg: with cpp_wrapper, Inductor cannot write the streams"):
        torch.compile(function, options=CPP)(torch.ones(2, device=LAST_DEVICE))


def test_a_c_function_without_an_operator_is_named() -> None:
    from torch_openreg.compile.c_shims import c_shims

    assert c_shims("aoti_torch_cpu_mm_out(a, b, c);") == ""
    with pytest.raises(NotImplementedError, match="calls aoti_torch_openreg_made_up, and torchgen has no"):
        c_shims("aoti_torch_openreg_made_up(buf0, arg0_1);")


def test_the_c_functions_of_all_operators_compile(tmp_path: Path) -> None:
    from torch_openreg.compile.c_shims import _operators, c_shims

    functions = c_shims("".join(f"aoti_torch_openreg_{name}();" for name in _operators()))
    assert functions.count("#include <ATen/ops/") == len(_operators()) > 150
    source = tmp_path / "functions.cpp"
    source.write_text("#include <torch/csrc/inductor/cpp_wrapper/cpu.h>\n" + functions, encoding="utf-8")
    folders = [f"-I{folder}" for folder in (sysconfig.get_paths()["include"], *include_paths())]
    compiled = subprocess.run(
        ["c++", "-std=c++20", "-fsyntax-only", *folders, str(source)], capture_output=True, text=True, check=False
    )
    assert compiled.returncode == 0, compiled.stderr


def test_another_process_compiles_nothing(run_process: RunProcess, tmp_path: Path) -> None:
    program = """
        import warnings
        warnings.simplefilter("ignore")
        import torch
        call = torch.compile(lambda x: (x @ x).exp() + 1, options={"cpp_wrapper": True})
        print(call(torch.ones(2, 2, device="openreg")).sum().item())
    """
    compiled = []
    for _ in range(2):
        run = run_process(program, TORCHINDUCTOR_CACHE_DIR=str(tmp_path))
        assert run.stdout == "33.55622482299805\n", run.stderr
        compiled.append({file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.so")})
    assert compiled[0] == compiled[1] != {}


def test_a_package_in_a_folder_with_a_space(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from torch_openreg.compile import cpp_wrapper

    folder = tmp_path / "with a space"
    folder.mkdir()
    for name in ("HEADER", "_LIBRARY"):
        installed: Path = getattr(cpp_wrapper, name)
        link = folder / installed.name
        link.symlink_to(installed)
        monkeypatch.setattr(cpp_wrapper, name, link)
    assert_same(lambda x: x * 7 - 2, torch.randn(5), options=CPP)


def test_a_build_without_the_header_compiles_and_says_what_generated_code_includes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from torch_openreg.compile import cache_key, cpp_wrapper

    for module in (cache_key, cpp_wrapper):
        monkeypatch.setattr(module, "HEADER", tmp_path / "generated_code.h")
    x = torch.ones(3, device=LAST_DEVICE)
    assert torch.compile(lambda x: x * 2 + 1)(x).tolist() == [3.0] * 3
    with pytest.raises(torch._inductor.exc.InductorError, match=r"this build does not install: add .*generated_code.h"):
        torch.compile(lambda x: x * 2 + 1, options=CPP)(x)
