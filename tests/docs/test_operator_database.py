"""The comparison detects a wrong operator, and the list of exceptions detects its own mistakes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import opinfo as command
import pytest
import torch
from torch.testing._internal.common_dtype import _dispatch_dtypes
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from tests.opinfo import exceptions
from tests.opinfo.compare import Comparison, cpu_copy


def samples(_: OpInfo, device: str, dtype: torch.dtype, requires_grad: bool, **__: Any) -> Iterator[SampleInput]:
    yield SampleInput(torch.linspace(-2, 2, 6, device=device).to(dtype).requires_grad_(requires_grad))


def compared(mode: str, operator: Any, in_place: Any = None) -> None:
    entry = OpInfo(
        "planted",
        op=operator,
        sample_inputs_func=samples,
        dtypes=_dispatch_dtypes((torch.float32,)),
        inplace_variant=in_place,
    )
    comparison = Comparison(entry, "openreg", torch.float32)
    getattr(comparison, mode)()
    assert comparison.compared > 0


def on_device(tensor: torch.Tensor) -> bool:
    return tensor.device.type == "openreg"


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient * (3 if on_device(gradient) else 2)


def out_elsewhere(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    if out is None:
        return x * 2
    return out.set_(x * 2) if on_device(x) else torch.mul(x, 2, out=out)


@pytest.mark.parametrize("mode", ["forward", "noncontiguous", "out", "backward"])
def test_what_agrees_passes(mode: str) -> None:
    compared(mode, torch.sin)
    compared("in_place", torch.sin, torch.Tensor.sin_)


@pytest.mark.parametrize(
    ("mode", "operator"),
    [
        ("forward", lambda x: x + 0.01 * on_device(x)),
        ("forward", lambda x: x.double() if on_device(x) else x * 1),
        ("forward", lambda x: x.cpu() if on_device(x) else x * 1),
        ("forward", lambda x: x[:5] if on_device(x) else x * 1),
        ("forward", lambda x: (x, x) if on_device(x) else x * 1),
        ("forward", lambda x: x.sum().item() + on_device(x)),
        ("noncontiguous", lambda x: x + (on_device(x) and not x.is_contiguous())),
        ("out", out_elsewhere),
        ("backward", WrongGradient.apply),
        ("backward", lambda x: x.detach() if on_device(x) else x * 1),
    ],
)
def test_what_differs_fails(mode: str, operator: Any) -> None:
    with pytest.raises(AssertionError):
        compared(mode, operator)


def test_an_in_place_variant_must_return_its_input() -> None:
    with pytest.raises(AssertionError):
        compared("in_place", torch.sin, lambda x: x.sin() if on_device(x) else x.sin_())


def test_of_random_numbers_the_values_may_differ_and_the_form_may_not() -> None:
    compared("forward", lambda x: torch.rand_like(x))
    with pytest.raises(AssertionError):
        compared("forward", lambda x: torch.rand_like(x)[:5] if on_device(x) else torch.rand_like(x))


def test_the_copy_on_the_cpu_is_laid_out_like_the_original() -> None:
    whole = torch.arange(24.0, device="openreg").reshape(4, 6)
    view = whole[1:, ::2].t()
    copy = cpu_copy(view)
    assert (copy.stride(), copy.storage_offset(), copy.tolist()) == (
        view.stride(),
        view.storage_offset(),
        view.tolist(),
    )
    conjugate = torch.view_as_complex(whole.view(4, 3, 2)).conj()
    assert cpu_copy(conjugate).is_conj()
    assert cpu_copy(conjugate).tolist() == conjugate.tolist()
    assert cpu_copy(conjugate.imag).is_neg()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[exception]]\nentries = ["abs"]\n', r"each \[\[exception\]\] has entries, a reason, .*, got .*abs"),
        ('[[exception]]\nreason = "why"\n', "has entries, a reason, and perhaps modes and dtypes, got .*why"),
        (
            '[[apart]]\nentries = ["abs"]\nreason = "why"\nmode = ["forward"]\n',
            r"each \[\[apart\]\] has .*, got .*mode",
        ),
        ('[[apart]]\nentries = ["abs"]\nreason = "why"\nmodes = ["inplace"]\n', "modes are forward, .*, got inplace"),
        ('[[apart]]\nentries = ["abs"]\nreason = "why"\ndtypes = ["half"]\n', "dtypes are float32, .*, got half"),
    ],
)
def test_what_is_wrong_with_the_list_is_said(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "exceptions.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        exceptions.read(file)


def test_an_exception_covers_what_it_names(tmp_path: Path) -> None:
    file = tmp_path / "exceptions.toml"
    file.write_text('[[exception]]\nentries = ["abs"]\nmodes = ["out"]\nreason = "why"\n', encoding="utf-8")
    (only,) = exceptions.read(file)
    assert exceptions.excused([only], "abs", "out", "float32") == only
    assert exceptions.excused([only], "abs", "forward", "float32") is None
    assert exceptions.excused([only], "sin", "out", "float32") is None


def told_of(folder: Path, second: str) -> str:
    """The report on a run of three tests, the second of which runs the given code."""
    source = f"import os\ndef test_first(): pass\ndef test_second(): {second}\ndef test_third(): pass\n"
    (folder / "test_planted.py").write_text(source, encoding="utf-8")
    run = [sys.executable, "-m", "pytest", "-v", "--rootdir", str(folder), "test_planted.py"]
    ran = subprocess.run(run, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return command.told(ran.stdout)


def test_a_run_that_crashes_names_the_unit_it_was_in(tmp_path: Path) -> None:
    assert told_of(tmp_path, "os.abort()") == "pytest ended in test_planted.py::test_second \n"


def test_a_run_that_fails_tells_the_failures_alone(tmp_path: Path) -> None:
    told = told_of(tmp_path, "assert 1 == 2")
    assert "assert 1 == 2" in told
    assert "test_first" not in told
