"""Keeps an unfixed page failing in incremental builds.

Sphinx issues the warnings of a page only when it reads or writes the page; the next incremental build skips the page
and passes. So the pages with a warning are recorded next to the environment, and the next build reads them again. After
an unfinished build, or a warning that belongs to no page, it reads every page again.

Requires: a doctree folder for each builder that writes pages. In a shared one, Sphinx takes a page that another builder
has read for unchanged: its faults pass, and the code that it shows stays the old one.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util.logging import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_EVERY_PAGE = "*"


class _Recorder(logging.Filter):
    """Notes the page of each warning on its way to Sphinx's own handler, which counts it."""

    def __init__(self, app: Sphinx) -> None:
        super().__init__()
        self.app = app
        self.faulty: set[str] = set()

    def filter(self, record: logging.LogRecord) -> bool:
        location = str(getattr(record, "location", None) or "")
        if not self._is_of_a_source(location):
            self.faulty.add(self._page(location))
        return True

    def _page(self, location: str) -> str:
        page = self.app.env.path2doc(location.partition(":")[0])
        return page if page in self.app.env.found_docs else _EVERY_PAGE

    def _is_of_a_source(self, location: str) -> bool:
        """A check that runs in every build finds the faults of a source file, so no page needs to be read again."""
        path = Path(location.partition(":")[0])
        return path.is_absolute() and not path.is_relative_to(self.app.srcdir)


def _file(app: Sphinx) -> Path:
    return Path(app.doctreedir, f"faults-{app.builder.name}.json")


def _start(app: Sphinx) -> None:
    recorder = _Recorder(app)
    for handler in logging.getLogger(NAMESPACE).handlers:
        if handler.level == logging.WARNING:
            handler.addFilter(recorder)
    file = _file(app)
    before = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else []
    file.write_text(json.dumps([_EVERY_PAGE]), encoding="utf-8")

    def outdated(
        app: Sphinx, env: BuildEnvironment, added: Set[str], changed: Set[str], removed: Set[str]
    ) -> list[str]:
        return sorted(env.found_docs) if _EVERY_PAGE in before else before

    def finish(app: Sphinx, exception: Exception | None) -> None:
        if exception is None:
            file.write_text(json.dumps(sorted(recorder.faulty)), encoding="utf-8")

    app.connect("env-get-outdated", outdated)
    app.connect("build-finished", finish, priority=900)


def setup(app: Sphinx) -> dict[str, bool]:
    """Start to record once the builder is known."""
    app.connect("builder-inited", _start)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
