"""``{diagram}``: an SVG file inlined into the page, so that it uses the colors of the theme, light and dark.

::

    ```{diagram} layers.svg
    :alt: User code calls the dispatcher, which calls the backend, which calls the driver.

    An optional caption.
    ```

The path is relative to the page. Draw text and lines with ``currentColor``, accents with ``var(--guide-rule)``.
``:alt:`` describes the picture in words and is required.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from weaver.pages.repository import report
from weaver.pages.where import line_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from docutils.nodes import Node
    from sphinx.application import Sphinx

_SVG = "{http://www.w3.org/2000/svg}"


class Diagram(SphinxDirective):
    """A figure whose picture is an SVG file."""

    has_content = True
    required_arguments = 1
    option_spec: ClassVar[dict[str, Callable[[str], Any]]] = {"alt": directives.unchanged_required}

    def run(self) -> list[Node]:
        """Return the figure; report a fault and show nothing."""
        file = Path(self.env.doc2path(self.env.docname)).parent / self.arguments[0]
        self.env.note_dependency(str(file))
        try:
            svg = self._svg(file)
        except (LookupError, OSError, ET.ParseError) as error:
            line = line_of(self.env, self.env.docname, [self.block_text.splitlines()[0]], self.lineno)
            report(self.env.docname, line, f"diagram {self.arguments[0]}: {error}", "diagram")
            return []
        figure = nodes.figure("", nodes.raw("", svg, format="html"), classes=["diagram"])
        caption = self.parse_content_to_nodes()
        if caption:
            figure += nodes.caption("", "", *caption[0].children)
        return [figure]

    def _svg(self, file: Path) -> str:
        if not self.options.get("alt"):
            raise LookupError(":alt: is missing: say in words what the picture shows")
        root = ET.parse(file).getroot()
        if root.tag != f"{_SVG}svg" or "viewBox" not in root.attrib:
            raise LookupError("the file is no SVG with a viewBox, which a picture needs to fit a phone")
        for element in root.iter():
            if element.tag == f"{_SVG}script" or any("//" in value for value in element.attrib.values()):
                name = element.tag.removeprefix(_SVG)
                raise LookupError(f"<{name}> may fetch or run something: a picture is self-contained")
            if element.tag == f"{_SVG}style":
                raise LookupError("<style> would apply to the whole page: write attributes on the elements")
        root.attrib.pop("width", None)
        root.attrib.pop("height", None)
        root.set("role", "img")
        root.set("aria-label", " ".join(self.options["alt"].split()))
        ET.register_namespace("", _SVG.strip("{}"))
        return ET.tostring(root, encoding="unicode")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("diagram", Diagram)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
