"""A defect in one place of a backend is found, and the program that shows it is minimized."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
# The process that a session runs in: as tools/fuzz.py makes it, but with the defect, which its children inherit, and
# with few operators, so that the wrong one comes soon.
SESSION = """
    import json, os, sys, time
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    import torch
    import tests.fuzz.generator as generator
    import tests.fuzz.session as fuzz
    import torch_openreg
    generator.OPERATORS = [one for one in generator.OPERATORS if one.name in ("add", "sum", "mm", "cat", {operator!r})]
    library = torch.library.Library("aten", "IMPL")
    {defect}
    say = lambda line: print(line, file=sys.stderr)
    session = fuzz.Session(1, {{}}, ({mode!r},), limit={limit}, patience={limit}, most=1, say=say)
    for first in range(0, 2000, fuzz.BATCH):
        session.batch({mode!r}, first, first + fuzz.BATCH)
        found = [one for one in session.found if "{operator}" in one.listing]
        if found:
            break
        if session.deaths_on_the_cpu and session.programs:
            break
    found = [[one.finding.kind, one.listing, one.note] for one in found[:1]]
    print(json.dumps([session.programs, found, session.deaths_on_the_cpu]))
"""


def result(operator: str, defect: str, mode: str = "auto", limit: int = 20) -> Any:
    """The outcome of a session with a defect in an operator: number of programs, first finding, crashes on the CPU."""
    code = textwrap.dedent(SESSION).format(
        operator=operator, defect=textwrap.dedent(defect).strip(), mode=mode, limit=limit
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])


def session(operator: str, defect: str, mode: str = "auto", limit: int = 20) -> tuple[int, str, str]:
    """Finds a defect in an operator: after how many programs, as which kind, and the lines that show it."""
    count, found, _ = result(operator, defect, mode, limit)
    assert found, "nothing was found"
    kind, listing, note = found[0]
    assert note == ""
    return count, kind, listing.partition("# for the values of the CPU")[2].partition("\n")[2]


def test_a_wrong_value_is_found_and_made_small() -> None:
    count, kind, listing = session(
        "flip",
        """
        def wrong(x, dims):
            return torch.flip(x.cpu(), dims).to(x.device) + (x.dim() == 2)
        library.impl("flip", wrong, "PrivateUse1", allow_override=True)
        """,
    )
    assert count < 1500
    assert kind in ("another value", "another dtype", "the device raises RuntimeError")
    assert len(listing.splitlines()) <= 6, listing


def test_what_is_accepted_by_mistake_is_found() -> None:
    _, kind, listing = session(
        "index_select",
        """
        def wrong(self, dim, index):
            try:
                return torch.index_select(self.cpu(), dim, index.cpu()).to(self.device)
            except Exception:
                return self.clone()
        library.impl("index_select", wrong, "PrivateUse1", allow_override=True)
        """,
    )
    assert kind == "the device accepts what the CPU refuses"
    assert "index_select" in listing
    assert len(listing.splitlines()) <= 3, listing


def test_a_refusal_of_what_is_right_is_found() -> None:
    _, kind, listing = session(
        "flip",
        """
        def wrong(self, dims):
            raise NotImplementedError("no flip here")
        library.impl("flip", wrong, "PrivateUse1", allow_override=True)
        """,
    )
    assert kind == "the device raises NotImplementedError"
    assert len(listing.splitlines()) <= 2, listing


@pytest.mark.parametrize("mode", ["async", "inline"])
def test_a_child_that_dies_is_a_finding(mode: str) -> None:
    _, kind, listing = session(
        "flip",
        """
        def wrong(self, dims):
            os.abort()
        library.impl("flip", wrong, "PrivateUse1", allow_override=True)
        """,
        mode,
    )
    assert kind == "the device: the process dies of SIGABRT"
    assert "flip" in listing.splitlines()[-1]
    assert len(listing.splitlines()) <= 2, listing


def test_a_child_that_hangs_is_a_finding() -> None:
    _, kind, _ = session(
        "flip",
        """
        def wrong(self, dims):
            time.sleep(1000)
        library.impl("flip", wrong, "PrivateUse1", allow_override=True)
        """,
        limit=3,
    )
    assert kind.startswith("the device: the process hangs")


def test_a_line_that_ends_the_cpu_is_no_finding() -> None:
    count, found, deaths = result(
        "flip",
        """
        def wrong(self, dims):
            os.abort()
        library.impl("flip", wrong, "CPU", allow_override=True)
        """,
    )
    assert count > 0
    assert found == []
    assert "flip" in deaths[0]


def test_an_error_of_the_child_itself_is_no_finding() -> None:
    code = textwrap.dedent(SESSION).format(operator="", defect="fuzz.Generator = None", mode="auto", limit=20)
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert "RuntimeError: the child's own code failed" in ran.stderr
    assert "TypeError: 'NoneType' object is not callable" in ran.stderr
