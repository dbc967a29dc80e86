"""Shared by the tests of process groups."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.ranks import Ranks, ranks


@pytest.fixture(scope="module", params=[(2, "async"), (3, "inline")], ids=["two-async", "three-inline"])
def group(request: pytest.FixtureRequest) -> Iterator[Ranks]:
    """A group for all tests of a file, in two sizes and launch modes."""
    size, launch = request.param
    with ranks(size, OPENREG_LAUNCH=launch) as started:
        yield started
