"""The plan builder: writes ``plan.json``, which lists what each page shows of our sources and what it runs.

The measurement of lines and of mutants runs the pages many times without Sphinx, and reads this file instead of the
pages.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.builders import Builder

from weaver.pages.records import page
from weaver.pages.repository import configuration_of, root_of
from weaver.proof.planned import PLAN
from weaver.run import examples
from weaver.sources.binding import run_digest, step_digest
from weaver.sources.scripts import Scripts

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx


class PlanBuilder(Builder):
    """Writes the listings, the whole sources and the executed blocks of each page that has any."""

    name = "plan"
    epilog = "The plan is %(outdir)s/plan.json."

    def get_outdated_docs(self) -> set[str]:
        """Return all pages: the plan covers the whole site."""
        return set(self.env.found_docs)

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        """Return nothing: this builder writes no pages."""
        return ""

    def write_documents(self, docnames: Set[str]) -> None:
        """Write the plan."""
        scripts = Scripts(configuration_of(self.config))
        pages = {docname: self._page(docname, scripts) for docname in sorted(docnames)}
        plan = {docname: entry for docname, entry in pages.items() if entry["listings"] or entry["blocks"]}
        Path(self.outdir, PLAN).write_text(json.dumps({"pages": plan}, indent=1) + "\n", encoding="utf-8")

    def _page(self, docname: str, scripts: Scripts) -> dict[str, Any]:
        file = Path(self.env.doc2path(docname))
        blocks, _ = examples.read(self.env.get_doctree(docname), file)
        record = page(self.env, docname)
        root = root_of(self.config)
        executed = [asdict(block) for block in blocks]
        for step in (step for block in executed for step in block["steps"]):
            step["digest"] = step_digest(step["source"], step["want"], scripts)
        return {
            "file": file.relative_to(root).as_posix(),
            "digest": run_digest(executed, scripts),
            "listings": [asdict(listing) for listing in record.shown],
            "whole": sorted(record.whole),
            "blocks": executed,
        }


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the builder."""
    app.add_builder(PlanBuilder)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
