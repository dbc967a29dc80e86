"""``{stub-table}``: the stubs of PyTorch, which operators read them, and which of them this backend fills.

The argument selects a part: ``totals``, ``headers``, ``reasons`` or ``stubs``. What PyTorch reads was measured (``make
stubs``); what the backend fills is read from its sources when the page is read.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from weaver.pages.proven_tables import table
from weaver.pages.repository import report, root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence, Set

    from docutils.nodes import Node
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment
    from weaver.pages.proven_tables import Cell

MEASURED = Path("docs", "proof", "stubs.json")
LISTED = Path("csrc", "kernels", "library", "structured.toml")
_FILLED = re.compile(r"^REGISTER_PRIVATEUSE1_DISPATCH\((\w+),", re.MULTILINE)
_FILLED_BY_US = "stub-table"  # the key of a page's metadata
QUANTIZED = "read for quantized or sparse tensors"
# For each kind of operator, what a backend registers so that it runs on the device; the easiest first.
REGISTERED = {"composite": "nothing", "native": "function", "structured": "structured"}


@dataclass(frozen=True)
class Reader:
    """An operator that reads a stub: on the CPU, on a device that registers PyTorch's kernel for it, or both."""

    operator: str
    kind: str
    kernel: str
    cpu: bool
    device: bool


@dataclass(frozen=True)
class Stub:
    """The declaration of a stub, and what is known about it."""

    header: str
    name: str
    exported: bool
    cpu_kernel: bool
    readers: tuple[Reader, ...]
    filled: bool

    @property
    def read(self) -> bool:
        """Whether an operator was observed to read it on the CPU."""
        return any(reader.cpu for reader in self.readers)

    @property
    def reachable(self) -> bool:
        """Whether an operator was observed to read the slot of another device."""
        return any(reader.device for reader in self.readers)

    @property
    def reason(self) -> str:
        """Why PyTorch does not read the stub, whatever a backend registers."""
        if not self.exported:
            return "not exported by PyTorch, so no library can fill it"
        if not self.cpu_kernel:
            return "empty for the CPU too: the slot of another library or device"
        if not self.readers:
            return "read by nothing that was run"
        if self.header.startswith("quantized/"):
            return QUANTIZED
        kinds = {reader.kind for reader in self.readers}
        if not kinds.isdisjoint(REGISTERED):
            return "read for the CPU alone: other devices have the function too, and do not come to the stub"
        return "read by functions of the CPU alone" if "cpu" in kinds else QUANTIZED


def read(root: Path) -> list[Stub]:
    """All stubs, by header."""
    ours = filled(root)
    rows = json.loads((root / MEASURED).read_text(encoding="utf-8"))["stubs"]
    return [
        Stub(**{**row, "readers": tuple(Reader(**reader) for reader in row["readers"])}, filled=row["name"] in ours)
        for row in rows
    ]


def filled(root: Path) -> set[str]:
    """The stubs that the backend's sources fill: by hand, and from the generator's list."""
    by_hand = (_FILLED.findall(file.read_text(encoding="utf-8")) for file in _sources(root))
    listed = tomllib.loads((root / LISTED).read_text(encoding="utf-8"))
    return set().union(*by_hand, *(family["stubs"] for family in listed["stubs"]))


def _sources(root: Path) -> list[Path]:
    return sorted((root / "csrc").rglob("*.cpp"))


def _totals(stubs: list[Stub]) -> list[Node]:
    rows: list[Sequence[Cell]] = [
        [len(stubs), "declared by the headers"],
        [sum(stub.exported for stub in stubs), "exported: a library can fill them"],
        [sum(stub.read for stub in stubs), "read by PyTorch's operators on the CPU, in the calls that were run"],
        [sum(stub.reachable for stub in stubs), "read for another device that registers the operator"],
        [sum(stub.filled for stub in stubs), "filled by this backend"],
    ]
    return [table(["Stubs", ""], rows)]


def _headers(stubs: list[Stub]) -> list[Node]:
    rows: list[Sequence[Cell]] = []
    for header, group in groupby(stubs, key=lambda stub: stub.header):
        link = nodes.reference("", "", nodes.literal("", header), refid=_anchor(header), internal=True)
        rows.append([link, *_counts(list(group))])
    columns = ["Header", "Declared", "Exported", "Read on the CPU", "Reachable", "Filled here"]
    return [table(columns, [*rows, ["All", *_counts(stubs)]], last_is_sum=True)]


def _counts(stubs: list[Stub]) -> list[Cell]:
    flags = [(stub.exported, stub.read, stub.reachable, stub.filled) for stub in stubs]
    return [len(stubs), *map(sum, zip(*flags, strict=True))]


def _reasons(stubs: list[Stub]) -> list[Node]:
    found = Counter(stub.reason for stub in stubs if not stub.reachable)
    return [table(["Stubs", "Why they are not reached"], [[count, reason] for reason, count in found.most_common()])]


def _stubs(stubs: list[Stub]) -> list[Node]:
    sections: list[Node] = []
    columns = ["Stub", "Register", "for the operator", "Reads it for the CPU alone", "Filled here"]
    for header, group in groupby(stubs, key=lambda stub: stub.header):
        rows: list[Sequence[Cell]] = []
        for stub in group:
            rows.append([_literal(stub.name), *_ways(stub), _others(stub), "yes" if stub.filled else "no"])
        title = nodes.title("", "", nodes.literal("", header))
        box = nodes.container("", table(columns, rows), classes=["interface-table"])
        sections.append(nodes.section("", title, box, ids=[_anchor(header)], names=[header.lower()]))
    return sections


def _ways(stub: Stub) -> tuple[Cell, Cell]:
    """What to register and the operators; or that it is not reached, and the reason."""
    if not stub.reachable:
        return "not reached", nodes.emphasis("", stub.reason)
    by_kind = {
        kind: [reader.operator for reader in stub.readers if reader.device and reader.kind == kind]
        for kind in REGISTERED
    }
    kinds = [kind for kind, operators in by_kind.items() if operators]
    words = nodes.inline("", " or ".join(REGISTERED[kind] for kind in kinds))
    return words, _listed([operator for kind in kinds for operator in by_kind[kind]])


def _others(stub: Stub) -> Cell:
    return _listed([reader.operator for reader in stub.readers if not reader.device])


def _listed(names: list[str]) -> nodes.inline:
    words: list[Node] = []
    for name in names:
        words += [nodes.Text(", "), _literal(name)] if words else [_literal(name)]
    return nodes.inline("", "", *words)


def _literal(text: str) -> nodes.literal:
    return nodes.literal("", text)


def _anchor(header: str) -> str:
    return f"stubs-{nodes.make_id(header)}"


PARTS: dict[str, Callable[[list[Stub]], list[Node]]] = {
    "totals": _totals,
    "headers": _headers,
    "reasons": _reasons,
    "stubs": _stubs,
}


class StubTable(SphinxDirective):
    """A part of the table."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """Return the tables of the part; ``stubs`` has a section for each header."""
        part = self.arguments[0]
        if part not in PARTS:
            report(
                self.env.docname, self.lineno, f"stub-table: no part `{part}`; there are: {', '.join(PARTS)}", "stubs"
            )
            return []
        root = root_of(self.config)
        for file in (MEASURED, LISTED, *_sources(root)):
            self.env.note_dependency(str(root / file))
        self.env.metadata[self.env.docname][_FILLED_BY_US] = _ours(root)
        return PARTS[part](read(root))


def _ours(root: Path) -> str:
    return " ".join(sorted(filled(root)))


def _outdated(app: Sphinx, env: BuildEnvironment, *_: Set[str]) -> list[str]:
    """Return the pages whose table was made when other stubs were filled: a new source is no dependency of them."""
    shown = {name: data[_FILLED_BY_US] for name, data in env.metadata.items() if _FILLED_BY_US in data}
    ours = _ours(root_of(app.config)) if shown else ""
    return [name for name, before in shown.items() if before != ours]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("stub-table", StubTable)
    app.connect("env-get-outdated", _outdated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
