"""``{console-run}``: shell commands that the doctest builder runs, with the output it compares.

Bash runs each line that starts with ``$ `` in the root of the repository, with the ``python`` of the build first on
the path; the lines up to the next command are its whole output, stdout and stderr. ``:status:`` is the exit status that
every command of the block must have.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

if TYPE_CHECKING:
    from collections.abc import Callable

    from docutils.nodes import Node
    from sphinx.application import Sphinx


class ConsoleRun(SphinxDirective):
    """A block of commands and their output."""

    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]]] = {"status": directives.nonnegative_int}

    def run(self) -> list[Node]:
        """Return a literal block that the doctest builder runs."""
        code = "\n".join(self.content)
        node = nodes.literal_block(code, code, testnodetype="console", language="console")
        node["status"] = self.options.get("status", 0)
        self.set_source_info(node)
        return [node]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("console-run", ConsoleRun)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
