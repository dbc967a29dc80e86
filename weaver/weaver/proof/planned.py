"""What the pages show and run, as written by Sphinx's plan builder."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weaver.configuration import Configuration
from weaver.fault import Fault
from weaver.sources.listing import Listing

PLAN = "plan.json"
STRICT = ["--fail-on-warning", "--keep-going", "--nitpicky"]


@dataclass(frozen=True)
class Page:
    """One page: its file, the hash of what it runs, its listings and whole sources, and its executed blocks.

    Each step of a block has its ``digest`` (``binding.step_digest``).
    """

    name: str
    file: str
    digest: str
    listings: list[Listing]
    whole: list[str]
    blocks: list[dict[str, Any]]

    @property
    def examples(self) -> list[str]:
        """The digest of each example, in the order of the page."""
        return [step["digest"] for block in self.blocks for step in block["steps"]]


def read_pages(configuration: Configuration, output: Path, *, strict: bool = True) -> list[Page]:
    """Reads every page that shows or runs anything; ``output`` is the folder that Sphinx reuses the next time.

    Unless ``strict``, pages with faults are read as far as possible: while one page is being edited, others may not be
    correct yet. Throws: ``Fault``.
    """
    options = [*STRICT, "--quiet"] if strict else ["--silent"]
    sphinx = [sys.executable, "-m", "sphinx", "--jobs", "auto", "--builder", "plan"]
    command = [*sphinx, *options, configuration.pages, str(output)]
    if subprocess.run(command, cwd=configuration.root, stdin=subprocess.DEVNULL, check=False).returncode != 0:
        raise Fault("the pages have faults, listed above")
    return planned(output)


def planned(output: Path) -> list[Page]:
    """The pages that the plan builder has written to a folder."""
    plan = json.loads((output / PLAN).read_text(encoding="utf-8"))["pages"]
    return [_page(name, entry) for name, entry in plan.items()]


def _page(name: str, entry: dict[str, Any]) -> Page:
    listings = [Listing(**listing) for listing in entry["listings"]]
    return Page(name, entry["file"], entry["digest"], listings, entry["whole"], entry["blocks"])
