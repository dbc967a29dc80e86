"""A plugin of pytest for `make test`: the files that take longest come first.

A file stays in one worker (tools/commands.py), so what comes last must be short, or one worker is busy while the
others wait. benchmarks/results/loop.md says which tests are slow.
"""

from __future__ import annotations

import pytest

# These build, or start process after process.
LONGEST = (
    "tests/build/test_install.py",
    "tests/python_backend/",
    "tests/conformance/",
    "tests/opinfo/",
    "tests/driver_conformance/",
    "tests/build/",
    "tests/proof/",
    "tests/docs/",
    "tests/examples/",
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sorts the files; within one, and among the rest, the order stays."""

    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(config.rootpath).as_posix()
        return next((number for number, first in enumerate(LONGEST) if path.startswith(first)), len(LONGEST))

    items.sort(key=rank)
