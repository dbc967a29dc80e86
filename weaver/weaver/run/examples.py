"""The executed blocks of a page: their contents, their order, and their faults.

The gate and the doctest builder both read pages through this module, so the builder runs exactly what the gate accepts.
"""

from __future__ import annotations

import ast
import doctest
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from docutils import nodes

from weaver.pages import where

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["doctest", "testcode", "testoutput", "testsetup", "testcleanup", "console"]

_PARSER = doctest.DocTestParser()
# An output of ellipses alone, which any output matches.
_ANYTHING = re.compile(r"(?:\.\.\.|\s|<BLANKLINE>)*")
_NO_SPACE = re.compile(r"^\s*(>>>|\.\.\.)[^\s.]", re.MULTILINE)
_REFUSED_FLAGS = ("SKIP", "IGNORE_EXCEPTION_DETAIL")
_CONDITIONS = ("skipif", "pyversion")


@dataclass(frozen=True)
class Step:
    """One piece of code to run: ``source`` is at ``line`` of the page, ``want`` is its expected output."""

    source: str
    want: str
    line: int
    exact_message: str | None = None
    flags: dict[int, bool] = field(default_factory=dict)
    status: int = 0


@dataclass
class Block:
    """One executed block of a page, starting at ``line``, and the group whose names it shares."""

    kind: Kind
    line: int
    group: str
    steps: list[Step]


@dataclass(frozen=True)
class Wrong:
    """A fault of a block, at a line of the page."""

    line: int
    message: str


def is_executed(node: nodes.Node) -> bool:
    """Return whether the doctest builder runs a node."""
    return isinstance(node, nodes.doctest_block) or (isinstance(node, nodes.Element) and "testnodetype" in node)


def page_of(node: nodes.Node, fallback: Path) -> Path:
    """Return the file that contains a node; for an included file, this is not the page itself."""
    source = Path(node.source) if node.source else fallback
    return source if source.is_file() else fallback


def read(doctree: nodes.document, file: Path) -> tuple[list[Block], list[Wrong]]:
    """Return the executed blocks of a page in order, and their faults."""
    blocks: list[Block] = []
    wrong: list[Wrong] = []
    for node in doctree.findall(is_executed):
        source = page_of(node, file).read_text(encoding="utf-8").splitlines()
        _Reader(cast("nodes.Element", node), source, blocks, wrong).read()
    return blocks, wrong


class _Reader:
    """Reads one node, and appends the results to the given lists."""

    def __init__(self, node: nodes.Element, page: list[str], blocks: list[Block], wrong: list[Wrong]) -> None:
        self.node = node
        self.kind = cast("Kind", node.get("testnodetype", "doctest"))
        self.code = str(node.get("test", node.astext()))
        self.line = where.find(page, self.code.splitlines(), (node.line or 1) + 1)
        self.blocks = blocks
        self.wrong = wrong
        groups = node.get("groups", ["default"])
        self.group = groups[0]
        if len(groups) != 1 or self.group == "*":
            self.refuse(f"{{{self.kind}}} names {', '.join(groups)}: give a block one group, or none")

    def refuse(self, message: str, offset: int = 0) -> None:
        self.wrong.append(Wrong(self.line + offset, message))

    def read(self) -> None:
        for option in _CONDITIONS:
            if option in self.node:
                self.refuse(f"{{{self.kind}}} has :{option}:, so it may not run: a page shows nothing unproven")
        self._check_flags(self.node.get("options", {}), 0)
        if self.kind == "doctest":
            self._doctest()
        elif self.kind == "testoutput":
            self._testoutput()
        elif self.kind == "console":
            self._console()
        else:
            self._code()

    def _check_flags(self, flags: dict[int, bool], offset: int) -> None:
        for name in _REFUSED_FLAGS:
            if flags.get(doctest.OPTIONFLAGS_BY_NAME[name]):
                self.refuse(f"+{name} is refused: every example runs and is compared exactly", offset)

    def _doctest(self) -> None:
        bad = _NO_SPACE.search(self.code)
        if bad:
            self.refuse("a prompt without a space after it", self.code[: bad.end()].count("\n"))
            return
        try:
            examples = _PARSER.get_examples(self.code)
        except ValueError as error:
            self.refuse(f"{{doctest}} cannot be read: {error}")
            return
        if not examples:
            self.refuse("{doctest} without a `>>>` example: nothing of it would run")
            return
        steps = []
        common: dict[int, bool] = self.node.get("options", {})
        for example in examples:
            self._check_flags(example.options, example.lineno)
            flags = {**common, **example.options}
            line = self.line + example.lineno
            steps.append(Step(example.source, example.want, line, example.exc_msg, flags))
        self.blocks.append(Block("doctest", self.line, self.group, steps))

    def _code(self) -> None:
        try:
            empty = not ast.parse(self.code).body
        except SyntaxError as error:
            self.refuse(f"{{{self.kind}}} is not Python: {error.msg}", (error.lineno or 1) - 1)
            return
        if empty:
            self.refuse(f"{{{self.kind}}} is empty: nothing of it would run")
            return
        self.blocks.append(Block(self.kind, self.line, self.group, [Step(self.code + "\n", "", self.line)]))

    def _testoutput(self) -> None:
        before = next((block for block in reversed(self.blocks) if block.group == self.group), None)
        if before is None or before.kind != "testcode" or before.steps[0].want:
            self.refuse("{testoutput} does not follow a {testcode} of its group: nothing would compare it")
            return
        want = self.code if self.code.endswith("\n") else self.code + "\n"
        if _ANYTHING.fullmatch(want):
            self.refuse("{testoutput} is empty or matches anything, so nothing is compared")
            return
        match = _PARSER._EXCEPTION_RE.match(want)  # type: ignore[attr-defined]
        message = match["msg"] if match else None
        step = before.steps[0]
        before.steps[0] = Step(step.source, want, step.line, message, self.node.get("options", {}))

    def _console(self) -> None:
        steps: list[Step] = []
        for offset, text in enumerate(self.code.splitlines()):
            if text.startswith("$ "):
                steps.append(Step(text[2:], "", self.line + offset, status=self.node["status"]))
            elif steps:
                last = steps[-1]
                steps[-1] = replace(last, want=last.want + text + "\n")
            elif text.strip():
                self.refuse("output before the first `$ ` command", offset)
        for step in steps:
            if step.want.strip() and _ANYTHING.fullmatch(step.want):
                self.refuse(
                    "the output of this command matches anything, so nothing is compared", step.line - self.line
                )
        if not steps:
            self.refuse("{console-run} without a `$ ` command: nothing of it would run")
            return
        self.blocks.append(Block("console", self.line, self.group, steps))


def sources(blocks: list[Block]) -> Iterator[str]:
    """Yield the text of everything that a page runs."""
    for block in blocks:
        for step in block.steps:
            yield step.source
