"""Every operator of PyTorch's database that can be captured: replays give the values of eager mode.

A kernel that changes its own arguments while it runs, or that moves them, gives a wrong second replay; one that keeps
what it has converted gives the values of earlier inputs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest
import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

from tests.graph.capture import captured, replayed
from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.needs("graphs", "kernels")

# They draw random numbers, or return memory without writing it.
NOT_COMPARED = re.compile(
    "bernoulli|multinomial|normal|rand|uniform|cauchy|exponential|geometric|dropout|rrelu|empty|lowrank|jiterator"
)
REFUSED = re.compile("while a graph is captured|orErrorStreamCaptureUnsupported")


def tensors(tree: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def first_cause(error: BaseException) -> BaseException:
    while error.__context__ is not None:
        error = error.__context__
    return error


def turned(inputs: list[torch.Tensor]) -> None:
    """The same numbers at other places, so that most operators accept them."""
    for tensor in inputs:
        if not torch._debug_has_internal_overlap(tensor) and tensor.dim() > 0:
            tensor.copy_(tensor.flip(tuple(range(tensor.dim()))))


def calls(quarter: int) -> Iterator[tuple[str, torch.dtype]]:
    """A quarter of the operators, each in one dtype: integers for every third that has them."""
    for number, operator in list(enumerate(op_db))[quarter::4]:
        integers = number % 3 == 0 and torch.int64 in operator.dtypes
        dtype = torch.int64 if integers else torch.float32
        if dtype in operator.dtypes and not NOT_COMPARED.search(operator.name):
            yield f"{operator.name} {operator.variant_test_name}".strip(), dtype


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("quarter", range(4))
def test_replays_of_every_operator(quarter: int) -> None:
    by_name = {f"{operator.name} {operator.variant_test_name}".strip(): operator for operator in op_db}
    replays = 0
    refusals: dict[str, str] = {}
    stream = torch.Stream(device=LAST_DEVICE)
    for name, dtype in calls(quarter):
        operator = by_name[name]
        sample = next(iter(operator.sample_inputs(LAST_DEVICE, dtype)), None)
        if sample is None:
            continue
        with torch.no_grad():
            try:
                expected = [tensor.cpu() for tensor in tensors(operator(sample.input, *sample.args, **sample.kwargs))]
            except (RuntimeError, NotImplementedError):
                continue  # tests/opinfo says which, and why
            torch.accelerator.synchronize()
            work = partial(operator, sample.input, *sample.args, **sample.kwargs)
            try:
                graph, results = captured(work, stream=stream)
            except (RuntimeError, NotImplementedError) as error:
                refusals[name] = str(first_cause(error))
                continue
            for _ in range(3):
                replayed(graph)
                for result, wanted in zip(tensors(results), expected, strict=True):
                    torch.testing.assert_close(result.cpu(), wanted, equal_nan=True, msg=f"{name} {dtype}")
                replays += 1
            turned(tensors((sample.input, sample.args, sample.kwargs)))
            try:
                expected = [tensor.cpu() for tensor in tensors(work())]
            except (RuntimeError, NotImplementedError):
                continue  # for its values
            replayed(graph)
            for result, wanted in zip(tensors(results), expected, strict=True):
                if result.shape == wanted.shape:  # otherwise it depends on the values
                    torch.testing.assert_close(result.cpu(), wanted, equal_nan=True, msg=f"{name} {dtype}, turned")
    assert replays > 250
    assert len(refusals) < replays / 6
    assert {name: message for name, message in refusals.items() if not REFUSED.search(message)} == {}
