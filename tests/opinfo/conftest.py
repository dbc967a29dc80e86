"""Selects how much of the database runs.

By default one unit of each entry runs, which takes a minute: always the same one, a different one from entry to entry,
and none that is known to fail, because whether it does can depend on the processor. Of the tests of mistakes, errors
and orders, a quarter runs. Another number in OPENREG_OPINFO chooses other units and another quarter, and `all` runs all
of them.
"""

from __future__ import annotations

import os
import re
import zlib
from collections import defaultdict
from pathlib import Path

import pytest

from tests.opinfo import exceptions

QUARTERS = 4
UNIT = re.compile(rf"test_(?P<mode>{'|'.join(exceptions.MODES)})_(?P<entry>\w+)_openreg_(?P<dtype>\w+)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps one unit of each entry and a quarter of the other tests, unless all are requested or some are named."""
    wanted = os.environ.get("OPENREG_OPINFO", "0")
    if wanted == "all" or config.option.keyword or any("::" in argument for argument in config.args):
        return
    if not wanted.isdigit():
        raise pytest.UsageError(f"OPENREG_OPINFO is {wanted!r}; it must be a number, which chooses units, or all")
    listed = exceptions.read()
    entries: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        unit = _unit(item)
        if unit and not any(_covers(one, unit) for one in listed):
            entries[unit["entry"]].append(item)
    chosen = {units[(zlib.crc32(entry.encode()) + int(wanted)) % len(units)] for entry, units in entries.items()}
    left_out = [item for item in items if _unit(item) and item not in chosen]
    left_out += [item for item in items if _quarter(item) not in (None, int(wanted) % QUARTERS)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def _covers(one: exceptions.Exceptions, unit: re.Match[str]) -> bool:
    """Whether a unit is listed. The name of a test has underscores for the dots of its entry."""
    names = {entry.replace(".", "_"): entry for entry in one.entries}
    return one.covers(names.get(unit["entry"], ""), unit["mode"], unit["dtype"])


def _quarter(item: pytest.Item) -> int | None:
    """The quarter to which a test in this folder belongs: its number of one, or that of its entry in the database."""
    callspec = getattr(item, "callspec", None)
    if callspec is None or item.path.parent != Path(__file__).parent:
        return None
    if "entry" in callspec.params:
        return int(callspec.indices["entry"]) % QUARTERS
    quarter: int | None = callspec.params.get("quarter")
    return quarter


def _unit(item: pytest.Item) -> re.Match[str] | None:
    return UNIT.fullmatch(item.name) if item.path.parent == Path(__file__).parent else None
