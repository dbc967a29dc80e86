"""``{conformance-poster}``: the conformance kit's list of its checks, as a sheet on the page and as a file beside it.

The kit runs only when a page of a site is written, since its list includes PyTorch's operator database, which takes
seconds to import. A book has no files beside its pages, so it says how to make the sheet.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from weaver.pages.book import is_site
from weaver.pages.repository import report, root_of
from weaver.pages.where import line_of

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx

KIT = Path("conformance")
CHAPTERS = "accelerator"
DOWNLOAD = "Download the sheet"


class conformance_poster(nodes.General, nodes.Element):  # noqa: N801 - docutils names nodes like this
    """A placeholder for the sheet until the page is written."""


class ConformancePoster(SphinxDirective):
    """Shows the sheet, below a link that downloads it."""

    def run(self) -> list[Node]:
        """Return the placeholder. A change of the kit makes Sphinx read, and so write, the page again."""
        for file in sorted((root_of(self.config) / KIT).rglob("*.py")):
            self.env.note_dependency(str(file))
        node = conformance_poster()
        node.line = line_of(self.env, self.env.docname, [self.block_text.splitlines()[0]], self.lineno)
        return [node]


def _show(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    for node in list(doctree.findall(conformance_poster)):
        shown: list[Node] = []
        if app.builder.format == "html" and not is_site(app.builder):
            command = nodes.literal("", "PYTHONPATH=conformance python -m accelerator_conformance --poster sheet.html")
            where = "The sheet is part of the guide's web pages, and "
            shown.append(nodes.paragraph("", "", nodes.Text(where), command, nodes.Text(" writes it.")))
        elif app.builder.format == "html":
            file = Path(app.outdir, f"{docname}_poster.html")
            guide = app.builder.get_relative_uri(docname, f"{CHAPTERS}/index").rpartition("/")[0]
            if fault := _write(root_of(app.config) / KIT, file, guide):
                report(docname, node.line, f"conformance-poster: {fault}", "poster")
            else:
                sheet = file.read_text(encoding="utf-8").partition("<main>")[2].partition("</main>")[0]
                link = f"<p><a href='{file.name}' download='conformance_poster.html'>{DOWNLOAD}</a></p>"
                shown.append(nodes.raw("", link + sheet, format="html"))
        node.replace_self(shown)


def _write(kit: Path, file: Path, guide: str) -> str:
    """Make the kit write its sheet. Returns what went wrong, or an empty string."""
    command = [sys.executable, "-m", "accelerator_conformance", "--poster", str(file), "--guide", guide]
    environment = {**os.environ, "PYTHONPATH": str(kit)}
    ran = subprocess.run(
        command, cwd=kit.parent, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    return (ran.stdout + ran.stderr).strip() if ran.returncode else ""


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_node(conformance_poster)
    app.add_directive("conformance-poster", ConformancePoster)
    app.connect("doctree-resolved", _show)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
