"""A wrong call raises what the CPU raises, at the call or at the next wait, and the device stays usable.

Each wrong call follows a similar valid one, from which the backend might have cached too much.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import gelu, hardshrink, linear
from torch.testing import assert_close

from tests.conftest import RunProcess

Call = Callable[[str], object]
HALF, COMPLEX = torch.bfloat16, torch.complex64


def ones(*sizes: int, on: str, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.ones(*sizes, device=on, dtype=dtype)


def with_weight(*weight: int) -> Call:
    return lambda on: linear(
        ones(3, 3, on=on, dtype=HALF), ones(*weight, on=on, dtype=HALF), ones(3, on=on, dtype=HALF)
    )


def addmm(dtype: torch.dtype, inner: int, columns: int, function: Callable[..., object] = torch.addmm) -> Call:
    def call(on: str) -> object:
        factors = ones(3, inner, on=on, dtype=dtype), ones(inner, columns, on=on, dtype=dtype)
        return function(ones(3, on=on, dtype=dtype), *factors)

    return call


def less(*dtypes: torch.dtype) -> Call:
    return lambda on: torch.lt(*(ones(2, on=on, dtype=dtype) for dtype in dtypes))


def addcmul(value: complex) -> Call:
    return lambda on: torch.addcmul(*(ones(2, on=on, dtype=COMPLEX) for _ in range(3)), value=value)


def pair(make: Callable[[Any], Call], right: object, wrong: object) -> tuple[Call, Call]:
    return make(right), make(wrong)


MISTAKES: dict[str, tuple[Call, Call]] = {
    "linear, wrong bias": (with_weight(3, 3), with_weight(2, 3)),
    **{
        f"addmm, wrong bias, {str(dtype).removeprefix('torch.')}": (addmm(dtype, 3, 3), addmm(dtype, 3, 2))
        for dtype in (torch.float16, HALF, torch.float32, torch.int64)
    },
    "addmm of no inner elements": (addmm(torch.float32, 0, 3), addmm(torch.float32, 0, 2)),
    "_addmm_activation": pair(lambda columns: addmm(torch.float32, 3, columns, torch._addmm_activation), 3, 2),
    "renorm": pair(lambda dim: lambda on: ones(2, 3, on=on).renorm(2, dim, 1.0), 0, 3),
    "less than": (less(torch.int8, torch.int64), less(torch.complex128, torch.complex128)),
    "hardshrink": pair(lambda by: lambda on: hardshrink(ones(2, on=on), by), 2 + 0j, 2 + 1j),
    "addcmul": (addcmul(1j), addcmul(1e300j)),
    "_foreach_norm": pair(
        lambda dtype: lambda on: torch._foreach_norm([ones(2, on=on)], dtype=dtype), torch.float64, torch.int32
    ),
    "_neg_view of bool": pair(
        lambda dtype: lambda on: torch._neg_view(ones(2, on=on, dtype=dtype)).resolve_neg(), torch.float32, torch.bool
    ),
    "clamp": pair(lambda to: lambda on: ones(2, on=on, dtype=torch.uint8).clamp(max=to), 3, 300),
    "gelu": pair(lambda by: lambda on: gelu(ones(2, on=on), approximate=by), "tanh", "cubic"),
}


def outcome(call: Call, on: str) -> object:
    """The values, or the type and message of the exception, raised by the call or by the wait for it."""
    try:
        result = call(on)
        if on != "cpu":
            torch.accelerator.synchronize()
        results = result if isinstance(result, list | tuple) else [result]
        return [one.cpu() for one in results]
    except Exception as error:
        return type(error).__name__, str(error).partition(" (raised by the kernel ")[0].splitlines()[0]


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_after_a_good_call_raises_what_the_cpu_raises(name: str) -> None:
    good, bad = MISTAKES[name]
    assert_close(outcome(good, "openreg"), outcome(good, "cpu"))
    expected = outcome(bad, "cpu")
    assert isinstance(expected, tuple), "the CPU raises nothing"
    assert outcome(bad, "openreg") == expected
    assert (ones(2, on="openreg") + 1).tolist() == [2, 2]
    assert_close(outcome(good, "openreg"), outcome(good, "cpu"))


@pytest.mark.parametrize("invert", [False, True])
def test_isin_of_a_number(invert: bool) -> None:
    elements = torch.tensor([3, 1, 2])
    for number in (1, 7):
        there = torch.isin(number, elements.to("openreg"), invert=invert)
        assert_close(there.cpu(), torch.isin(number, elements, invert=invert))
        out = torch.empty((), dtype=torch.bool, device="openreg")
        assert torch.isin(number, elements.to("openreg"), invert=invert, out=out) is out
        assert_close(out.cpu(), there.cpu())


@pytest.mark.needs("host kernels")  # the CPU fallback returns what the CPU does
@pytest.mark.parametrize("sizes", [(0, 2), (3, 0)])
@pytest.mark.parametrize("beta", [0, 2])
def test_a_matrix_without_elements_leaves_what_is_added(sizes: tuple[int, int], beta: int) -> None:
    """The CPU returns the sizes of the added tensor; its own meta function, and CUDA, return those of the product."""
    added = torch.full((), float("nan") if beta == 0 else 5.0)
    result = torch.addmv(
        added.to("openreg"), torch.ones(sizes).to("openreg"), torch.ones(sizes[1]).to("openreg"), beta=beta
    )
    assert_close(result.cpu(), torch.full(sizes[:1], 5.0 * beta))


LATE = """
    import torch
    def attempt(call):
        try:
            return call()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
    flags = torch._neg_view(torch.ones(2, dtype=torch.bool, device="openreg"))
    x = torch.arange(3.0, device="openreg")
    stream, event = torch.accelerator.current_stream(), torch.Event("openreg")
    torch.openreg._sleep(1_000_000)
"""
WAITS = {
    "the device": "torch.accelerator.synchronize()",
    "a stream": "stream.synchronize()",
    "an event": "(event.record(), event.synchronize())",
    "a copy": "x.tolist()",
    "a number": "x[0].item()",
    "a branch": "bool(x[0])",
    "a copy that need not wait": "torch.empty(3).copy_(x, non_blocking=True)",
    "an index": "x[torch.tensor([1], device='openreg')]",
}


@pytest.mark.needs("simulator", "kernels")
@pytest.mark.parametrize("wait", WAITS)
def test_who_waits_gets_what_a_queued_kernel_raised_and_only_once(wait: str, run_process: RunProcess) -> None:
    code = (
        LATE
        + f"""
    flags.resolve_neg()
    print(attempt(lambda: {WAITS[wait]}))
    print(x.tolist(), torch.accelerator.synchronize())
    """
    )
    ran = run_process(code, OPENREG_LAUNCH="async")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "NotImplementedError: \"neg_cpu\" not implemented for 'Bool' (raised by the kernel strided_copy of openreg:0 "
        "after the call that queued it had returned; with OPENREG_LAUNCH=inline that call raises it)",
        "[0.0, 1.0, 2.0] None",
    ]


@pytest.mark.needs("simulator", "kernels")
def test_the_first_of_several_is_kept_and_another_device_knows_nothing(run_process: RunProcess) -> None:
    code = (
        LATE
        + """
    flags.resolve_neg(), flags.resolve_neg()
    print(torch.accelerator.synchronize("openreg:1"))
    print(attempt(torch.accelerator.synchronize)[:19])
    print(attempt(torch.accelerator.synchronize))
    """
    )
    ran = run_process(code, OPENREG_LAUNCH="async", OPENREG_DEVICE_COUNT="2")
    assert ran.stdout.splitlines() == ["None", "NotImplementedError", "None"], ran.stderr


@pytest.mark.needs("simulator")
def test_the_call_raises_where_kernels_run_at_once(run_process: RunProcess) -> None:
    code = (
        LATE
        + """
    print(attempt(flags.resolve_neg))
    print(torch.accelerator.synchronize())
    """
    )
    ran = run_process(code, OPENREG_LAUNCH="inline")
    assert ran.stdout.splitlines() == ["NotImplementedError: \"neg_cpu\" not implemented for 'Bool'", "None"], (
        ran.stderr
    )


@pytest.mark.needs("simulator", "host kernels")
def test_the_dtypes_of_the_first_of_many_tensors_count(run_process: RunProcess) -> None:
    ran = run_process(
        """
        import torch
        def attempt(dtype):
            first = [torch.ones(2, device="openreg").to(dtype)]
            try:
                torch._foreach_pow_(first + [torch.ones(2, device="openreg") for _ in range(11)], [2.0] * 12)
                return "done"
            except (NotImplementedError, RuntimeError) as error:
                return type(error).__name__
        print(attempt(torch.float8_e5m2), attempt(torch.float32), attempt(torch.float8_e5m2))
        torch.accelerator.synchronize()
        """,
        OPENREG_LAUNCH="async",
    )
    assert ran.stdout == "NotImplementedError done NotImplementedError\n", ran.stderr
