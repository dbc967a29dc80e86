"""The narrated share: how much of the package the pages show and explain; and which chapter owns which file.

A file belongs to the first chapter, in the order of the contents, that lists it in its ``{whole-sources}``. A file that
no chapter lists is a fault: no page would be kept in step with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

from weaver.pages.records import pages
from weaver.pages.repository import configuration_of
from weaver.sources.binding import code_files
from weaver.sources.regions import is_marker, read_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

    from weaver.sources.listing import Listing

logger = logging.getLogger(__name__)

_SUFFIXES = {".cpp", ".h", ".py", ".pyi"}


@dataclass(frozen=True)
class Narrated:
    """``lines`` of a file that are neither blank nor markers, and how many of them some listing has ``shown``."""

    path: str
    lines: int
    shown: int


def files(root: Path, entries: Iterable[str]) -> Iterator[str]:
    """Yield the paths of the files to be narrated."""
    for file in code_files(root, entries):
        if file.suffix in _SUFFIXES:
            yield file.relative_to(root).as_posix()


def narrated(root: Path, listings: Iterable[Listing], entries: Iterable[str]) -> list[Narrated]:
    """Return the figures of each file, in the order of their paths."""
    shown: dict[str, set[int]] = {}
    for listing in listings:
        shown.setdefault(listing.path, set()).update(range(listing.first, listing.last + 1))
    result = []
    for path in files(root, entries):
        texts = enumerate(read_lines(root / path), start=1)
        counted = {number for number, text in texts if text.strip() and not is_marker(text)}
        result.append(Narrated(path, len(counted), len(counted & shown.get(path, set()))))
    return result


def share(found: Iterable[Narrated]) -> float:
    """Return the narrated share of all lines; 1 when there are none."""
    listed = list(found)
    lines = sum(one.lines for one in listed)
    return sum(one.shown for one in listed) / lines if lines else 1.0


def reading_order(env: BuildEnvironment) -> list[str]:
    """Return the pages in the order of the contents, then those that the contents omit."""
    order: dict[str, None] = {}

    def visit(docname: str) -> None:
        if docname in env.found_docs and docname not in order:
            order[docname] = None
            for child in env.toctree_includes.get(docname, []):
                visit(child)

    visit(env.config.root_doc)
    return [*order, *sorted(env.found_docs - set(order))]


def owners(env: BuildEnvironment) -> dict[str, str]:
    """Return the page that owns each listed file."""
    found: dict[str, str] = {}
    for docname in reading_order(env):
        for path in pages(env)[docname].whole if docname in pages(env) else ():
            found.setdefault(path, docname)
    return found


def _check_owners(app: Sphinx, env: BuildEnvironment) -> None:
    """Report the files that no page owns. It runs in every build, even when no page has changed."""
    configuration = configuration_of(app.config)
    root = configuration.root
    owned = owners(env)
    for path in files(root, configuration.package if configuration.every_file_has_a_chapter else ()):
        if path not in owned:
            logger.warning(
                "no page has `%s` among its whole-sources: add it to the chapter that explains it",
                path,
                location=f"{root / path}:1",
                type="weaver",
                subtype="unowned",
            )


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the check that each file has an owner."""
    app.connect("env-updated", _check_owners)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
