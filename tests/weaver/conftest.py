"""A small repository with pages, built with the weaver like the guide."""

from __future__ import annotations

import io
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from weaver.configuration import Configuration, load

ROOT = Path(__file__).resolve().parents[2]

CONF = f"""
import sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "weaver")!r}]
project = "The executable guide to PyTorch accelerators"
extensions = ["myst_parser", "sphinx_design", "weaver"]
myst_enable_extensions = ["colon_fence"]
nitpicky = True
html_theme = "basic"
"""

SETTINGS: dict[str, Any] = {
    "license": "BSD-3-Clause",
    "origin": "toy, BSD-3-Clause",
    "chapters": "docs/source/accelerator",
    "sources": ["csrc", "torch_openreg", "examples", "CMakeLists.txt"],
    "executed": ["examples"],
    "package": ["csrc", "torch_openreg", "torch_openreg_autoload.py"],
    "include_folders": ["csrc", "csrc/driver"],
    "mentioned": ["csrc", "torch_openreg", "docs", "tests"],
    "built": ["docs/build", "*.so"],
    "bundle_note": "A copy of it: copy {chapter}",
    "commands": {
        **{name: f"make {name}" for name in ("doctest", "lock", "proof", "mutate")},
        "with_arguments": "{command} ARGS='{arguments}'",
    },
    "installed": {"package": "torch", "prefixes": {"torch": "include", "torch-py": ""}},
    "console": {"scripts": [".ci/run"], "called": ["tests/build/*.sh"], "callers": [".ci/run"]},
    "run": {"page_seconds": 20},
    "measure": {"observer": "tests.weaver.observer"},
}

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


def toml(settings: Mapping[str, Any]) -> str:
    """Settings as the text of a file; tables must come last."""
    lines = [f"{name} = {_value(value)}" for name, value in settings.items() if not isinstance(value, Mapping)]
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines += [f"[{name}]", *(f"{key} = {_value(one)}" for key, one in value.items())]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_value(one)}" for key, one in value.items()) + "}"
    return json.dumps(value)  # also valid TOML


@dataclass(frozen=True)
class Result:
    """The outcome of a build: its status (0 is success), its warnings, and its output folder."""

    status: int
    warnings: str
    output: Path

    def has(self, where: str, *parts: str) -> bool:
        """Return whether one warning is at ``where`` (``page.md:7``) and contains all ``parts``."""
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
        self.write("docs/proof/torch_regions.lock.json", '{"regions": []}')
        self.configure()
        self.write("LICENSE", "BSD-3-Clause\n")
        self.write("CMakeLists.txt", "add_library(backend csrc/hooks.cpp)\n")
        self.write("csrc/hooks.cpp", HOOKS)
        self.page("# Guide\n\n" + SHOW)

    def write(self, path: str, text: str) -> None:
        """Write a file of the repository."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def configure(self, **changed: object) -> Configuration:
        """Write weaver.toml with some values changed, and read it."""
        self.write("weaver.toml", toml({**SETTINGS, **changed}))
        return self.configuration

    @property
    def configuration(self) -> Configuration:
        """The configuration in weaver.toml."""
        return load(self.root)

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
        # The parser uses APIs that Sphinx 11 will remove, which does not concern these tests.
        with warnings.catch_warnings(), patch_docutils(), docutils_namespace():
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            app = Sphinx(
                self.root / "docs/source",
                self.root / "docs/source",
                output,
                self.root / "docs/build/doctrees" / builder,
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
