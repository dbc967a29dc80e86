"""``{whole-sources}``: the files that belong to a page, listed at its end.

::

    ```{whole-sources}
    csrc/runtime/hooks.h
    csrc/runtime/hooks.cpp
    ```

Each is a link to its own page, with its length and the first sentence of the comment at its top. A region that is
listed only here does not count as shown.
"""

from __future__ import annotations

import ast
import re
from itertools import takewhile
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from weaver.pages.links import link
from weaver.pages.records import page
from weaver.pages.repository import Source, report, repository_source
from weaver.pages.where import line_of
from weaver.sources import regions

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx

_COMMENT = re.compile(r"(?://[/!]?|#)(?: |$)")  # not #include
_SENTENCE_END = re.compile(r"(?<=\.)\s")


class WholeSources(SphinxDirective):
    """Lists each file that its body names, relative to the root of the repository."""

    has_content = True

    def run(self) -> list[Node]:
        """Return the list."""
        items = []
        for path in (line.strip() for line in self.content):
            if path:
                try:
                    items.append(self._item(repository_source(self.config, path)))
                except LookupError as error:
                    line = line_of(self.env, self.env.docname, [path], self.lineno)
                    report(self.env.docname, line, f"whole-sources: {error}", "whole-sources")
        if not items:
            report(self.env.docname, self.lineno, "whole-sources: name one file to a line", "whole-sources")
            return []
        return [nodes.bullet_list("", *items, classes=["whole-sources"])]

    def _item(self, source: Source) -> nodes.list_item:
        self.env.note_dependency(str(source.file))
        page(self.env, self.env.docname).whole.add(source.label)
        lines = regions.without_marks(source.label, source.file.read_text(encoding="utf-8")).splitlines()
        said = purpose(source.label, lines)
        length = nodes.inline("", f" {len(lines)} lines", classes=["line-count"])
        about = [nodes.Text(f" {said}")] if said else []
        name = link(source, source.label, None, "source-link")
        return nodes.list_item("", nodes.paragraph("", "", name, length, *about))


def purpose(path: str, lines: list[str]) -> str:
    """Return the first sentence of the comment or docstring at the top of a file; "" if there is none."""
    if path.endswith((".py", ".pyi")):
        text = ast.get_docstring(ast.parse("\n".join(lines))) or ""
    else:
        below = iter(lines[1:] if lines and lines[0].startswith("#!") else lines)
        text = "\n".join(_COMMENT.sub("", line, count=1) for line in takewhile(_COMMENT.match, below))
    return " ".join(_SENTENCE_END.split(text, maxsplit=1)[0].split())


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("whole-sources", WholeSources)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
