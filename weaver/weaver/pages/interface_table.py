"""``{interface-table}``: tables that name every virtual member function of interfaces of the installed package.

::

    ```{interface-table}
    :headers: torch:ATen/detail/AcceleratorHooksInterface.h#AcceleratorHooksInterface

    | Method | Called by |
    | --- | --- |
    | `init()` | ... |
    ```

The first column of each table in the body names the member functions as inline code. Several directives on a page with
the same ``:headers:`` count as one, so that headings can separate them. The build fails when a new release adds a
member function, or when a table names one that does not exist. A row with the role ``since`` or ``until`` counts only
for those releases. The index of the site lists each member function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx import addnodes
from sphinx.util.docutils import SphinxDirective

from weaver.pages.records import page
from weaver.pages.release_roles import holds
from weaver.pages.repository import configuration_of, installed_source, report
from weaver.pages.where import line_containing, line_of
from weaver.sources import headers
from weaver.sources.installed import is_path, release

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from docutils.nodes import Node
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


class InterfaceTable(SphinxDirective):
    """Marks the tables in its body as naming the interfaces of ``:headers:``."""

    has_content = True
    option_spec: ClassVar[dict[str, Callable[[str], Any]]] = {"headers": directives.unchanged_required}

    def run(self) -> list[Node]:
        """Return the body; the check runs when the page has been read."""
        interfaces = " ".join(self.options.get("headers", "").split())
        body = nodes.container(classes=["interface-table"], interfaces=interfaces)
        body += self.parse_content_to_nodes()
        classes = ", ".join(entry.partition("#")[2] for entry in interfaces.split())
        for row in _rows(body):
            if (literal := _literal(row)) is not None:
                target = f"interface-{self.env.new_serialno('interface')}"
                entry = ("single", f"{_name(literal)} ({classes})", target, "", None)
                literal.parent += [addnodes.index(entries=[entry]), nodes.target("", "", ids=[target])]
        body.line = line_of(self.env, self.env.docname, [self.block_text.splitlines()[0]], self.lineno)
        return [body]


def _check_page(app: Sphinx, doctree: nodes.document) -> None:
    groups: dict[str, list[nodes.container]] = {}
    package = configuration_of(app.config).installed.package
    for body in doctree.findall(nodes.container):
        if "interfaces" in body:
            groups.setdefault(body["interfaces"], []).append(body)
    for interfaces, bodies in groups.items():
        line = bodies[0].line or 1
        try:
            declared = _declared(app.env, interfaces)
        except LookupError as error:
            _refuse(app.env, line, str(error))
            continue
        named = _named(app.env, bodies)
        missing = ", ".join(f"`{name}` ({where})" for name, where in declared.items() if name not in named)
        if missing:
            _refuse(app.env, line, f"{package} {release(package)} declares what no row names: {missing}")
        for name, row in named.items():
            if name not in declared and row.holds:
                _refuse(app.env, row.line, f"`{name}` is no virtual member function of {interfaces}")
            elif name in declared and not row.holds:
                other = f"{package} {release(package)} declares `{name}`, and its row is marked for other releases"
                _refuse(app.env, row.line, other)


def _declared(env: BuildEnvironment, interfaces: str) -> dict[str, str]:
    """Return where each member function is declared. Throws: ``LookupError``."""
    declared: dict[str, str] = {}
    for entry in interfaces.split():
        path, _, class_name = entry.partition("#")
        if not is_path(configuration_of(env.config).installed, path) or not class_name:
            raise LookupError(f":headers: `{entry}` is not of the form prefix:path/to/Header.h#ClassName")
        source = installed_source(env.config, path)
        env.note_dependency(str(source.file))
        page(env, env.docname).installed_files.add(path)
        methods = headers.virtual_methods(source.file.read_text(encoding="utf-8"), class_name)
        if not methods:
            raise LookupError(f"{class_name} of {path} declares no virtual member function")
        for method in methods:
            declared.setdefault(method.name, f"{path.partition(':')[2]}:{method.line}")
    if not declared:
        raise LookupError("name the interfaces in :headers:")
    return declared


def _rows(body: nodes.container) -> Iterator[nodes.row]:
    return (row for row in body.findall(nodes.row) if isinstance(row.parent, nodes.tbody))


def _literal(row: nodes.row) -> nodes.literal | None:
    """The inline code of the first cell, which names a member function."""
    return next(iter(row[0].findall(nodes.literal)), None)


def _name(literal: nodes.literal) -> str:
    return literal.astext().partition("(")[0].rpartition("::")[2].strip()


class _Row(NamedTuple):
    """The line of a row, and whether it is about the installed release."""

    line: int
    holds: bool


def _named(env: BuildEnvironment, bodies: list[nodes.container]) -> dict[str, _Row]:
    """Return the row of each member function named in the tables."""
    named: dict[str, _Row] = {}
    package = configuration_of(env.config).installed.package
    for row in (row for body in bodies for row in _rows(body)):
        literal = _literal(row)
        hint = next((part.line for part in row.findall() if part.line), 1)
        if literal is None:
            line = line_containing(env, env.docname, row[0].astext(), hint)
            _refuse(env, line, "the first cell of a row must name a member function as inline code")
            continue
        line = line_containing(env, env.docname, f"`{literal.astext()}`", hint)
        name = _name(literal)
        if name in named:
            _refuse(env, line, f"`{name}` has two rows, also in line {named[name].line}")
        named.setdefault(name, _Row(line, holds(row, package)))
    return named


def _refuse(env: BuildEnvironment, line: int, message: str) -> None:
    report(env.docname, line, f"interface-table: {message}", "interface")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive and the check."""
    app.add_directive("interface-table", InterfaceTable)
    app.connect("doctree-read", _check_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
