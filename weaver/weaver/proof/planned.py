"""What the pages show and run, read once by Sphinx's plan builder."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import weaver
from environment import ROOT, Fault

from docs._ext.plan import PLAN
from docs._ext.records import Listing

STRICT = ["--fail-on-warning", "--keep-going", "--nitpicky"]


@dataclass(frozen=True)
class Page:
    """One page: its file, the hash of what it runs and shows, its listings of our sources, and its executed blocks."""

    name: str
    file: str
    digest: str
    listings: list[Listing]
    whole: list[str]
    blocks: list[dict[str, Any]]


def read_pages(output: Path, *, strict: bool = True) -> list[Page]:
    """Reads every page that shows or runs anything; ``output`` is a folder that Sphinx keeps for the next time.

    Pages with faults are read as far as they can be, unless ``strict``: who works on one page may not have the others
    in order yet. Throws: ``Fault``.
    """
    environment = weaver.Environment(output / ".doctrees")
    options = [*environment.options, *([*STRICT, "--quiet"] if strict else ["--silent"])]
    command = [sys.executable, "-m", "sphinx", "--builder", "plan", *options, "docs/source", str(output)]
    if subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        raise Fault("the pages have faults, listed above")
    environment.is_current()
    return planned(output)


def planned(output: Path) -> list[Page]:
    """The pages as the plan builder has left them in a folder."""
    plan = json.loads((output / PLAN).read_text(encoding="utf-8"))["pages"]
    return [_page(name, entry) for name, entry in plan.items()]


def _page(name: str, entry: dict[str, Any]) -> Page:
    listings = [Listing(**listing) for listing in entry["listings"]]
    return Page(name, entry["file"], entry["digest"], listings, entry["whole"], entry["blocks"])
