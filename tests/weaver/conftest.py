"""A small repository with pages, built with the weaver as the guide is built."""

from __future__ import annotations

import io
import re
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

CONF = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
extensions = ["myst_parser", "sphinx_design"] + ["docs._ext." + name for name in (
    "records", "repository", "lock", "faults", "links", "literalinclude", "source_pages",
    "whole_sources", "interface_table", "poster", "console", "diagram", "gate", "proof",
    "plan", "marks", "copied", "bundles", "narrated", "proven", "error_index")]
myst_enable_extensions = ["colon_fence"]
weaver_root = __file__.rpartition("/docs/")[0]
weaver_sources = ["csrc", "torch_openreg", "examples", "CMakeLists.txt"]
weaver_executed = ["examples"]
weaver_page_seconds = 20
nitpicky = True
html_theme = "basic"
templates_path = ["_templates"]
"""

HOOKS = """\
// The hooks.
#include "hooks.h"

// LITERALINCLUDE START: hooks-init
/// Starts the device.
void Hooks::init() const {
  start();
}
// LITERALINCLUDE END: hooks-init
"""

SHOW = """\
```{literalinclude} /csrc/hooks.cpp
:start-after: "LITERALINCLUDE START: hooks-init"
:end-before: "LITERALINCLUDE END: hooks-init"
```
"""


@dataclass(frozen=True)
class Result:
    """What a build gave: its status (0 is success), its warnings, and the folder it wrote."""

    status: int
    warnings: str
    output: Path

    def has(self, where: str, *parts: str) -> bool:
        """Say whether one warning stands at ``where`` (``page.md:7``) and contains all ``parts``."""
        return any(
            f"/{where}: WARNING: " in warning and all(part in warning for part in parts)
            for warning in re.split(r"\n(?=/)", self.warnings)
        )

    def assert_fault(self, where: str, *parts: str) -> None:
        """Require that the build failed and named the place and the reason."""
        assert self.status != 0
        assert self.has(where, *parts), self.warnings


class Repository:
    """A repository on disk: ``csrc/hooks.cpp`` with one region, and an ``index.md`` that shows it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("docs/source/conf.py", CONF)
        self.write("docs/source/_templates/source.html", '{% extends "page.html" %}')
        self.write("docs/torch_regions.lock.json", '{"regions": []}')
        self.write("LICENSE", "BSD-3-Clause\n")
        self.write("CMakeLists.txt", "add_library(backend csrc/hooks.cpp)\n")
        self.write("csrc/hooks.cpp", HOOKS)
        self.page("# Guide\n\n" + SHOW)

    def write(self, path: str, text: str) -> None:
        """Write a file of the repository."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def page(self, text: str, name: str = "index.md") -> None:
        """Write a page."""
        self.write(f"docs/source/{name}", text)

    def add(self, text: str) -> int:
        """Append to the index page, and return the line (from 1) at which ``text`` begins."""
        page = self.root / "docs/source/index.md"
        before = page.read_text(encoding="utf-8") + "\n"
        page.write_text(before + text, encoding="utf-8")
        return before.count("\n") + 1

    def build(self, builder: str = "html", *, fresh: bool = False, parallel: int = 1, **settings: object) -> Result:
        """Build with warnings as errors; incrementally, unless ``fresh``."""
        from sphinx.application import Sphinx
        from sphinx.util.docutils import docutils_namespace, patch_docutils

        output = self.root / "docs/build" / builder
        stream = io.StringIO()
        # The parser uses what Sphinx 11 will remove; that is no concern of these tests.
        with warnings.catch_warnings(), patch_docutils(), docutils_namespace():
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            app = Sphinx(
                self.root / "docs/source",
                self.root / "docs/source",
                output,
                self.root / "docs/build/doctrees",
                builder,
                confoverrides=settings,
                status=None,
                warning=stream,
                freshenv=fresh,
                warningiserror=True,
                parallel=parallel,
            )
            app.build()
        return Result(app.statuscode, re.sub(r"\x1b\[[\d;]+m", "", stream.getvalue()), output)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """A repository that builds without a fault."""
    return Repository(tmp_path)
