"""The guide as an EPUB, without what its extensions and its theme add only for the web.

The file is what ``epubcheck`` accepts: pages in XHTML, pictures as files, nothing that no page uses.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

STYLES = "guide-epub.css"
# Style sheets of extensions, for buttons and cards that a book does not have.
_LEFT_OUT = ("copybutton.css", "sphinx-design.min.css")


def _configure(app: Sphinx, config: Config) -> None:
    """Excludes the style, scripts and pictures of the web pages, which contain the pictures themselves."""
    static = Path(app.confdir, "_static")
    config.epub_exclude_files = [f"_static/{file.name}" for file in sorted(static.iterdir()) if file.name != STYLES]


def _unfold_tabs(app: Sphinx, doctree: nodes.document, _docname: str) -> None:
    """Puts tabs below one another: sphinx-design switches them with form elements, which are not valid XHTML."""
    if app.builder.name != "epub":
        return
    for parent in list(doctree.findall(nodes.Element)):
        if any(type(node).__name__ in ("sd_tab_input", "sd_tab_label") for node in parent.children):
            parent.children = [_untabbed(node) for node in parent.children if type(node).__name__ != "sd_tab_input"]


def _untabbed(node: nodes.Node) -> nodes.Node:
    return nodes.rubric("", "", *node.children) if type(node).__name__ == "sd_tab_label" else node


def _style(app: Sphinx, _page: str, _template: str, context: dict[str, Any], _doctree: nodes.document | None) -> None:
    if app.builder.name == "epub":
        files = context["css_files"]
        context["css_files"] = [file for file in files if not str(file.filename).endswith(_LEFT_OUT)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the handlers."""
    app.connect("config-inited", _configure)
    app.connect("doctree-resolved", _unfold_tabs)
    app.connect("html-page-context", _style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
