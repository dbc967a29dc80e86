"""Values of the collectives, against the CPU."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from tests import offers
from tests.distributed import large, misuse, on_ranks
from tests.distributed.ranks import RankFailed, Ranks, ranks
from torch_openreg._distributed import _share_memory

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
OTHERS = [torch.bool, torch.int16, torch.uint16, torch.uint32, torch.uint64, torch.complex32, torch.float8_e4m3fn]
REDUCTIONS = [
    *((op, dtype) for op in ("SUM", "AVG", "PRODUCT", "MIN", "MAX") for dtype in FLOATS + INTEGERS),
    *((op, dtype) for op in ("BAND", "BOR", "BXOR") for dtype in [*INTEGERS, torch.bool]),
    *((op, torch.bool) for op in ("SUM", "PRODUCT", "MIN", "MAX")),
    *((op, dtype) for op in ("SUM", "AVG") for dtype in COMPLEX),
]


@pytest.mark.parametrize("tensors", [on_ranks, large], ids=["small", "large"])
@pytest.mark.parametrize(("op", "dtype"), REDUCTIONS, ids=lambda value: str(value).removeprefix("torch."))
def test_reductions(group: Ranks, tensors: ModuleType, op: str, dtype: torch.dtype) -> None:
    group(tensors.reductions, op, dtype)


@pytest.mark.parametrize("tensors", [on_ranks, large], ids=["small", "large"])
@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, *COMPLEX, *OTHERS], ids=lambda value: str(value)[6:])
def test_moves(group: Ranks, tensors: ModuleType, dtype: torch.dtype) -> None:
    group(tensors.moves, dtype)


def test_objects_and_functional_collectives(group: Ranks) -> None:
    group(on_ranks.objects)
    group(on_ranks.functional)


def test_a_factor_before_the_sum(group: Ranks) -> None:
    group(on_ranks.premultiplied)


def test_messages_with_tags_and_from_any_rank(group: Ranks) -> None:
    group(on_ranks.tagged)
    group(on_ranks.from_any)


def test_works_futures_and_numbers(group: Ranks) -> None:
    group(on_ranks.works)
    group(on_ranks.chained)
    group(on_ranks.nested)


@pytest.mark.parametrize("started", [on_ranks.started_by_callbacks, on_ranks.added_late, on_ranks.nested_twice])
@pytest.mark.parametrize("numel", [1000, large.NUMEL], ids=["staged", "direct"])
def test_callbacks_start_collectives_in_one_order(group: Ranks, started: Callable[[int], None], numel: int) -> None:
    group(started, numel)


@pytest.mark.parametrize("numel", [1000, large.NUMEL], ids=["staged", "direct"])
def test_a_callback_does_not_wait_for_what_starts_after_it(group: Ranks, numel: int) -> None:
    group(on_ranks.waits_for_a_later_one, numel)


def test_a_callback_of_a_message_starts_no_collective(group: Ranks) -> None:
    group(on_ranks.started_by_a_receive)


def test_small_exchanges_of_strided_tensors(group: Ranks) -> None:
    group(on_ranks.strided_and_small)


def test_a_callback_that_raises_holds_up_nothing(group: Ranks) -> None:
    group(on_ranks.failing_callbacks)


def test_a_caller_that_polls_reads_the_results(group: Ranks) -> None:
    group(on_ranks.polled, 10_000)
    group(on_ranks.polled)


@pytest.mark.parametrize("collectives", ["staged", "direct"])
def test_inference_mode(collectives: str) -> None:
    with ranks(2, OPENREG_COLLECTIVES=collectives) as started:
        started(on_ranks.in_inference_mode)


def test_a_mismatch_is_detected_before_the_exchange() -> None:
    with ranks(2) as started:
        started(on_ranks.mismatched)


def test_groups_of_the_same_ranks_one_after_the_other() -> None:
    with ranks(2, seconds=10, with_device=True) as started:
        started(on_ranks.split_again)


def test_groups_that_are_split_off_without_some_ranks() -> None:
    with ranks(3, seconds=10, with_device=True) as started:
        started(on_ranks.split_without_some)


def test_several_operations_with_one_work(group: Ranks) -> None:
    group(on_ranks.batched)
    group(on_ranks.batched_beside_a_callback)


def test_a_batch_after_one_that_has_raised(group: Ranks) -> None:
    group(on_ranks.after_a_failed_batch)


def test_inputs_whose_elements_share_memory(group: Ranks) -> None:
    group(on_ranks.expanded_inputs)


@pytest.mark.needs("queue")
@pytest.mark.parametrize("collectives", ["staged", "direct"])
def test_memory_of_another_library_is_kept_until_it_was_read(collectives: str) -> None:
    with ranks(2, OPENREG_COLLECTIVES=collectives, OPENREG_LAUNCH="async") as started:
        started(on_ranks.imported)


@pytest.mark.needs("queue")
def test_a_collective_waits_for_the_work_before_it_and_not_the_host(group: Ranks) -> None:
    group(on_ranks.ordered)


def test_memory_of_unwaited_results_is_not_reused(group: Ranks) -> None:
    group(on_ranks.dropped)


@pytest.mark.needs("queue", "two devices")
def test_a_barrier_of_a_group_with_a_device() -> None:
    with ranks(2, seconds=10) as started:
        started(on_ranks.barrier_of_a_group_with_a_device)


def test_subgroups(group: Ranks) -> None:
    group(on_ranks.subgroup)


def test_collectives_of_an_unknown_kind_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREG_COLLECTIVES", "Staged")
    with pytest.raises(ValueError, match=r"^openreg: OPENREG_COLLECTIVES is 'direct' or 'staged', got 'Staged'$"):
        _share_memory(torch.distributed.HashStore(), 0, 2)


@pytest.mark.parametrize("name", sorted(misuse.CASES))
def test_mistakes(group: Ranks, name: str) -> None:
    if name == "two devices":
        offers.require("two devices")
    kind, message = misuse.CASES[name][1:]
    group.start(misuse.run, name)
    for outcome in group.outcomes():
        assert isinstance(outcome, RankFailed), outcome
        assert (outcome.kind, message in outcome.message) == (kind, True), outcome


def test_a_mistake_leaves_the_group_usable(group: Ranks) -> None:
    group(on_ranks.works)
