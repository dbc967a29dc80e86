"""Tries mutants: runs the examples that reach them, and checks whether one of them fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from weaver.fault import Fault
from weaver.proof import reach, weaver_mutant
from weaver.proof.planned import Page
from weaver.proof.reach import Example, Reach
from weaver.proof.sandbox import Sandbox
from weaver.run import isolation

# The time limit of a run without a mutant; with one, three times its duration without plus ten seconds.
LIMIT = 300.0
FACTOR, MARGIN = 3.0, 10.0


@dataclass(frozen=True)
class Verdict:
    """The outcome of a mutant. ``by`` is the page and line that killed it; empty when it survived.

    ``example`` is the digest of the example at that line.
    """

    killed: bool
    by: str
    seconds: float
    reached: bool
    example: str = ""


class Trial:
    """Runs pages in a sandbox whose sources contain the mutants; ``mutants`` is the largest number of one in it."""

    def __init__(self, sandbox: Sandbox, pages: Iterable[Page], mutants: int, environment: Mapping[str, str]) -> None:
        self.sandbox = sandbox
        self.pages = {page.name: page for page in pages}
        self.mutants = mutants
        settings = sandbox.configuration
        full = {"PYTHONDONTWRITEBYTECODE": "1", **settings.mutants.environment, **environment}
        self.processes = isolation.Pages(settings.run, sandbox.tree, python=sandbox.python, environment=full)
        self.reaches: dict[str, Reach] = {}
        self._lock = threading.Lock()

    def _run(
        self, page: Page, blocks: list[reach.Block], seconds: float, environment: Mapping[str, str]
    ) -> isolation.Outcome:
        return self.processes.run(page.file, blocks, seconds, environment=environment, stop=True)

    def measure(self, workers: int) -> dict[str, str]:
        """Runs every page without a mutant, twice. Returns: the pages of which an example fails, with its message."""
        failed: dict[str, str] = {}

        def measured(page: Page) -> None:
            try:
                self.reaches[page.name] = self._measure(page)
            except Fault as fault:
                failed[page.name] = str(fault)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(measured, self.pages.values()))
        return failed

    def _measure(self, page: Page) -> Reach:
        found = Reach(page.name, reach.read_examples(page.blocks))
        whole = self._watch(page, found, found.examples)
        if whole.failures:
            first = whole.failures[0]
            raise Fault(f"{page.file}:{first.line}: fails without a mutant:\n{first.text}")
        # The second time in parts, to find out whether the parts depend on each other.
        parts = [[one for one in found.examples if one.isolated is kind] for kind in (False, True)]
        found.separable = not any(self._watch(page, found, part).failures for part in parts if part)
        if not found.separable:
            again = self._watch(page, found, found.examples)
            if again.failures:
                first = again.failures[0]
                raise Fault(f"{page.file}:{first.line}: failed once in two runs without a mutant:\n{first.text}")
        return found

    def _watch(self, page: Page, found: Reach, examples: list[Example]) -> isolation.Outcome:
        file = self.sandbox.folder / f"reached-{page.name.replace('/', '-')}"
        reach.new_record(file, len(found.examples), self.mutants)
        blocks = reach.watched(examples, len(found.examples))
        outcome = self._run(page, blocks, LIMIT, {weaver_mutant.REACHED: str(file)})
        reach.read_record(file, found)
        file.unlink()
        return outcome

    def seconds(self, number: int, pages: Iterable[str]) -> float:
        """The duration of the examples that reach a mutant: what it costs when none of them fails."""
        jobs = [job for name in pages if name in self.reaches for job in self.reaches[name].jobs(number)]
        return sum(one.seconds for job in jobs for one in job)

    def try_mutant(self, number: int, pages: Iterable[str]) -> Verdict:
        """Runs the examples that reach a mutant, until one fails. Throws: ``Fault`` when they fail without it, too."""
        started = time.monotonic()
        reached = False
        chosen = {weaver_mutant.CHOSEN: str(number)}
        for name in pages:
            for job in self.reaches[name].jobs(number):
                reached = True
                page = self.pages[name]
                seconds = FACTOR * sum(one.seconds for one in job) + MARGIN
                blocks = [one.block for one in job]
                outcome = self._run(page, blocks, seconds, chosen)
                if outcome.failures:
                    first = outcome.failures[0]
                    # On a machine under load, an example may fail by itself: a kill is what fails twice.
                    if outcome.ran and not self._run(page, blocks, seconds, chosen).failures:
                        continue
                    # A page that did not run to its end may have been ended by the machine, such as for lack of memory.
                    if not outcome.ran and (alone := self._run(page, blocks, seconds, {}).failures):
                        raise Fault(f"{page.file}:{alone[0].line}: failed without a mutant:\n{alone[0].text}")
                    by = f"{page.file}:{first.line}: {first.text.splitlines()[0]}"
                    at = [one.digest for one in job if one.block["steps"][0]["line"] == first.line]
                    return Verdict(True, by, time.monotonic() - started, True, *at[:1])
        return Verdict(False, "", time.monotonic() - started, reached)


def workers() -> int:
    """The number of pages that run in parallel: one for each processor."""
    return len(os.sched_getaffinity(0))
