"""The tables of ``{proven}``, made from the measurements and from what the pages show now."""

from __future__ import annotations

from itertools import groupby
from pathlib import PurePath
from typing import TYPE_CHECKING

from docutils import nodes

from weaver.pages import current, narrated
from weaver.pages.folded import details, summary
from weaver.pages.links import link
from weaver.pages.repository import configuration_of, repository_source
from weaver.pages.source_pages import SURVIVORS
from weaver.proof.figures import all_lines, chapter_lines, mutants
from weaver.proof.proof_files import LINES, MUTANTS
from weaver.sources.installed import title

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from docutils.nodes import Node
    from sphinx.application import Sphinx

    from weaver.proof.figures import LineFigures
    from weaver.proof.measured import Measured
    from weaver.proof.proof_files import Mutant
    from weaver.sources.listing import Listing

Cell = str | int | float | nodes.Node


def table(headers: Sequence[str], rows: Iterable[Sequence[Cell]], *, last_is_sum: bool = False) -> nodes.Node:
    """Return a table; figures are right-aligned, and a share (``float``) is a percentage."""
    group = nodes.tgroup("", *[nodes.colspec(colwidth=1) for _ in headers], cols=len(headers))
    group += nodes.thead("", nodes.row("", *[_entry(header) for header in headers]))
    entries = [nodes.row("", *[_entry(cell) for cell in row]) for row in rows]
    if last_is_sum:
        entries[-1]["classes"].append("sum")
    group += nodes.tbody("", *entries)
    return nodes.table("", group, classes=["proven"])


def _entry(cell: Cell) -> nodes.entry:
    if isinstance(cell, nodes.Node):
        return nodes.entry("", nodes.paragraph("", "", cell))
    # Rounded down, so that only a complete share reads 100 %.
    text = f"{int(cell * 1000) / 10:.1f} %" if isinstance(cell, float) else str(cell)
    return nodes.entry("", nodes.paragraph("", text), classes=[] if isinstance(cell, str) else ["figure"])


class _Site:
    """The chapters with their titles, in the order of the contents, and links to what they show."""

    def __init__(self, app: Sphinx, docname: str) -> None:
        self.app = app
        self.docname = docname
        self.measured: Measured = current.measured(app)
        self.configuration = configuration_of(app.config)
        order = narrated.reading_order(app.env)
        self.chapters = [name for name in order if name in self.measured.pages]

    def chapter(self, name: str, anchor: str = "") -> nodes.reference:
        uri = self.app.builder.get_relative_uri(self.docname, name) + (f"#{anchor}" if anchor else "")
        return nodes.reference("", self.app.env.titles[name].astext(), refuri=uri, internal=True)

    def line(self, path: str, number: int | None = None) -> nodes.Node:
        text = f"{path}:{number}" if number else path
        return link(repository_source(self.app.config, path), text, number, "provenance")

    def survivors(self, path: str) -> nodes.Node:
        return link(repository_source(self.app.config, path), path, SURVIVORS, "provenance")


def _note(*parts: str | Node) -> nodes.paragraph:
    texts = [nodes.Text(part) if isinstance(part, str) else part for part in parts]
    return nodes.paragraph("", "", *texts, classes=["proven-note"])


def _state(app: Sphinx, docname: str) -> list[Node]:
    site = _Site(app, docname)
    proof = site.measured.proof
    why = site.measured.stale()
    pages = site.measured.pages
    current = {name: lines.date for name in pages if (lines := site.measured.lines(name))}
    aged = sum(map(site.measured.aged, current))
    if not proof.release:
        first = _note(
            "Nothing is measured yet: ", nodes.literal("", str(site.configuration.result(LINES))), " is not there."
        )
    elif why:
        first = _note(f"No line figure holds: {why}.")
    else:
        first = _note(
            f"Lines: measured {_when(current.values())} with {title(site.configuration)} {proof.release}; "
            f"{len(current)} of {len(pages)} pages run the examples that they were measured with, on the sources that "
            f"they show. {aged} of these also run sources, shown by other pages, that have changed since."
        )
    if proof.mutants:
        second = _note(f"Mutants: tried {_when([entry.date for entry in proof.mutants.values()])}.")
    else:
        second = _note(
            "No mutants were tried yet: ", nodes.literal("", str(site.configuration.result(MUTANTS))), " is not there."
        )
    return [first, second]


def _when(dates: Collection[str]) -> str:
    first, last = min(dates, default="never"), max(dates, default="never")
    return f"on {first}" if first == last else f"from {first} to {last}"


def _lines(app: Sphinx, docname: str) -> list[Node]:
    site = _Site(app, docname)
    outcomes = ["Executable", "Executed", "Missed", "Excused", "Not measured", "No information"]
    rows: list[Sequence[Cell]] = []
    for name in site.chapters:
        found = chapter_lines(site.measured, name)
        listings = len(site.measured.pages[name].listings)
        rows.append([site.chapter(name), *(_figures(found) if found else [listings, "not measured", *[""] * 6])])
    rows.append(["All", *_figures(all_lines(site.measured))])
    return [table(["Chapter", "Listings", "Lines shown", *outcomes], rows, last_is_sum=True)]


def _figures(found: LineFigures) -> list[Cell]:
    executed = len(found.executed | found.elsewhere)
    rest = (found.missed, found.excused, found.unmeasured, found.silent)
    return [found.listings, len(found.displayed), found.executable, executed, *map(len, rest)]


def _mutants(app: Sphinx, docname: str) -> list[Node]:
    site = _Site(app, docname)
    headers = ["Chapter", "Mutants", "Killed", "Survived", "Killed of these", "Equivalent", "Listings not tried"]
    every = {listing for name in site.chapters for listing in site.measured.pages[name].listings}
    rows: list[Sequence[Cell]] = []
    for name in site.chapters:
        rows.append([site.chapter(name), *_tried(site, site.measured.pages[name].listings)])
    return [table(headers, [*rows, ["All", *_tried(site, every)]], last_is_sum=True)]


def _tried(site: _Site, listings: Iterable[Listing]) -> list[Cell]:
    found = mutants(site.measured, listings)
    untried = sum(1 for listing in set(listings) if site.measured.wants_mutants(listing))
    share: Cell = found.share if found.killed + found.survived else "none"
    total = found.killed + found.survived + found.equivalent
    return [total, found.killed, found.survived, share, found.equivalent, untried]


def _examples(app: Sphinx, docname: str) -> list[Node]:
    site = _Site(app, docname)
    rows: list[Sequence[Cell]] = []
    seconds = 0.0
    for name in site.chapters:
        lines = site.measured.lines(name)
        seconds += lines.seconds if lines else 0
        took = f"{lines.seconds:.1f}" if lines else "not measured"
        rows.append([site.chapter(name), len(site.measured.pages[name].examples), took])
    total = sum(len(site.measured.pages[name].examples) for name in site.chapters)
    rows.append(["All", total, f"{seconds:.1f}"])
    return [table(["Chapter", "Examples", "Seconds"], rows, last_is_sum=True)]


def _excused(app: Sphinx, docname: str) -> list[Node]:
    site = _Site(app, docname)
    found = all_lines(site.measured).excused
    rows: list[Sequence[Cell]] = [[site.line(*line), reason] for line, reason in sorted(found.items())]
    return [table(["Line", "Why no example executes it"], rows) if rows else _note("No line is excused.")]


def _survivors(app: Sphinx, docname: str) -> list[Node]:
    site = _Site(app, docname)
    rows: list[Sequence[Cell]] = []
    for path, listings in groupby(sorted(site.measured.tried), key=lambda listing: listing.path):
        found = mutants(site.measured, listings)
        if found.survived:
            rows.append([site.survivors(path), found.killed + found.survived, found.survived, found.share])
    headers = ["Source", "Mutants", "Survived", "Killed of these"]
    return [table(headers, rows) if rows else _note("No mutant that was tried survived.")]


def _equivalent(app: Sphinx, docname: str) -> list[Node]:
    site = _Site(app, docname)
    rows = [
        [site.line(listing.path, mutant.line), *_change(mutant), mutant.reason]
        for listing, mutant in site.measured.listed("equivalent")
    ]
    headers = ["Line", "As it is", "Mutant", "Why it makes no difference"]
    return [table(headers, rows) if rows else _note("No mutant is listed as equivalent.")]


def _change(mutant: Mutant) -> list[Cell]:
    # Not `literal`: Sphinx puts each word of one into an element of its own, which doubles the weight of the page.
    return [nodes.inline("", text.strip(), classes=["proven-code"]) for text in (mutant.before, mutant.after)]


def _narrated(app: Sphinx, docname: str) -> list[Node]:
    site = _Site(app, docname)
    listings = [listing for shown in site.measured.pages.values() for listing in shown.listings]
    found = narrated.narrated(site.configuration.root, listings, site.configuration.package)
    headers = ["Folder", "Files", "Lines", "In a listing", "Share"]
    rows: list[Sequence[Cell]] = []
    folds: list[Node] = []
    owners = narrated.owners(app.env)
    for folder, group in groupby(found, key=lambda one: PurePath(one.path).parent.as_posix()):
        files = list(group)
        name = nodes.literal("", folder if folder != "." else files[0].path)
        rows.append([name, *_narrated_figures(files)])
        folds.append(_files(site, name.astext(), files, owners))
    rows.append(["All", *_narrated_figures(found)])
    return [table(headers, rows, last_is_sum=True), *folds]


def _narrated_figures(files: list[narrated.Narrated]) -> list[Cell]:
    lines, shown = sum(one.lines for one in files), sum(one.shown for one in files)
    return [len(files), lines, shown, narrated.share(files)]


def _files(site: _Site, name: str, files: list[narrated.Narrated], owners: dict[str, str]) -> Node:
    rows: list[Sequence[Cell]] = []
    for one in files:
        owner: Cell = site.chapter(owners[one.path]) if one.path in owners else "none"
        rows.append([site.line(one.path), one.lines, one.shown, narrated.share([one]), owner])
    inside = table(["File", "Lines", "In a listing", "Share", "Chapter"], rows)
    return details("", summary("", f"The files of {name}"), inside, classes=["folded"])


TABLES: dict[str, Callable[[Sphinx, str], list[Node]]] = {
    "state": _state,
    "lines": _lines,
    "mutants": _mutants,
    "examples": _examples,
    "excused": _excused,
    "survivors": _survivors,
    "equivalent": _equivalent,
    "narrated": _narrated,
}
