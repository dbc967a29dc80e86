"""A pytest plugin for `make test`: the slowest files run first, and a run can be limited to a share of the files.

A file stays in one worker (tools/commands.py), so the last files must be short, or one worker is busy while the
others wait. benchmarks/results/loop.md lists the slow tests.

What the collection of the tests leaves is no garbage until the end, so the collector no longer looks at it: many tests
collect garbage, and each would spend a second on that.

`--share 1/3` runs every third file, beginning with the second. `--longest 1/3`, or OPENREG_LONGEST=1/3, runs all tests
but only every third of those that compile, build or start process after process: those marked `long`, and all in the
folders below. CI takes a different share for each commit.
"""

from __future__ import annotations

import gc
import os

import pytest
from share import ALL, share

# Folders of tests that compile, build or start process after process: seconds for each test.
COSTLY = (
    "tests/compile/",
    "tests/distributed/test_hosts.py",
    "tests/distributed/test_failures.py",
    "tests/native/",
    "tests/libraries/",
    "tests/models/test_transformers.py",
    "tests/runtime/test_ends.py",
    "tests/python_backend/",
    "tests/conformance/",
    "tests/fuzz/",
    "tests/driver_conformance/",
    "tests/driver_opencl/",
    "tests/examples/",
)
LONGEST = (
    "tests/build/test_install.py",
    "tests/opinfo/",
    "tests/distributed/",
    *COSTLY,
    "tests/build/",
    "tests/weaver/",
    "tests/docs/",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    parser.addoption("--share", type=share, default=ALL, metavar="N/M", help="of M shares of the files, the Nth")
    parser.addoption(
        "--longest",
        type=share,
        default=os.environ.get("OPENREG_LONGEST", "0/1"),
        metavar="N/M",
        help="of M shares of the tests that compile or build, the Nth; as OPENREG_LONGEST says, else all",
    )


def _rank(item: pytest.Item, folders: tuple[str, ...]) -> int:
    """The index of the first folder or file that contains the test; the number of folders if none does."""
    path = item.path.relative_to(item.config.rootpath).as_posix()
    return next((number for number, first in enumerate(folders) if path.startswith(first)), len(folders))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Selects the shares and sorts the files by rank; the sort is stable."""
    files = set(config.getoption("share").take(sorted({item.path for item in items})))
    costly = [item for item in items if item.get_closest_marker("long") or _rank(item, COSTLY) < len(COSTLY)]
    left_out = set(costly).difference(config.getoption("longest").take(costly))
    left_out.update(item for item in items if item.path not in files)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = sorted((item for item in items if item not in left_out), key=lambda item: _rank(item, LONGEST))


def pytest_collection_finish() -> None:
    """Takes what exists now out of the collection of garbage."""
    gc.collect()
    gc.freeze()
