"""The record of each page, made while it is read: the regions it shows, the files it names, its examples.

Sphinx pickles the records with its environment, so that site-wide checks work in incremental and parallel builds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from weaver.sources.listing import Listing

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_ATTRIBUTE = "weaver_pages"


@dataclass(frozen=True, order=True)
class InstalledRegion:
    """A region of a file of the installed package, as a page shows it."""

    path: str
    start: str
    end: str
    sha256: str


@dataclass
class PageRecord:
    """One page. ``whole`` are the files listed at its end, ``mentions`` pairs of repository path and line of the page.

    ``listings`` counts all listings, including those of the installed package; ``shown`` are those of our own sources,
    in order; ``digest`` is the hash of everything that it runs, ``examples`` has the hash of each step; ``figures``
    names the tables of the proof that it contains.
    """

    shown: list[Listing] = field(default_factory=list)
    whole: set[str] = field(default_factory=set)
    listings: int = 0
    examples: list[str] = field(default_factory=list)
    digest: str = ""
    figures: list[str] = field(default_factory=list)
    installed_regions: set[InstalledRegion] = field(default_factory=set)
    installed_files: set[str] = field(default_factory=set)
    mentions: set[tuple[str, int]] = field(default_factory=set)


def pages(env: BuildEnvironment) -> dict[str, PageRecord]:
    """Return the records of all pages, by document name."""
    if not hasattr(env, _ATTRIBUTE):
        setattr(env, _ATTRIBUTE, {})
    return cast("dict[str, PageRecord]", getattr(env, _ATTRIBUTE))


def page(env: BuildEnvironment, docname: str) -> PageRecord:
    """Return the record of one page; a new, empty one when the page has none."""
    return pages(env).setdefault(docname, PageRecord())


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    pages(env).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: Set[str], other: BuildEnvironment) -> None:
    found = pages(other)
    pages(env).update({name: found[name] for name in docnames if name in found})


def setup(app: Sphinx) -> dict[str, bool | int]:
    """Register the handlers that keep the records in step with the environment."""
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    return {"env_version": 5, "parallel_read_safe": True, "parallel_write_safe": True}
