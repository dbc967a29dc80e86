"""Large tensors of ranks on one machine, which exchange them through device memory. Values: test_collectives.py."""

from __future__ import annotations

import pytest

from tests import offers
from tests.distributed import large, on_ranks
from tests.distributed.ranks import RankFailed, Ranks, ranks

pytestmark = pytest.mark.needs("sharing")


def test_more_than_a_window_takes(group: Ranks) -> None:
    group(large.in_several_rounds)


def test_sums_are_equal_on_all_ranks(group: Ranks) -> None:
    group(large.sums_are_equal_on_all_ranks)


def test_a_factor_before_the_sum(group: Ranks) -> None:
    group(large.premultiplied)


def test_an_input_within_the_output_and_an_output_within_the_input(group: Ranks) -> None:
    group(large.in_place)


def test_parameters(group: Ranks) -> None:
    group(large.with_requires_grad)


@pytest.mark.needs("queue")
def test_a_collective_waits_for_the_work_before_it_and_not_the_host(group: Ranks) -> None:
    group(on_ranks.ordered, large.NUMEL)


def test_callbacks(group: Ranks) -> None:
    group(on_ranks.chained, large.NUMEL)
    group(on_ranks.nested, large.NUMEL)


def test_inputs_whose_elements_share_memory(group: Ranks) -> None:
    group(on_ranks.expanded_inputs, large.NUMEL)


def test_memory_of_unwaited_results_is_not_reused(group: Ranks) -> None:
    group(on_ranks.dropped, large.NUMEL)


@pytest.mark.parametrize("collectives", ["staged", "direct"])
def test_conjugates_and_negatives_that_are_yet_to_be_computed(collectives: str) -> None:
    with ranks(2, OPENREG_COLLECTIVES=collectives) as started:
        started(large.lazy_views)


def test_tensors_on_another_device(group: Ranks) -> None:
    offers.require("two devices")
    group(large.on_another_device)


def test_messages_between_large_operations(group: Ranks) -> None:
    group(large.behind_a_receive)


def test_nothing_is_copied_to_the_host_unless_a_rank_wants_it(group: Ranks) -> None:
    for direct, staged in group(large.staged_by_one_rank):
        assert direct == 0
        assert staged > 0


def test_parts_of_which_two_ranks_expect_another_size() -> None:
    with ranks(2) as started:
        started.start(large.parts_that_do_not_fit)
        for outcome in started.outcomes():
            assert isinstance(outcome, RankFailed), outcome
            assert "rank 0 sends 8 bytes to rank 1, which expects 12" in outcome.message


def test_two_forms_of_one_operation(group: Ranks) -> None:
    group(large.alike)


@pytest.mark.parametrize("name", sorted(large.DIFFERENT))
def test_ranks_that_do_not_call_the_same(name: str) -> None:
    with ranks(2) as started:
        started.start(large.different, name)
        for outcome in started.outcomes():
            assert isinstance(outcome, RankFailed), outcome
            assert outcome.kind == "DistBackendError"
            assert "failed: the ranks call different operations: " in outcome.message
            assert large.DIFFERENT[name][1] in outcome.message


def test_windows_are_released() -> None:
    with ranks(2) as started:
        started(large.windows_are_released)


def test_a_rank_without_memory_for_a_window() -> None:
    with ranks(2, OPENREG_DEVICE_MEMORY="64M") as started:
        outcomes = started(large.without_memory_for_a_window)
    beginning = "collectives go through host memory: rank {} cannot share device memory with the others ({}"
    for rank, reason in enumerate(["rank 1 has none)", "orErrorMemoryAllocation: "]):
        warning, pinned = outcomes[rank]
        assert beginning.format(rank, reason) in warning
        assert pinned > 0


def test_groups_without_some_of_the_ranks() -> None:
    """Where a rank has named its device, PyTorch asks the backend of each rank that is left out to take note."""
    with ranks(2, with_device=True) as started:
        assert started(large.subgroups) == [[1.0, 2.0], [1.0, 2.0]]


def test_split_group() -> None:
    with ranks(4, with_device=True) as started:
        assert started(large.split) == [[2.0, 2.0, 6.0], [4.0, 4.0, 6.0], [2.0, 2.0], [4.0, 4.0]]
