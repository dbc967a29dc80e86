"""``python -m weaver proof``: runs the pages on a build that counts, and writes ``lines.json``.

Every line of a listing that can be executed must be executed by the examples of a page that shows it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import stat
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from weaver.configuration import Configuration
from weaver.fault import Fault, say
from weaver.proof import clang, figures, floor, lines, probe
from weaver.proof.observer import observer
from weaver.proof.planned import Page, read_pages
from weaver.proof.proof_files import LINES
from weaver.proof.sandbox import Sandbox
from weaver.run import isolation
from weaver.sources import binding
from weaver.sources.installed import bound_to
from weaver.sources.listing import Listing

# Of a page that runs by itself on a fast machine the longest takes 200: what is slow is the compiler with counters.
SECONDS = 900.0

Executed = dict[str, set[int]]


@dataclass
class Measured:
    """A page that ran: its seconds, what each of its examples executed, by the example's line, and what fell back."""

    seconds: float = 0.0
    examples: dict[int, Executed] = field(default_factory=dict)
    fell_back: list[str] = field(default_factory=list)

    def executed(self, path: str) -> set[int]:
        """The lines of a source that the page's examples executed."""
        return set().union(*(example.get(path, set()) for example in self.examples.values()))

    def sources(self, configuration: Configuration, root: Path) -> dict[str, str]:
        """The sources that the page's examples executed, and what these include, each with the hash of its code."""
        executed = {path for example in self.examples.values() for path in example}
        if any(configuration.covers(configuration.package, path) for path in executed):
            # What runs while the package is imported counts for no example, and begins all of them.
            executed |= set(configuration.measure.imported)
        found = sorted(path for path in binding.included(configuration, executed, root) if not binding.is_built(path))
        return {path: digest for path in found if (digest := binding.code_digest(root / path))}


class Measurement:
    """One run over some pages. Throws: ``Fault`` where something is to be built and there is no clang."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.tools = clang.find_clang() if configuration.build.commands else None
        self.sandbox = Sandbox(configuration, configuration.root / configuration.sandboxes / "proof")
        self.work = configuration.root / configuration.output / "proof" / "raw"
        self.counted: dict[str, set[int]] = {}
        self.registrations: dict[str, set[int]] = {}

    def prepare(self) -> None:
        """Builds with counters, where something is to be built."""
        self.sandbox.prepare()
        start = f"__import__('weaver.proof.probe', fromlist=['start']).start({str(self.sandbox.tree)!r})"
        # After layers.pth, which says where it is.
        (self.sandbox.site_packages / "probe.pth").write_text(
            f"import os; {probe.FOLDER!r} in os.environ and {start}\n", encoding="utf-8"
        )
        shutil.rmtree(self.work, ignore_errors=True)
        if self.tools:
            say(f"building with {Path(self.tools.compiler).name} and counters")
            self.sandbox.build(*self.configuration.build.counted, compiler=self.tools.compiler)
            self._write_compiler(self.tools)

    def _write_compiler(self, tools: clang.Clang) -> None:
        """Writes the compiler that examples find in CXX: it adds counters to examples, and keeps a copy of each.

        What is made of other sources alone gets none: without a counter their library complains on stderr.
        """
        (self.work / "objects").mkdir(parents=True)
        listed = self.work / "coverage.list"
        executed = [f"*{folder}/*" for folder in self.configuration.executed]
        allowed = "".join(f"source:{pattern}=allow\n" for pattern in executed)
        listed.write_text(f"[clang]\ndefault:skip\n{allowed}", encoding="utf-8")
        options = (
            f"-fprofile-instr-generate -fcoverage-mapping -fprofile-list={listed} -mllvm -runtime-counter-relocation"
        )
        script = [
            "#!/bin/sh",
            f'case "$PWD $*" in {"|".join(executed)}) ;; *) exec {tools.compiler} "$@" ;; esac',
            f'{tools.compiler} {options} "$@" || exit',
            'case " $* " in *" -c "*) exit ;; esac',  # what is linked of it is kept
            'while [ $# -gt 1 ]; do if [ "$1" = -o ]; then',
            f'  cp "$2" "$(mktemp {self.work}/objects/XXXXXX)"',
            "fi; shift; done",
        ]
        compiler = self.work / "cxx"
        compiler.write_text("\n".join(script) + "\n", encoding="utf-8")
        compiler.chmod(compiler.stat().st_mode | stat.S_IXUSR)

    def run(self, page: Page) -> Measured:
        """Runs a page and reads what its examples executed. Throws: ``Fault`` when one of them fails."""
        folder = self.work / page.name
        (folder / "own").mkdir(parents=True)
        environment = {
            probe.FOLDER: str(folder),
            probe.PROFILE: str(folder / "own" / probe.PATTERN),
            # What comes out of a cache has not gone through that compiler.
            **({"CXX": str(self.work / "cxx"), "CCACHE_DISABLE": "1"} if self.tools else {}),
        }
        started = time.monotonic()
        settings, python = self.configuration.run, self.sandbox.python
        with isolation.Pages(settings, self.sandbox.tree, python=python, environment=environment) as pages:
            outcome = pages.run(page.file, page.blocks, SECONDS, measure=folder)
        seconds = time.monotonic() - started
        if outcome.failures:
            texts = "\n".join(f"{page.file}:{failure.line}: {failure.text}" for failure in outcome.failures)
            raise Fault(f"examples failed on the measured build:\n{texts}")
        measured = Measured(round(seconds, 1))
        for line in (step["line"] for block in page.blocks for step in block["steps"]):
            measured.examples[line] = self._cxx_lines(folder / str(line))
        for line, path, number in self._python_lines(folder / probe.PYTHON):
            measured.examples[line].setdefault(path, set()).add(number)
        measured.fell_back = sorted(set(_read_lines(folder / probe.FELL_BACK)))
        return measured

    def _objects(self) -> list[Path]:
        libraries = [sorted(self.sandbox.tree.glob(pattern)) for pattern in self.configuration.build.libraries]
        return [*chain.from_iterable(libraries), *(self.work / "objects").iterdir()]

    def _cxx_lines(self, folder: Path) -> Executed:
        raw = [file for file in sorted(folder.glob("*.profraw")) if file.stat().st_size]
        if not raw or self.tools is None:
            return {}
        merged = folder / "merged.profdata"
        clang.merge(self.tools, raw, merged)
        folders = [self.sandbox.tree, self.sandbox.build_folder]
        counts = clang.line_counts(self.tools, merged, self._objects(), folders)
        for path, of_path in counts.items():
            self.counted.setdefault(path, set()).update(of_path)
        if not self.registrations:
            self.registrations = clang.registration_lines(
                self.tools, merged, self._objects(), folders, self.configuration.measure.loaded
            )
        executed = {path: {line for line, count in of_path.items() if count} for path, of_path in counts.items()}
        return {path: numbers for path, numbers in executed.items() if numbers}

    def _python_lines(self, file: Path) -> Iterator[tuple[int, str, int]]:
        for record in _read_lines(file):
            example, path, number = record.split("\t")
            yield int(example), path, int(number)


def _read_lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []


def report(pages: list[Page], measured: dict[str, Measured], run: Measurement) -> dict[str, Any]:
    """What lines.json says of each page."""
    configuration = run.configuration

    def entry(page: Page, listing: Listing) -> dict[str, Any]:
        text = (run.sandbox.tree / listing.path).read_text(encoding="utf-8").splitlines()
        here = measured[page.name].executed(listing.path)
        shown = range(listing.first, listing.last + 1)
        known = run.counted.get(listing.path, set()), run.registrations.get(listing.path, set())
        script = configuration.covers(configuration.executed, listing.path)
        found = lines.classify(listing.path, text, shown, *known, here, script=script)
        return {
            "path": listing.path,
            "first": listing.first,
            "last": listing.last,
            "region": listing.region,
            "text": binding.text_digest(listing, run.sandbox.tree),
            "executed": found.executed,
            "missed": found.missed,
            "excused": {str(number): reason for number, reason in found.excused.items()},
            "silent": found.silent,
            "example": _best_example(page, measured[page.name], listing.path, set(found.executed)),
        }

    today, present = datetime.date.today().isoformat(), observer(configuration).present(run.sandbox.tree)
    return {
        page.name: {
            "digest": page.digest,
            "date": today,
            "examples": sum(len(block["steps"]) for block in page.blocks),
            "seconds": measured[page.name].seconds,
            # Of the copy: the working tree may have moved on meanwhile.
            "sources": measured[page.name].sources(configuration, run.sandbox.tree),
            # What was there already was left aside on purpose.
            "fell_back": [name for name in measured[page.name].fell_back if name not in present],
            "listings": [entry(page, listing) for listing in page.listings],
        }
        for page in pages
    }


def _best_example(page: Page, measured: Measured, path: str, wanted: set[int]) -> int | None:
    """The block that executes most of the lines ``wanted``, the first of several; none when they are none."""
    best, most = None, 0
    for index, block in enumerate(page.blocks):
        of_block = (measured.examples[step["line"]].get(path, set()) for step in block["steps"])
        count = len(set().union(*of_block) & wanted)
        if count > most:
            best, most = index, count
    return best


def read_earlier(configuration: Configuration) -> dict[str, Any]:
    """What lines.json says of each page, be it current or not; nothing, where it is of another release."""
    file = configuration.root / configuration.result(LINES)
    said: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    name, release = bound_to(configuration)
    return said["pages"] if said.get(name) == release else {}


def write(configuration: Configuration, pages: dict[str, Any]) -> None:
    """Writes the result, one listing to a line, so that a change of it can be read."""
    out = [json.dumps(dict([bound_to(configuration)]))[:-1] + ', "pages": {']
    for number, (name, page) in enumerate(pages.items(), 1):
        out.append(json.dumps({name: {**page, "listings": None}})[1:-1].removesuffix("null}") + "[")
        out += [json.dumps(listing) + "," for listing in page["listings"]]
        out[-1] = out[-1].removesuffix(",")
        out.append("]}" + ("," if number < len(pages) else "}}"))
    file = configuration.root / configuration.result(LINES)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(out) + "\n", encoding="utf-8")


def missed(state: floor.State, names: Iterable[str]) -> list[str]:
    """One line for each displayed line of the named pages that no example of a page that shows it executes."""
    found: dict[tuple[str, int], list[str]] = {}
    for name in names:
        of_page = figures.chapter_lines(state.measured, name)
        for line in of_page.missed if of_page else ():
            found.setdefault(line, []).append(name)
    return [
        f"{path}:{number}: shown by {', '.join(showing)}, executed by no example there: "
        f"{(state.configuration.root / path).read_text(encoding='utf-8').splitlines()[number - 1].strip()}"
        for (path, number), showing in sorted(found.items())
    ]


def main(configuration: Configuration, arguments: list[str]) -> None:
    """Measures the pages whose result is not current, or those that are named. Throws: ``Fault``."""
    parser = argparse.ArgumentParser(prog=configuration.command("proof"), description=__doc__.splitlines()[0])
    parser.add_argument(
        "--page",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="these pages (accelerator/hooks), and no others",
    )
    parser.add_argument("--all", action="store_true", help="also pages that run what they ran when they were measured")
    options = parser.parse_args(arguments)
    run = Measurement(configuration)
    with run.sandbox.lock():
        _measure(run, options.page, every=options.all)


def _run_pages(run: Measurement, pages: list[Page]) -> tuple[dict[str, Measured], list[str]]:
    """Runs pages, several at once. Returns what those that passed gave, and the names of those that failed."""
    measured: dict[str, Measured] = {}
    failed: list[str] = []
    with ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), 4)) as pool:
        running = {page.name: pool.submit(run.run, page) for page in pages}
        for name, future in running.items():
            try:
                measured[name] = future.result()
            except Fault as fault:
                failed.append(name)
                say(f"{name}: {fault}")
                continue
            say(f"{name}: {len(measured[name].examples)} examples in {measured[name].seconds} s")
    return measured, failed


def _chosen(configuration: Configuration, pages: list[Page], names: list[str] | None, *, every: bool) -> list[Page]:
    """The pages to measure, those first that took longest. Throws: ``Fault`` for a page that is not there."""
    unknown = set(names or ()) - {page.name for page in pages}
    if unknown:
        raise Fault(f"no page {', '.join(sorted(unknown))}; pages: {', '.join(page.name for page in pages)}")
    known = floor.read_state(configuration, pages).measured
    why = {page.name: known.stale_page(page.name) for page in pages}
    chosen = [page for page in pages if (page.name in names if names else every or why[page.name])]
    for page in chosen:
        say(f"{page.name}: {why[page.name] or 'is current, and measured again'}")
    took = {name: lines.seconds for name, lines in known.proof.pages.items()}
    return sorted(chosen, key=lambda page: -took.get(page.name, 0.0))


def _measure(run: Measurement, names: list[str] | None, *, every: bool = False) -> None:
    started, configuration = time.monotonic(), run.configuration
    command = configuration.command("proof")
    pages = read_pages(configuration, configuration.root / configuration.output / "proof" / "plan", strict=not names)
    chosen = _chosen(configuration, pages, names, every=every)
    measured: dict[str, Measured] = {}
    failed: list[str] = []
    if chosen:
        run.prepare()
        measured, failed = _run_pages(run, chosen)
    result = report([page for page in chosen if page.name in measured], measured, run)
    known = {**read_earlier(configuration), **result}
    write(configuration, {page.name: known[page.name] for page in pages if page.name in known})
    if failed:
        again = configuration.command("proof", f"--page {' '.join(failed)}")
        raise Fault(f"{command}: examples failed on the measured build; mend them and run {again}")
    state = floor.read_state(configuration, pages)
    faults = missed(state, (page.name for page in pages))
    print(*faults, sep="\n", end="\n" if faults else "")
    if faults:
        raise Fault(f"{command}: {len(faults)} displayed lines are executed by no example of a page that shows them")
    floor.raise_floor(configuration, pages)
    total = figures.all_lines(state.measured)
    print(
        f"{command}: {len(result)} of {len(pages)} pages measured ({time.monotonic() - started:.0f} s); of all, "
        f"{len(total.executed)} displayed lines are executed and none is missed; "
        f"the result is {configuration.result(LINES)}"
    )
