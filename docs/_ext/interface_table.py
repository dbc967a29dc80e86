"""``{interface-table}``: tables that name every virtual member function of interfaces of the installed torch.

::

    ```{interface-table}
    :headers: torch:ATen/detail/AcceleratorHooksInterface.h#AcceleratorHooksInterface

    | Method | Called by |
    | --- | --- |
    | `init()` | ... |
    ```

The first column of all tables in the body names, as inline code, the member functions. When a new torch adds one, or a
table names one that is not there, the build fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from docs._ext import headers
from docs._ext.records import page
from docs._ext.repository import report, torch_source
from docs._ext.torch_files import is_torch_path, torch_version
from docs._ext.where import line_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from docutils.nodes import Node
    from sphinx.application import Sphinx


class InterfaceTable(SphinxDirective):
    """Checks the tables in its body against the interfaces that ``:headers:`` names."""

    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]]] = {"headers": directives.unchanged_required}

    def run(self) -> list[Node]:
        """Return the body as it is, after the check."""
        body = nodes.container(classes=["interface-table"])
        body += self.parse_content_to_nodes(allow_section_headings=True)
        line = line_of(self.env, self.env.docname, [self.block_text.splitlines()[0]], self.lineno)
        try:
            declared = self._declared()
        except LookupError as error:
            self._refuse(line, str(error))
            return [body]
        named = self._named(body, line)
        missing = ", ".join(f"`{name}` ({where})" for name, where in declared.items() if name not in named)
        if missing:
            self._refuse(line, f"torch {torch_version()} declares what no row names: {missing}")
        for name, row in named.items():
            if name not in declared:
                self._refuse(row, f"`{name}` is no virtual member function of {self.options['headers']}")
        return [body]

    def _declared(self) -> dict[str, str]:
        declared: dict[str, str] = {}
        for entry in self.options.get("headers", "").split():
            path, _, class_name = entry.partition("#")
            if not is_torch_path(path) or not class_name:
                raise LookupError(f":headers: `{entry}` is not of the form torch:path/to/Header.h#ClassName")
            source = torch_source(path)
            self.env.note_dependency(str(source.file))
            page(self.env, self.env.docname).torch_files.add(path)
            methods = headers.virtual_methods(source.file.read_text(encoding="utf-8"), class_name)
            if not methods:
                raise LookupError(f"{class_name} of {path} declares no virtual member function")
            for method in methods:
                declared.setdefault(method.name, f"{source.label.partition(': ')[2]}:{method.line}")
        if not declared:
            raise LookupError("name the interfaces in :headers:")
        return declared

    def _named(self, body: nodes.Element, fallback: int) -> dict[str, int]:
        named: dict[str, int] = {}
        for row in body.findall(nodes.row):
            if not isinstance(row.parent, nodes.tbody):
                continue
            cell = row[0]
            line = cell.line or row.line or next((part.line for part in cell.findall() if part.line), None) or fallback
            literal = next(iter(cell.findall(nodes.literal)), None)
            if literal is None:
                self._refuse(line, "the first cell of a row must name a member function as inline code")
                continue
            name = literal.astext().partition("(")[0].rpartition("::")[2].strip()
            if name in named:
                self._refuse(line, f"`{name}` has two rows, also in line {named[name]}")
            named.setdefault(name, line)
        return named

    def _refuse(self, line: int, message: str) -> None:
        report(self.env.docname, line, f"interface-table: {message}", "interface")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("interface-table", InterfaceTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
