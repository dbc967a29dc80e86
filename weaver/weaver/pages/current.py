"""Keeps what a page states about the proof up to date.

A mark depends on more than its page: on the proof files, on every source that a build reads, on what other pages show.
So marks and figures are not part of the doctree that is read: every build makes them anew, and rewrites each page that
was written with different ones.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from weakref import WeakKeyDictionary

from sphinx.util import logging

from weaver.pages.book import is_site
from weaver.pages.records import pages
from weaver.pages.repository import configuration_of
from weaver.proof import proof_files
from weaver.proof.measured import Measured, Shown

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

_MEMORY = ".proof.json"


class Maker(Protocol):
    """Returns what one extension adds to a page, as text that changes whenever it does; empty when it adds nothing."""

    def __call__(self, app: Sphinx, docname: str) -> str:
        """Make it."""


_makers: WeakKeyDictionary[Sphinx, list[Maker]] = WeakKeyDictionary()
_measured: WeakKeyDictionary[Sphinx, Measured] = WeakKeyDictionary()
_written: WeakKeyDictionary[Sphinx, dict[str, str]] = WeakKeyDictionary()


def keep_current(app: Sphinx, maker: Maker) -> None:
    """Rewrite a page whenever what ``maker`` adds to it has changed."""
    _makers.setdefault(app, []).append(maker)


def measured(app: Sphinx) -> Measured:
    """Return the measurements with what the pages show in this build. Requires: all pages are read."""
    if app not in _measured:
        configuration = configuration_of(app.config)
        now = {
            docname: Shown(record.digest, record.shown, record.examples)
            for docname, record in pages(app.env).items()
            if record.shown or record.examples
        }
        try:
            proof = proof_files.read(configuration)
        except LookupError as error:
            logger.warning("%s", error, type="weaver", subtype="proof")
            proof = proof_files.Proof()
        _measured[app] = Measured(configuration, now, proof)
    return _measured[app]


def _outdated(app: Sphinx, env: BuildEnvironment) -> list[str]:
    if not is_site(app.builder):
        return []
    made = {
        docname: "\n".join(maker(app, docname) for maker in _makers.get(app, [])) for docname in sorted(env.found_docs)
    }
    now = {docname: sha256(text.encode()).hexdigest() for docname, text in made.items() if text.strip()}
    memory = Path(app.outdir, _MEMORY)
    before = json.loads(memory.read_text(encoding="utf-8")) if memory.is_file() else {}
    _written[app] = now
    return [docname for docname in sorted(env.found_docs) if before.get(docname) != now.get(docname)]


def _remember(app: Sphinx, exception: Exception | None) -> None:
    if exception is None and app in _written:
        Path(app.outdir, _MEMORY).write_text(json.dumps(_written[app]), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the step that finds the pages to rewrite."""
    # After the checks of the gate: the makers need the record of every page.
    app.connect("env-updated", _outdated, priority=900)
    app.connect("build-finished", _remember)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
