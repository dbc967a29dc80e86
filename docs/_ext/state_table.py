"""``{state-table}``: the states of `make vendor STATE=n`: their sources, and the results of trying them.

The argument selects a part: ``states`` has a row for each state, ``programs`` the state from which each program works;
``sources 3`` lists the files that a state adds, ``kit 3`` the conformance kit's results for it, and ``left 3`` the
programs that fail there. Sources are the current ones; the trials are in the result of `make states`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective
from vendor import state_trials
from vendor.chapters import Choice
from vendor.states import State, States
from weaver.pages.links import link
from weaver.pages.proven_tables import table
from weaver.pages.repository import configuration_of, report, repository_source, root_of
from weaver.sources.binding import code_files
from weaver.sources.regions import without_marks

if TYPE_CHECKING:
    from collections.abc import Callable

    from docutils.nodes import Node
    from sphinx.application import Sphinx
    from sphinx.config import Config
    from weaver.configuration import Configuration
    from weaver.pages.proven_tables import Cell

_DRIVER = "csrc/driver/"
_ASSERTION = "AssertionError: "
_TABLE = Path("tools", "vendor", "states.toml")


@dataclass(frozen=True)
class _Found:
    """The states, their sources except those of drivers, and the results of their trials."""

    root: Path
    config: Config

    @cached_property
    def states(self) -> States:
        return States(self.root)

    @cached_property
    def results(self) -> state_trials.Results:
        return state_trials.read()

    @cached_property
    def sources(self) -> list[set[str]]:
        taken = (Choice(self.root, None, state.number).taken for state in self.states.all)
        return [{path for path in each if not path.startswith(_DRIVER)} for each in taken]

    def arrived(self, number: int) -> set[str]:
        """The sources that a state adds."""
        return self.sources[number - 1] - (self.sources[number - 2] if number > 1 else set())

    def lines(self, number: int) -> int:
        """How many lines the sources of a state have, as the vendor gets them."""
        choice = Choice(self.root, None, number)
        return sum(
            without_marks(path, choice.cut(path, (self.root / path).read_text(encoding="utf-8"))).count("\n")
            for path in self.sources[number - 1]
        )

    def works(self, number: int, program: str) -> bool:
        return bool(self.results[str(number)]["programs"][program] == state_trials.WORKS)

    def first(self, program: str) -> int:
        """The first state at which a program works; one more than there are states if it works at none."""
        numbers = [state.number for state in self.states.all if self.works(state.number, program)]
        return min(numbers, default=len(self.states.all) + 1)


def _states(found: _Found, _number: int) -> Iterator[Node]:
    rows: list[list[Cell]] = []
    for state in found.states.all:
        result = found.results[str(state.number)]
        kit = result["kit"].values()
        name = nodes.reference("", f"{state.number} {state.title}", refid=_anchor(state), internal=True)
        checks = f"{sum(score['passed'] for score in kit)} of {sum(score['asked'] for score in kit)}"
        works = sum(found.works(state.number, program) for program in found.states.programs)
        day = result["date"].replace("-", "\N{NON-BREAKING HYPHEN}")
        files = len(found.sources[state.number - 1])
        rows.append([name, files, f"{found.lines(state.number):,}", checks, works, day])
    columns = ["State", "Files", "Lines", "Checks of the kit", "Programs that work", "Tried on"]
    yield table(columns, rows)


def _programs(found: _Found, _number: int) -> Iterator[Node]:
    rows: list[list[Cell]] = []
    for program in sorted(found.states.programs, key=found.first):
        first = found.first(program)
        before = found.results[str(first - 1)]["programs"][program] if first > 1 else ""
        rows.append([program, first, _word(before) if before else "none"])
    yield _wrapping(table(["Program", "Works from state", "Error at the state before"], rows))


def _word(word: str) -> Cell:
    """The outcome of a program. One that only failed an assertion had no error of its own."""
    return "a wrong result, without an error" if word == _ASSERTION else nodes.literal("", word)


def _wrapping(made: nodes.Node) -> nodes.Node:
    """A table whose error messages may wrap, since some are wider than the page."""
    assert isinstance(made, nodes.table)
    made["classes"].append("wrapping")
    return made


def _sources(found: _Found, number: int) -> Iterator[Node]:
    items = []
    for folder, paths in groupby(
        sorted(found.arrived(number), key=_folder_first), key=lambda path: str(Path(path).parent)
    ):
        links: list[Node] = []
        for path in paths:
            links += [nodes.Text(", ")] if links else []
            links.append(link(repository_source(found.config, path), Path(path).name, None, "source-link"))
        where = nodes.literal("", folder if folder != "." else "the root")
        items.append(nodes.list_item("", nodes.paragraph("", "", where, nodes.Text(": "), *links)))
    yield nodes.bullet_list("", *items)


def _folder_first(path: str) -> tuple[str, str]:
    return str(Path(path).parent), Path(path).name


def _kit(found: _Found, number: int) -> Iterator[Node]:
    kit = found.results[str(number)]["kit"]
    whole = [area for area, score in kit.items() if score["passed"] == score["asked"]]
    rest = [f"{area} ({score['passed']} of {score['asked']})" for area, score in kit.items() if area not in whole]
    text = f"Areas of the kit that pass whole: {', '.join(whole) or 'none'}."
    text += f" In part: {', '.join(rest)}." if rest else ""
    yield nodes.paragraph("", text)


def _left(found: _Found, number: int) -> Iterator[Node]:
    programs: dict[str, list[str]] = {}
    for program, word in found.results[str(number)]["programs"].items():
        if word != state_trials.WORKS:
            programs.setdefault(word, []).append(program)
    if programs:
        rows: list[list[Cell]] = [[_word(word), "; ".join(those)] for word, those in programs.items()]
        yield _wrapping(table(["Error that a user still meets", "Programs"], rows))
    else:
        yield nodes.paragraph("", "Every program works.")


PARTS: dict[str, Callable[[_Found, int], Iterator[Node]]] = {
    "states": _states,
    "programs": _programs,
    "sources": _sources,
    "kit": _kit,
    "left": _left,
}


def depends_on(configuration: Configuration) -> list[Path]:
    """The files from which the tables are made: the trials, the states, all sources, and the pages that list them.

    A new source comes with a page that lists it, and a new page with an entry in an existing one.
    """
    root = configuration.root
    pages = sorted((root / configuration.chapters).glob("*.md"))
    return [root / state_trials.RESULT, root / _TABLE, *pages, *code_files(root, configuration.package)]


def _anchor(state: State) -> str:
    """The anchor of the page's section about a state."""
    return nodes.make_id(f"State {state.number}: {state.title}")


class StateTable(SphinxDirective):
    """A part of the states' description."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[Node]:
        """Return the part; report a fault and return nothing if there is no such part or state."""
        found = _Found(root_of(self.config), self.config)
        part, number = self.arguments[0], self.arguments[1] if len(self.arguments) > 1 else ""
        whole = part in ("states", "programs")
        known = [str(state.number) for state in found.states.all]
        if part not in PARTS or (number not in known and not whole):
            parts = f"{', '.join(PARTS)}; all but the first two with a state, {known[0]} to {known[-1]}"
            report(
                self.env.docname, self.lineno, f"state-table: no part `{part} {number}`; there are: {parts}", "states"
            )
            return []
        if missing := [each for each in known if each not in found.results]:
            text = f"state-table: {state_trials.RESULT} lacks {', '.join(missing)}; run `make states`"
            report(self.env.docname, self.lineno, text, "states")
            return []
        for file in depends_on(configuration_of(self.config)):
            self.env.note_dependency(str(file))
        return list(PARTS[part](found, int(number or 0)))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("state-table", StateTable)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
