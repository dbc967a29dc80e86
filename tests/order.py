"""A plugin of pytest for `make test`: the files that take longest come first, and some of the files if not all.

A file stays in one worker (tools/commands.py), so what comes last must be short, or one worker is busy while the
others wait. benchmarks/results/loop.md says which tests are slow.

With `--share 1/3` each third file is run, beginning with the second. CI takes another share for each commit.
"""

from __future__ import annotations

import pytest
from share import ALL, share

# These build, or start process after process.
LONGEST = (
    "tests/build/test_install.py",
    "tests/python_backend/",
    "tests/conformance/",
    "tests/opinfo/",
    "tests/fuzz/",
    "tests/driver_conformance/",
    "tests/build/",
    "tests/weaver/",
    "tests/docs/",
    "tests/examples/",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option."""
    parser.addoption("--share", type=share, default=ALL, metavar="N/M", help="of M shares of the files, the Nth")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the share, and sorts the files; within one, and among the rest, the order stays."""
    taken = set(config.getoption("share").take(sorted({item.path for item in items})))
    config.hook.pytest_deselected(items=[item for item in items if item.path not in taken])
    items[:] = [item for item in items if item.path in taken]

    def rank(item: pytest.Item) -> int:
        path = item.path.relative_to(config.rootpath).as_posix()
        return next((number for number, first in enumerate(LONGEST) if path.startswith(first)), len(LONGEST))

    items.sort(key=rank)
