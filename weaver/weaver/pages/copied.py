"""The text that the copy button of a listing copies: self-contained code.

The button is that of sphinx-copybutton. The text is a hidden element next to the listing; guide.js points the button to
it, and gives the button a title that names what is added.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from weaver.pages.book import is_site
from weaver.pages.repository import configuration_of
from weaver.sources.standalone import Standalone, standalone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

_NAMED = 3


class copied(nodes.General, nodes.Element):  # noqa: N801 (docutils names its nodes so)
    """The text that a button copies instead of what is shown."""


class Copied(SphinxPostTransform):
    """Puts the text to copy next to each listing of our sources that is not self-contained."""

    default_priority = 6
    formats = ("html",)

    def run(self, **_: object) -> None:
        """Add the texts."""
        if not is_site(self.app.builder):
            return
        for number, (box, found) in enumerate(list(self._differing()), start=1):
            box += copied("", text=found.text, title=title(found), number=number)

    def _differing(self) -> Iterator[tuple[nodes.Element, Standalone]]:
        configuration = configuration_of(self.config)
        for block in self.document.findall(nodes.literal_block):
            box = block.parent
            if "weaver_listing" not in box:
                continue
            listing = box["weaver_listing"]
            text = (configuration.root / listing.path).read_text(encoding="utf-8")
            origin = f"{listing.path} of {configuration.origin}" if configuration.origin else listing.path
            found = standalone(listing.path, text, listing.first, listing.last, origin)
            if _code(found.text) != _code(block.astext()):
                yield box, found


def _code(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def title(found: Standalone) -> str:
    """Return the title of the button."""
    named, others = found.names[:_NAMED], len(found.names) - _NAMED
    along = [
        *(f"{count} {word}{'s' if count > 1 else ''}" for count, word in _counts(found) if count),
        *named,
        *([f"{others} more of the same file"] if others > 0 else []),
    ]
    return f"Copy with {', '.join(along[:-1])}{' and ' if along[1:] else ''}{along[-1]}" if along else "Copy"


def _counts(found: Standalone) -> list[tuple[int, str]]:
    return [(found.includes, "include"), (found.imports, "import")]


def _visit(translator: HTML5Translator, node: copied) -> None:
    translator.body.append(element(node["text"], node["title"], node["number"]))
    raise nodes.SkipNode


def element(text: str, says: str, number: int) -> str:
    """Return the hidden element with a text to copy, for the parent of the element that has the button."""
    return f'<pre class="copied" hidden id="copied-{number}" title="{escape(says)}">{escape(text)}</pre>\n'


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the node and the step that adds it."""
    app.add_node(copied, html=(_visit, None))
    app.add_post_transform(Copied)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
