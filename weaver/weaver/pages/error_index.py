"""``{error-index}``: every error that some page raises and compares, indexed by its message.

The pages explain the errors; the index links to the place and repeats the cause and cure where the page gives them in
the usual form: a paragraph that begins with "Cause:" in the section of the error, or the row of a table with the
columns Cause and Cure whose first cell quotes the message.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from weaver.pages import current
from weaver.pages.narrated import reading_order
from weaver.pages.repository import configuration_of
from weaver.run.examples import is_executed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Set

    from docutils.nodes import Node
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

_ATTRIBUTE = "weaver_errors"
_MESSAGE = re.compile(r"(?<![\w.])(?:\w+\.)*([A-Z]\w*(?:Error|Warning)): (\S.*)$")
_SOURCE = re.compile(r"\s*(?:>>>|\.\.\.)(?: |$)")
_CAUSE = re.compile(r"Cause: *(.*?)(?: *Cure: *(.*))?$", re.DOTALL)
# Replaces what differs from run to run in a message and, in the index, large numbers, which count bytes.
_GAP = "..."
# A shorter quotation is a name that occurs in many messages.
_SHORTEST = 13
_BYTES = re.compile(r"\b\d{4,}\b")


@dataclass(frozen=True)
class Place:
    """A section of a page in which an error occurs, and how the page explains it."""

    docname: str
    anchor: str
    title: str
    cause: str = ""
    cure: str = ""


@dataclass
class Seen:
    """The errors of one page: the place of each, by class and message, and the table rows that explain some of them."""

    errors: dict[tuple[str, str], Place] = field(default_factory=dict)
    rows: list[tuple[tuple[str, ...], str, str]] = field(default_factory=list)
    """What the first cell quotes, the cause, the cure."""
    has_index: bool = False


def messages(text: str) -> Iterator[tuple[str, str]]:
    """The class and the message of each error in the output of an executed block."""
    for line in text.splitlines():
        if not _SOURCE.match(line) and (found := _MESSAGE.search(line)):
            yield found[1], found[2].strip()


def read(doctree: nodes.document, docname: str) -> Seen:
    """The errors that a page raises and explains."""
    seen = Seen()
    for block in doctree.findall(is_executed):
        section = _section(block)
        for error in messages(str(cast("nodes.Element", block).get("test", block.astext()))):
            seen.errors.setdefault(error, _place(section, docname))
    for table in doctree.findall(nodes.table):
        seen.rows += _rows(table)
    seen.has_index = any(True for _ in doctree.findall(error_index))
    return seen


def _section(node: Node) -> nodes.Element:
    parent = node.parent
    while parent is not None and not isinstance(parent, (nodes.section, nodes.document)):
        parent = parent.parent
    return cast("nodes.Element", parent)


def _place(section: nodes.Element, docname: str) -> Place:
    title = next((child.astext() for child in section.children if isinstance(child, nodes.title)), "")
    for paragraph in section.children:
        if isinstance(paragraph, nodes.paragraph) and (found := _CAUSE.match(" ".join(paragraph.astext().split()))):
            return Place(docname, _anchor(section), title, found[1], found[2] or "")
    return Place(docname, _anchor(section), title)


def _anchor(section: nodes.Element) -> str:
    return str(section["ids"][0]) if section.get("ids") and isinstance(section, nodes.section) else ""


def _rows(table: nodes.table) -> Iterator[tuple[tuple[str, ...], str, str]]:
    head = [entry.astext() for entry in next(table.findall(nodes.thead), nodes.thead()).findall(nodes.entry)]
    if head[1:] != ["Cause", "Cure"]:
        return
    for row in next(table.findall(nodes.tbody)).findall(nodes.row):
        what, cause, cure = row.children
        quoted = tuple(literal.astext() for literal in what.findall(nodes.literal))
        yield quoted, " ".join(cause.astext().split()), " ".join(cure.astext().split())


def _quotes(quoted: str, message: str) -> bool:
    """Whether the cell of a table quotes a message; a gap in the quotation matches anything."""
    parts = [re.escape(part.strip()) for part in quoted.split(_GAP) if part.strip()]
    return len(quoted) >= _SHORTEST and re.search(".*".join(parts), message) is not None


def merged(pages: Iterable[Seen], prefix: str = "") -> dict[str, dict[str, list[Place]]]:
    """The places of each error by class and message, in the order of the pages, with the explanation from a table.

    Messages that differ only in byte counts are merged. A common ``prefix`` is ignored in their order.
    """
    result: defaultdict[str, dict[str, list[Place]]] = defaultdict(dict)
    for seen in pages:
        for (kind, message), place in seen.errors.items():
            explained = place
            for quoted, cause, cure in seen.rows if not place.cause else ():
                if any(_quotes(one, f"{kind}: {message}") for one in quoted):
                    explained = Place(place.docname, place.anchor, place.title, cause, cure)
            places = result[kind].setdefault(_BYTES.sub(_GAP, message), [])
            if explained not in places:
                places.append(explained)

    def alphabetical(item: tuple[str, object]) -> str:
        return re.sub(rf"^\W*(?:{re.escape(prefix)})?", "", item[0]).lower()

    return {kind: dict(sorted(result[kind].items(), key=alphabetical)) for kind in sorted(result)}


class error_index(nodes.General, nodes.Element):  # noqa: N801 - docutils names nodes like this
    """The placeholder of the index until all pages are read."""


class ErrorIndex(SphinxDirective):
    """Shows all errors, by class."""

    def run(self) -> list[Node]:
        """Return the placeholder."""
        return [error_index()]


def _all(env: BuildEnvironment) -> dict[str, Seen]:
    if not hasattr(env, _ATTRIBUTE):
        setattr(env, _ATTRIBUTE, {})
    return cast("dict[str, Seen]", getattr(env, _ATTRIBUTE))


def _note(app: Sphinx, doctree: nodes.document) -> None:
    _all(app.env)[app.env.docname] = read(doctree, app.env.docname)


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    _all(env).pop(docname, None)


def _merge(app: Sphinx, env: BuildEnvironment, docnames: Set[str], other: BuildEnvironment) -> None:
    _all(env).update({name: seen for name, seen in _all(other).items() if name in docnames})


def _made(app: Sphinx) -> dict[str, dict[str, list[Place]]]:
    found = _all(app.env)
    seen = (found[docname] for docname in reading_order(app.env) if docname in found)
    return merged(seen, configuration_of(app.config).message_prefix)


def _said(app: Sphinx, docname: str) -> str:
    """The text of the index on its page, so that the page is rewritten when the errors of another page change."""
    return repr(_made(app)) if docname in (found := _all(app.env)) and found[docname].has_index else ""


def _show(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for node in list(doctree.findall(error_index)):
        classes: list[Node] = []
        sections: list[Node] = []
        for kind, found in _made(app).items():
            anchor = f"error-{nodes.make_id(kind)}"
            classes += [nodes.Text(", ")] if classes else []
            classes.append(nodes.reference("", "", nodes.literal("", kind), refid=anchor, internal=True))
            classes.append(nodes.Text(f" ({len(found)})"))
            items = [_item(app, docname, message, places) for message, places in found.items()]
            title = nodes.title("", "", nodes.literal("", kind))
            box = nodes.definition_list("", *items, classes=["error-index"])
            sections.append(nodes.section("", title, box, ids=[anchor], names=[kind.lower()]))
        node.replace_self([nodes.paragraph("", "", *classes), *sections])


def _item(app: Sphinx, docname: str, message: str, places: list[Place]) -> nodes.definition_list_item:
    links: list[Node] = []
    for place in places:
        chapter = app.env.titles[place.docname].astext()
        text = chapter if place.title in ("", chapter) else f"{chapter}, {place.title}"
        uri = app.builder.get_relative_uri(docname, place.docname) + (f"#{place.anchor}" if place.anchor else "")
        links += [nodes.Text("; ")] if links else []
        links.append(nodes.reference("", text, refuri=uri, internal=True))
    body: list[Node] = [nodes.paragraph("", "", *links)]
    for place in places:
        for label, text in (("Cause", place.cause), ("Cure", place.cure)):
            if text:
                body.append(nodes.paragraph("", "", nodes.strong("", f"{label}:"), nodes.Text(f" {text}")))
    return nodes.definition_list_item("", nodes.term("", "", _literal(message)), nodes.definition("", *body))


def _literal(message: str) -> nodes.literal:
    # As code of a language Sphinx writes it as it is. It marks each word of any other literal, half the page's weight.
    return nodes.literal("", message, language="text", classes=["code", "notranslate"])


def setup(app: Sphinx) -> dict[str, bool | int]:
    """Register the directive, and the handlers that keep it in step with the pages."""
    app.setup_extension("weaver.pages.current")
    app.add_node(error_index)
    app.add_directive("error-index", ErrorIndex)
    app.connect("doctree-read", _note)
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("doctree-resolved", _show)
    current.keep_current(app, _said)
    return {"env_version": 1, "parallel_read_safe": True, "parallel_write_safe": True}
