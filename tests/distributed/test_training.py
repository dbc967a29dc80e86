"""Whole training jobs, against one process on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

from tests.distributed import training
from tests.distributed.ranks import Ranks, ranks
from tests.distributed.training import State


@pytest.fixture(scope="module")
def two(queueing: str) -> Iterator[Ranks]:
    with ranks(2, OPENREG_LAUNCH=queueing) as group:
        yield group


@pytest.fixture(scope="module")
def four() -> Iterator[Ranks]:
    with ranks(4) as group:
        yield group


@pytest.fixture(scope="module")
def expected() -> State:
    return training.on_cpu()


def close(state: State, expected: State, tolerance: float = 1e-6) -> None:
    assert state
    for name, value in state.items():
        difference = (value - expected[name]).abs() - tolerance * expected[name].abs()
        assert difference.max() <= tolerance, (name, value, expected[name])


@pytest.mark.parametrize("job", sorted(training.JOBS))
def test_two_ranks_train_like_one_process(two: Ranks, expected: State, job: str) -> None:
    for state in two(training.JOBS[job]):
        assert sorted(state) == sorted(expected)
        close(state, expected)


@pytest.mark.parametrize("job", ["plain", "fsdp", "tensor_parallel", "zero"])
def test_four_ranks_train_like_one_process(four: Ranks, expected: State, job: str) -> None:
    for state in four(training.JOBS[job]):
        close(state, expected)


def test_a_pipeline_trains_like_one_process(two: Ranks, expected: State) -> None:
    first, second = two(training.pipeline)
    assert {*first, *second} == set(expected)
    close(first | second, expected)


@pytest.mark.parametrize(
    ("hook", "tolerance"), [(default_hooks.fp16_compress_hook, 5e-3), (training.in_bfloat16, 5e-2)]
)
def test_gradients_exchanged_in_half_precision(
    two: Ranks, expected: State, hook: Callable[..., Any], tolerance: float
) -> None:
    states = two(training.data_parallel, hook)
    for state in states:
        close(state, expected, tolerance)
        close(state, states[0], 0)


def test_gradients_exchanged_by_callbacks(two: Ranks, four: Ranks, expected: State) -> None:
    for state in two(training.power_sgd) + four(training.power_sgd):
        close(state, expected, 1e-4)


def test_parameters_gathered_in_half_precision(two: Ranks, expected: State) -> None:
    states = two(training.half_precision)
    for state in states:
        close(state, expected, 5e-2)
        close(state, states[0], 0)


def test_ranks_with_unequal_data(two: Ranks) -> None:
    for found, expected in two(training.uneven):
        assert sorted(found) == sorted(expected)
        close(found, expected)


def test_batch_norm_over_all_ranks(two: Ranks) -> None:
    whole = training.batch_norm("cpu", whole=True)
    parts = two(training.sync_batch_norm)
    for index, value in enumerate(whole):
        actual = torch.cat([part[index] for part in parts]) if index < 2 else parts[0][index]
        torch.testing.assert_close(actual, value, atol=1e-6, rtol=1e-5)


def test_sharded_tensors(two: Ranks) -> None:
    for actual, product in two(training.redistributed):
        torch.testing.assert_close(actual, product, atol=1e-6, rtol=1e-6)


def test_a_checkpoint_of_two_ranks_is_loaded_by_four(two: Ranks, four: Ranks, tmp_path: Path) -> None:
    saved = two(training.save, str(tmp_path))[0]
    for state in four(training.load, str(tmp_path)):
        close(state, saved, 0)
