"""A plugin of pytest for `make test`: the files that take longest come first, and some of the files if not all.

A file stays in one worker (tools/commands.py), so what comes last must be short, or one worker is busy while the
others wait. benchmarks/results/loop.md says which tests are slow.

With `--share 1/3` each third file is run, beginning with the second. With `--longest 1/3`, or OPENREG_LONGEST=1/3, all
files are run, but of the tests of tools each third alone: those build, or start process after process. CI takes
another share for each commit.
"""

from __future__ import annotations

import os

import pytest
from share import ALL, share

# Those of what surrounds the backend build, or start process after process: seconds for each test.
TOOLS = (
    "tests/build/test_install.py",
    "tests/python_backend/",
    "tests/conformance/",
    "tests/fuzz/",
    "tests/driver_conformance/",
    "tests/driver_opencl/",
    "tests/build/",
    "tests/weaver/",
    "tests/docs/",
    "tests/examples/",
)
LONGEST = ("tests/opinfo/", *TOOLS)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options."""
    parser.addoption("--share", type=share, default=ALL, metavar="N/M", help="of M shares of the files, the Nth")
    parser.addoption(
        "--longest",
        type=share,
        default=os.environ.get("OPENREG_LONGEST", "0/1"),
        metavar="N/M",
        help="of M shares of the tests of tools, the Nth; as OPENREG_LONGEST says, else all",
    )


def _rank(item: pytest.Item, folders: tuple[str, ...]) -> int:
    """The number of the first folder, or file, that has the test; that of the folders where none has it."""
    path = item.path.relative_to(item.config.rootpath).as_posix()
    return next((number for number, first in enumerate(folders) if path.startswith(first)), len(folders))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Takes the shares, and sorts the files; within one, and among the rest, the order stays."""
    files = set(config.getoption("share").take(sorted({item.path for item in items})))
    of_tools = [item for item in items if _rank(item, TOOLS) < len(TOOLS)]
    left_out = set(of_tools).difference(config.getoption("longest").take(of_tools))
    left_out.update(item for item in items if item.path not in files)
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = sorted((item for item in items if item not in left_out), key=lambda item: _rank(item, LONGEST))
