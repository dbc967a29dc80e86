"""Shared by the tests of process groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import offers
from tests.distributed.ranks import Ranks, ranks


@pytest.fixture(scope="session")
def queueing() -> str:
    """The launch mode that queues all work; `auto`, which every driver accepts, if the driver queues nothing."""
    is_offered, _ = offers.OFFERS["queue"]
    return "async" if is_offered() else "auto"


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((2, "async"), id="two-async", marks=pytest.mark.needs("queue")),
        pytest.param((3, "inline"), id="three-inline"),
    ],
)
def group(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    """A group for all tests of a file, in two sizes and launch modes."""
    size, launch = request.param
    with ranks(size, OPENREG_LAUNCH=launch) as started:
        yield started
