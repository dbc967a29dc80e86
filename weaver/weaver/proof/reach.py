"""Which mutants the examples of a page reach, and therefore which examples must run for a mutant.

An example that never reaches a mutant cannot distinguish it from the original. So a mutant that no example reaches
survives without a run, and for the others only some examples run: of those with a process of their own, the ones that
reach it; of those in the process of the page, all or none, because they depend on each other.
"""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from weaver.proof.weaver_mutant import WORD

Block = dict[str, Any]


@dataclass
class Example:
    """One step of a page, as a separate block. An isolated one is a separate process."""

    number: int
    block: Block
    isolated: bool
    seconds: float = 0.0

    @property
    def digest(self) -> str:
        """Identifies the example and the scripts that it runs, independently of its position on the page."""
        return str(self.block["steps"][0]["digest"])


@dataclass
class Reach:
    """What a run of a page without a mutant shows; ``by`` are the examples that reach each mutant."""

    page: str
    examples: list[Example]
    by: dict[int, set[int]] = field(default_factory=dict)
    # Whether the isolated examples pass without the others, and the others without them.
    separable: bool = True

    def jobs(self, mutant: int) -> list[list[Example]]:
        """The examples to run for a mutant, in groups that each run in one process."""
        reached = self.by.get(mutant, set())
        if not reached:
            return []
        if not self.separable:
            return [self.examples]
        isolated = [one for one in self.examples if one.isolated]
        rest = [one for one in self.examples if not one.isolated]
        alone = [one for one in isolated if one.number in reached]
        # A mutant is also reached by the process of the page outside its examples, such as at its end.
        together = rest if reached - {one.number for one in isolated} else []
        return [group for group in (together, alone) if group]


def read_examples(blocks: Iterable[Block]) -> list[Example]:
    """The examples of a page, in the order in which they run."""
    rank = {"testsetup": 0, "testcleanup": 2}
    ordered = sorted(blocks, key=lambda block: rank.get(block["kind"], 1))
    steps = [{**block, "steps": [step]} for block in ordered for step in block["steps"]]
    return [Example(number, block, _is_isolated(block)) for number, block in enumerate(steps)]


def _is_isolated(block: Block) -> bool:
    if block["kind"] == "console":
        return True
    if block["kind"] != "doctest":
        return False
    body = ast.parse(block["steps"][0]["source"]).body
    calls = [one.value for one in body if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]
    return len(calls) == len(body) == 1 and ast.unparse(calls[0].func) == "run_example"


def watched(examples: list[Example], total: int) -> list[Block]:
    """Blocks that run the examples, each after a block that announces its number; ``total`` is announced at the end."""
    blocks = []
    for one in examples:
        kind = one.block["kind"] if one.block["kind"] in {"testsetup", "testcleanup"} else "testcode"
        blocks += [_saying(one.number, one.block["line"], kind), one.block]
    return [*blocks, _saying(total, examples[-1].block["line"], "testcleanup")]


def _saying(number: int, line: int, kind: str) -> Block:
    step = {
        "source": f"import weaver_mutant\nweaver_mutant.example({number})\n",
        "want": "",
        "line": line,
        "exact_message": None,
        "flags": {},
        "status": 0,
    }
    return {"kind": kind, "line": line, "group": "weaver_mutants", "steps": [step]}


def new_record(file: Path, examples: int, mutants: int) -> None:
    """Creates the file in which the processes of a page record what they reach. An extra example represents the end."""
    count = examples + 1
    head = struct.pack("QQ", 0, count) + bytes(WORD * count)
    file.write_bytes(head + bytes(count * (mutants + 1)))


def read_record(file: Path, reach: Reach) -> None:
    """Adds the contents of a record to ``reach``."""
    data = file.read_bytes()
    count = struct.unpack_from("Q", data, WORD)[0]
    started = struct.unpack_from(f"{count}d", data, 2 * WORD)
    times = [(at, number) for number, at in enumerate(started) if at]
    for (at, number), (after, _) in pairwise(times):
        reach.examples[number].seconds = max(reach.examples[number].seconds, after - at)
    marks = data[WORD * (2 + count) :]
    for mutant in range(len(marks) // count):
        numbers = {number for number in range(count) if marks[mutant * count + number]}
        if numbers:
            reach.by.setdefault(mutant, set()).update(numbers)
