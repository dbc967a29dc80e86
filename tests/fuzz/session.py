"""Runs programs, one batch after another in each launch mode, until the time is over, and minimizes the findings."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from torch.testing._internal.opinfo.core import OpInfo

from tests.fuzz import database
from tests.fuzz.attempt import attempt
from tests.fuzz.execution import Execution, Finding
from tests.fuzz.generator import Generator
from tests.fuzz.isolation import LIMIT, MODES, Say, in_child
from tests.fuzz.minimize import minimized
from tests.fuzz.program import Program, namespace
from tests.fuzz.trial import death, trial

BATCH = 40
_EACH_OF_DATABASE = 4  # one in this many programs comes from the operator database


@dataclass
class Found:
    """One finding, with the program that shows it."""

    finding: Finding
    mode: str
    origin: str
    listing: str
    note: str = ""

    def text(self) -> str:
        """The text that is printed."""
        head = f"{self.origin}, mode {self.mode}: {self.finding.kind}\n{self.finding.detail}"
        return f"{head}\n{self.note}\n{self.listing}" if self.note else f"{head}\n{self.listing}"


@dataclass
class Session:
    """What has been run from one seed, and what it found. ``entries`` is the operator database, by name."""

    seed: int
    entries: Mapping[str, OpInfo]
    modes: tuple[str, ...] = MODES
    limit: float = LIMIT
    patience: float = 60.0
    """Seconds for making a finding small."""
    most: int = 10
    """How many findings are enough."""
    say: Callable[[str], None] = print
    programs: int = 0
    statements: int = 0
    by_mode: Counter[str] = field(default_factory=Counter)
    found: list[Found] = field(default_factory=list)
    deaths_on_the_cpu: list[str] = field(default_factory=list)
    """Lines that ended the process before the device saw them."""
    _next: int = 0

    def run(self, seconds: float, programs: int | None = None) -> None:
        """Runs batches until the time is over or enough is found; with ``programs``, that many without a time limit."""
        begun = told = time.monotonic()
        until = begun + seconds if programs is None else float("inf")
        modes = itertools.cycle(self.modes)
        while time.monotonic() < until and self._next != programs and len(self.found) < self.most:
            last = self._next + BATCH if programs is None else min(self._next + BATCH, programs)
            self.batch(next(modes), self._next, last, until)
            self._next = last
            if time.monotonic() > told + 10:
                told = time.monotonic()
                self.say(f"{self.programs} programs, {self.statements} statements, {told - begun:.0f} s")

    def batch(self, mode: str, first: int, last: int, until: float = float("inf")) -> None:
        """Runs some programs in children; if one dies, the next continues after the program that killed it."""
        while first < last and len(self.found) < self.most:
            first = self._child(mode, first, last, until)

    def program(self, number: int, watch: Callable[[str], None] = lambda _: None) -> Program:
        """The program of a number. Touches no device, but may crash the process where PyTorch's CPU does."""
        if self.entries and number % _EACH_OF_DATABASE == 0:
            name = Random(f"{self.seed} {number} entry").choice(database.asked(self.entries))
            return database.program(self.entries, name, self.seed, number)
        return Generator(self.seed, number, watch).program()

    def _child(self, mode: str, first: int, last: int, until: float) -> int:
        def work(say: Say) -> None:
            for number in range(first, last):
                if time.monotonic() > until:
                    break
                say("number", number)
                say("at", None)
                program = self.program(number, lambda line: say("line", line))
                say("program", program.dump())
                finding = Execution(program, self.entries, lambda side, index: say("at", [side, index])).run()
                say("ran", len(program.statements))
                if finding is not None:
                    say("finding", [finding.kind, finding.detail, finding.index])
                    break  # The next program needs a device without errors.
            say("done", True)

        def hear(subject: str, message: Any) -> None:
            if subject == "ran":
                self.programs += 1
                self.statements += message
                self.by_mode[mode] += 1

        ending = in_child(work, mode, hear, self.limit)
        heard = ending.messages
        number = heard.get("number", last)
        if "finding" in heard:
            self._found(Program.load(heard["program"]), mode, Finding(*heard["finding"]), first)
            return int(number) + 1
        if ending.cause is None:
            return last
        at = heard.get("at")
        if (at is None or at[0] == "cpu") and self._dies_on_the_cpu(int(number)):
            self.deaths_on_the_cpu.append(heard.get("line", f"program {number}"))
            self.say(f"(PyTorch's CPU {ending.cause} of program {number}: {self.deaths_on_the_cpu[-1]})")
        else:
            finding = death(ending, at or ["openreg", -1])
            assert finding is not None
            self._found(Program.load(heard["program"]), mode, finding, first)
        return int(number) + 1

    def _dies_on_the_cpu(self, number: int) -> bool:
        """Whether a program crashes the process without a device."""

        def work(_: Say) -> None:
            names = namespace(("cpu", "cpu"), self.entries)
            for statement in self.program(number).statements:
                attempt(statement.code, names)

        return in_child(work, MODES[0], limit=self.limit).cause is not None

    def _found(self, program: Program, mode: str, finding: Finding, first: int) -> None:
        def fails(candidate: Program) -> bool:
            seen = trial(candidate, mode, self.entries, min(self.limit, 10.0)).finding
            return seen is not None and seen.kind == finding.kind

        origin = program.origin
        if any(fails(program) for _ in range(3)):
            program, note = minimized(program, fails, self.patience), ""
        else:
            note = f"Not seen when it runs alone: it takes what ran before, programs {first} and after of this seed."
        again = trial(program, mode, self.entries, self.limit)
        found = Found(again.finding or finding, mode, origin, again.listing(), note)
        self.found.append(found)
        self.say(f"\nFOUND {len(self.found)}: {found.text()}\n")
