"""The doctest builder: runs what the pages execute, and leaves a proof.

``proof.json`` is deleted at the start and written last, when every example of every page has run and passed and no page
has a fault. To find out whether the pages are proven, check that file (as ``prove`` does), not an exit status.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import shlex
import time
from contextlib import ExitStack
from dataclasses import asdict
from multiprocessing.pool import ThreadPool
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.builders import Builder
from sphinx.errors import ExtensionError
from sphinx.util import logging

from weaver.pages.records import pages
from weaver.pages.repository import configuration_of, report
from weaver.proof import proof_files
from weaver.run import cached_compiler, examples, isolation

if TYPE_CHECKING:
    from collections.abc import Set
    from multiprocessing.pool import AsyncResult

    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

PROOF = "proof.json"


class ProofBuilder(Builder):
    """Runs the examples of each page in a process of its own, as soon as Sphinx has read the page."""

    name = "doctest"
    epilog = "The proof is %(outdir)s/proof.json; without that file nothing is proven."

    def init(self) -> None:
        """Withdraw the proof of an earlier run."""
        self.proof = Path(self.outdir, PROOF)
        self.proof.unlink(missing_ok=True)
        self.took: dict[str, dict[str, float | None]] = {}
        self.ran: dict[str, int] = {}
        self.open = ExitStack()  # closed at the end of the build, even of a failed one
        self.events.connect("env-before-read-docs", self._begin, 500)
        self.events.connect("doctree-read", self._read, 900)  # after the checks of the page
        self.events.connect("build-finished", self._end, 500)

    def _begin(self, app: Sphinx, env: BuildEnvironment, docnames: list[str]) -> None:
        """Prepare to run pages. Sphinx reads slow pages first, so that none of them runs alone at the end."""
        if unknown := self._asked() - set(env.found_docs):
            raise ExtensionError(f"doctest: there is no page {', '.join(sorted(unknown))}")
        compiler = shlex.split(os.environ.get("CXX") or "c++")
        cached = cached_compiler.wrapper(Path(self.outdir).parent / "compiled", compiler)
        # Otherwise, where bytecode is not kept, each of two hundred processes would compile the package's Python again.
        keep_bytecode = {"PYTHONDONTWRITEBYTECODE": ""}
        environment = {"CXX": str(cached), **keep_bytecode}
        configuration = configuration_of(self.config)
        self.pages = self.open.enter_context(
            isolation.Pages(configuration.run, configuration.root, environment=environment)
        )
        self.pages.start()
        # More than processors, because some pages wait. These threads do not delay an interrupt of the build.
        self.pool = self.open.enter_context(ThreadPool(min(len(os.sched_getaffinity(0)) + 2, 6)))
        self.running: dict[str, AsyncResult[tuple[isolation.Outcome, float]]] = {}
        try:
            measured = proof_files.read(configuration).pages
        except LookupError:  # reported where the marks are rendered
            measured = {}
        docnames.sort(key=lambda name: (-measured[name].seconds if name in measured else -math.inf, name))

    def _read(self, app: Sphinx, doctree: nodes.document) -> None:
        if multiprocessing.parent_process() is None:  # otherwise a reader of `sphinx-build -j`
            self._start(self.env.docname, doctree)

    def _end(self, app: Sphinx, error: Exception | None) -> None:
        self.open.close()

    def get_outdated_docs(self) -> set[str]:
        """Return all requested pages: a page can fail although it has not changed."""
        return self._asked() or set(self.env.found_docs)

    def _asked(self) -> set[str]:
        """Return the pages that are named; empty means all."""
        return set(self.config.weaver_pages)

    def get_target_uri(self, docname: str, typ: str | None = None) -> str:
        """Return nothing: this builder writes no pages."""
        return ""

    def write_documents(self, docnames: Set[str]) -> None:
        """Report each failure of each page at its line; pages that Sphinx read in an earlier build start here."""
        for docname in sorted(docnames - self.running.keys()):
            self._start(docname, self.env.get_doctree(docname))
        for docname, result in self.running.items():
            outcome, seconds = result.get()
            self.ran[docname] = outcome.ran
            self.took[docname] = {"seconds": round(seconds, 2), "processor_seconds": outcome.processor_seconds}
            for failure in outcome.failures:
                report(docname, failure.line, failure.text, "doctest")
            state = f"{len(outcome.failures)} failures" if outcome.failures else "ok"
            logger.info("doctest %s: %d examples, %s (%.1f s)", docname, outcome.ran, state, seconds)
            if outcome.stderr and not outcome.failures:
                logger.info("%s", outcome.stderr.rstrip())

    def _start(self, docname: str, doctree: nodes.document) -> None:
        """Start a page, if it is requested and has examples."""
        if self._asked() and docname not in self._asked():
            return
        blocks, _ = examples.read(doctree, Path(self.env.doc2path(docname)))
        if blocks:
            self.running[docname] = self.pool.apply_async(self._run, (docname, blocks))

    def _run(self, docname: str, blocks: list[examples.Block]) -> tuple[isolation.Outcome, float]:
        """Return the outcome of a page, and its duration in seconds."""
        file, configuration = Path(self.env.doc2path(docname)), configuration_of(self.config)
        root = configuration.root
        page = str(file.relative_to(root)) if file.is_relative_to(root) else str(file)
        started = time.monotonic()
        outcome = self.pages.run(page, [asdict(block) for block in blocks], configuration.run.page_seconds)
        return outcome, time.monotonic() - started

    def finish(self) -> None:
        """Write the proof if there is no fault."""
        if self._app._warncount:
            return
        records = pages(self.env)
        proven = {
            docname: {
                "examples": len(record.examples),
                "ran": self.ran.get(docname, 0),
                "listings": record.listings,
                **self.took.get(docname, {"seconds": 0.0, "processor_seconds": 0.0}),
            }
            for docname, record in sorted(records.items())
            if (record.examples or record.listings) and docname in self.get_outdated_docs()
        }
        self.proof.write_text(json.dumps({"pages": proven}, indent=2) + "\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Replace the stock builder by this one, and keep its directives."""
    app.setup_extension("sphinx.ext.doctest")
    app.add_config_value("weaver_pages", [], "", types=frozenset({list}))
    app.add_builder(ProofBuilder, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
