"""The mark under each listing: how much of it the examples execute, and which example does.

It is made from the proof files alone, so a build of the pages needs no compiler. A result that was measured on other
code, other examples or another release is not shown: the mark is then stale.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from weaver.pages import current
from weaver.pages.folded import details, summary
from weaver.pages.links import link
from weaver.pages.records import page, pages
from weaver.pages.repository import configuration_of, repository_source
from weaver.proof.figures import mutants
from weaver.proof.lines import UNMEASURED
from weaver.run import examples

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

    from weaver.proof.measured import Measured
    from weaver.proof.proof_files import ListingLines
    from weaver.sources.listing import Listing

# A sign and words convey the state; the color only repeats it.
_SIGNS = {"proven": "✓", "missed": "✗", "silent": "·", "stale": "↻", "absent": "?"}
_SILENT = {
    "declaration": "declarations, nothing to execute",
    "registration": "registration, runs when the library loads",
    "import": "runs when the module is imported",
    "build file": "build file, what it builds is what the examples run",
    "other release": "for another release, not compiled with this one",
}


class _Writer:
    """Writes the marks of one page."""

    def __init__(self, app: Sphinx, docname: str) -> None:
        self.app = app
        self.docname = docname
        self.measured: Measured = current.measured(app)
        self.configuration = configuration_of(app.config)
        self.command = self.configuration.command("proof")

    def mark(self, listing: Listing) -> nodes.container:
        """Return the mark of a listing."""
        lines = self.measured.lines(self.docname)
        if lines is not None:
            found = lines.listings[listing]
            state = "missed" if found.missed else "proven" if found.executable else "silent"
            text = [*self._statement(listing, found), *self._mutants(listing)]
            folds = [*self._excused(listing, found)]
        else:
            known = self.docname in self.measured.proof.pages
            state = "stale" if known else "absent"
            says = "Changed since it was measured" if known else "Not measured"
            text, folds = [nodes.Text(f"{says}: run "), nodes.literal("", self.command)], []
        sign = nodes.inline("", _SIGNS[state], classes=["mark-sign"])
        return nodes.container("", nodes.paragraph("", "", sign, *text), *folds, classes=["mark", f"mark-{state}"])

    def _statement(self, listing: Listing, found: ListingLines) -> Iterator[nodes.Node]:
        total, here, others = found.executable, len(found.executed), self._others(listing, found)
        if not total:
            known = _SILENT | {UNMEASURED: f"not measured, {self.configuration.why_unmeasured(listing.path)}"}
            reasons = "; ".join(known.get(reason, reason) for reason in found.silent) or "nothing to execute"
            yield nodes.Text(reasons[0].upper() + reasons[1:])
            return
        if here or not others:
            text = f"{here} of {total} {_lines(total)} executed by this page"
            anchor = None if found.example is None else f"#example-{found.example + 1}"
            yield nodes.reference("", text, refuri=anchor, internal=True) if anchor else nodes.Text(text)
        if others:
            count = f"{here + len(found.elsewhere)} of {total}"
            yield nodes.Text(f", {count} with " if here else f"{count} {_lines(total)} executed by ")
            for position, (docname, example) in enumerate(others):
                yield nodes.Text(", " if position else "")
                yield self._page_link(docname, "" if example is None else f"example-{example + 1}")
        if found.excused:
            yield nodes.Text(f", {len(found.excused)} excused")
        if found.missed:
            yield nodes.Text("; not executed: ")
            yield from self._line_links(listing, found.missed)

    def _others(self, listing: Listing, found: ListingLines) -> list[tuple[str, int | None]]:
        """Return the other pages that execute lines of a listing, each with its example."""
        wanted = set(found.elsewhere)
        result: dict[str, int | None] = {}
        for docname in self.measured.pages:
            lines = self.measured.lines(docname) if wanted and docname != self.docname else None
            for other, theirs in lines.listings.items() if lines else ():
                if other.path == listing.path and wanted.intersection(theirs.executed):
                    result.setdefault(docname, theirs.example)
        return list(result.items())

    def _page_link(self, docname: str, anchor: str) -> nodes.reference:
        uri = self.app.builder.get_relative_uri(self.docname, docname) + (f"#{anchor}" if anchor else "")
        return nodes.reference("", self.app.env.titles[docname].astext(), refuri=uri, internal=True)

    def _line_links(self, listing: Listing, numbers: list[int]) -> Iterator[nodes.Node]:
        source = repository_source(self.app.config, listing.path)
        for position, (first, last) in enumerate(_ranges(numbers)):
            yield nodes.Text(", " if position else "")
            yield link(source, f"{first}-{last}" if last > first else f"{first}", first, "mark-lines")

    def _excused(self, listing: Listing, found: ListingLines) -> Iterator[nodes.Node]:
        if found.excused:
            items = nodes.bullet_list()
            for number, reason in found.excused.items():
                where = [*self._line_links(listing, [number]), nodes.Text(f": {reason}")]
                items += nodes.list_item("", nodes.paragraph("", "", nodes.Text("line "), *where))
            head = summary("", f"why {len(found.excused)} {'is' if len(found.excused) == 1 else 'are'} excused")
            yield details("", head, items)

    def _mutants(self, listing: Listing) -> Iterator[nodes.Node]:
        found = mutants(self.measured, [listing])
        total = found.killed + found.survived
        if self.measured.proof.mutants and self.measured.wants_mutants(listing):
            yield nodes.inline("", " · ", classes=["mark-gap"])
            yield nodes.Text("mutants not tried yet")
        elif total:
            yield nodes.inline("", " · ", classes=["mark-gap"])
            text = f"{found.killed} of {total} {'mutants' if total > 1 else 'mutant'} killed"
            target = next(
                (name for name, record in sorted(pages(self.app.env).items()) if "mutants" in record.figures), None
            )
            if target is None:
                yield nodes.Text(text)
            else:
                uri = self.app.builder.get_relative_uri(self.docname, target) + "#proven-mutants"
                yield nodes.reference("", text, refuri=uri, internal=True)


def _lines(count: int) -> str:
    return "line" if count == 1 else "lines"


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    """Return ascending numbers as ranges of consecutive numbers."""
    breaks = [index for index, (one, next_) in enumerate(pairwise(numbers), start=1) if next_ != one + 1]
    starts, ends = [0, *breaks], [*breaks, len(numbers)]
    return [(numbers[start], numbers[end - 1]) for start, end in zip(starts, ends, strict=True)]


class Marks(SphinxPostTransform):
    """Adds the mark under each listing of our sources."""

    default_priority = 5
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Add the marks."""
        writer = _Writer(self.app, self.env.docname)
        for wrapper in list(self.document.findall(nodes.container)):
            if "weaver_listing" in wrapper:
                wrapper += writer.mark(wrapper["weaver_listing"])


def _number_examples(app: Sphinx, doctree: nodes.document) -> None:
    """Give the executed blocks of a page the anchors ``example-1``, ``example-2`` and so on."""
    shown = [node for node in doctree.findall(examples.is_executed) if isinstance(node, nodes.Element)]
    blocks = [node for node in shown if node.get("testnodetype") != "testoutput"]
    for number, node in enumerate(blocks, start=1):
        name = f"example-{number}"
        if isinstance(node, nodes.comment):  # a hidden block leaves nothing on the page to carry the anchor
            node.parent.insert(node.parent.index(node), nodes.target("", "", ids=[name]))
        else:
            node["ids"].append(name)


def _made(app: Sphinx, docname: str) -> str:
    writer = _Writer(app, docname)
    return "\n".join(writer.mark(listing).pformat() for listing in page(app.env, docname).shown)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the anchors of the examples and the marks."""
    app.setup_extension("weaver.pages.current")
    current.keep_current(app, _made)
    app.connect("doctree-read", _number_examples)
    app.add_post_transform(Marks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
