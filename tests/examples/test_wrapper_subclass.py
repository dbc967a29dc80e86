"""The tensor subclass of the chapter: the CPU's values, forward and backward, and the same errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
X = "torch.arange(6.0).reshape(2, 3)"
EXPRESSIONS = (
    f"{{0}}({X}).t().matmul({{0}}({X}))",
    f"{{0}}({X})[:, 1:].mul_(2).add_(1)",
    f"torch.add({{0}}({X}), 1, out={{0}}(torch.empty(2, 3)))",
    f"torch.zeros_like({{0}}({X}), dtype=torch.int64)",
    f"{{0}}({X}).nonzero()",
    f"torch.cat([{{0}}({X}), {{0}}({X}).flip(0)], 1)",
    "{0}(torch.tensor(3, dtype=torch.int32)).div(2)",
    "{0}(torch.ones(0, 4, dtype=torch.bfloat16)).sum(0)",
    f"torch.autograd.grad({{0}}({X}).requires_grad_().exp().sum() * 2, [])",
    f"(lambda x: torch.autograd.grad((x.exp() * x).sum(), x)[0])({{0}}({X}).requires_grad_())",
    f"(lambda x: [x[0].zero_(), x][1])({{0}}({X}))",
    f"{{0}}({X}).resize_(2, 1).add_(1)",
    f"{{0}}({X}) @ {{0}}({X})",
    f"{{0}}({X}).sum(7)",
)


def ends(statements: list[str]) -> list[str]:
    """The outcome of each statement, in one process."""
    command = [sys.executable, "-W", "error", "-W", "ignore:Failed to initialize NumPy", "examples/wrapper_subclass.py"]
    ran = subprocess.run([*command, *statements], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    return [line.strip() for line in lines if line.startswith("   ")]


@pytest.fixture(scope="module")
def shown() -> dict[str, tuple[str, str]]:
    show = "repr((lambda r: (r.dtype, r.size(), r.tolist()))(getattr({0}, 'held', {0})))"
    far = ends([show.format(expression.format("Far")) for expression in EXPRESSIONS])
    near = ends([show.format(expression.format("torch.clone")) for expression in EXPRESSIONS])
    return dict(zip(EXPRESSIONS, zip(far, near, strict=True), strict=True))


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_values_and_errors_are_the_cpus(shown: dict[str, tuple[str, str]], expression: str) -> None:
    far, near = shown[expression]
    assert far == near


def test_what_was_shown_are_values_and_errors(shown: dict[str, tuple[str, str]]) -> None:
    errors = [near for _, near in shown.values() if "Error" in near]
    words = ("cannot be empty", "shapes cannot be multiplied", "out of range")
    assert all(word in error for word, error in zip(words, errors, strict=True)), errors


def test_losses_are_the_cpus() -> None:
    assert ends(["losses(Far) == losses(torch.clone)", "len(set(losses(Far)))"]) == ["True", "3"]


def test_operators_are_counted() -> None:
    (told,) = ends(["operators_of_a_step()"])
    assert "mul_.Tensor" in told
