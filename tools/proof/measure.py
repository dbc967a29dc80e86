"""``make proof``: runs the pages on a build that counts, and writes docs/proof/lines.json.

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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environment import ROOT, Fault, say

from docs._ext import binding, isolation
from docs._ext.records import Listing
from proof import clang, floor, lines, probe
from proof.pages import Page, read_pages
from proof.sandbox import Sandbox

RESULT = Path("docs", "proof", "lines.json")
WORK = Path("docs", "build", "proof")
# Of a page that runs by itself on a fast machine the longest takes 200: what is slow is the compiler with counters.
SECONDS = 900.0

Executed = dict[str, set[int]]


@dataclass
class Measured:
    """A page that ran: its seconds, and what each of its examples executed, by the example's line."""

    seconds: float = 0.0
    examples: dict[int, Executed] = field(default_factory=dict)

    def executed(self, path: str) -> set[int]:
        """The lines of a source that the page's examples executed."""
        return set().union(*(example.get(path, set()) for example in self.examples.values()))


class Measurement:
    """One run over some pages."""

    def __init__(self, tools: clang.Clang) -> None:
        self.tools = tools
        self.sandbox = Sandbox(ROOT / "build" / "proof")
        self.work = ROOT / WORK / "raw"
        self.counted: dict[str, set[int]] = {}
        self.registrations: dict[str, set[int]] = {}

    def prepare(self) -> None:
        """Builds the extension with counters."""
        self.sandbox.prepare()
        start = "import os; os.environ.get('OPENREG_PROBE') and __import__('tools.proof.probe')\n"
        # After layers.pth, which says where it is.
        (self.sandbox.site_packages / "probe.pth").write_text(start, encoding="utf-8")
        say(f"building with {Path(self.tools.compiler).name} and counters")
        self.sandbox.build("CMAKE_BUILD_TYPE=Release", "OPENREG_COVERAGE=ON", compiler=self.tools.compiler)
        shutil.rmtree(self.work, ignore_errors=True)
        self._write_compiler()

    def _write_compiler(self) -> None:
        """Writes the compiler that examples find in CXX: it adds counters to examples, and keeps a copy of each.

        What is made of other sources alone gets none: without a counter their library complains on stderr.
        """
        (self.work / "objects").mkdir(parents=True)
        listed = self.work / "coverage.list"
        listed.write_text("[clang]\ndefault:skip\nsource:*examples/*=allow\n", encoding="utf-8")
        options = (
            f"-fprofile-instr-generate -fcoverage-mapping -fprofile-list={listed} -mllvm -runtime-counter-relocation"
        )
        script = [
            "#!/bin/sh",
            f'case "$*" in *examples/*) ;; *) exec {self.tools.compiler} "$@" ;; esac',
            f'{self.tools.compiler} {options} "$@" || exit',
            'while [ $# -gt 1 ]; do if [ "$1" = -o ]; then',
            f'  cp "$2" "$(mktemp {self.work}/objects/XXXXXX)"',
            "fi; shift; done",
        ]
        self.compiler = self.work / "cxx"
        self.compiler.write_text("\n".join(script) + "\n", encoding="utf-8")
        self.compiler.chmod(self.compiler.stat().st_mode | stat.S_IXUSR)

    def run(self, page: Page) -> Measured:
        """Runs a page and reads what its examples executed. Throws: ``Fault`` when one of them fails."""
        folder = self.work / page.name
        (folder / "own").mkdir(parents=True)
        environment = {
            probe.FOLDER: str(folder),
            probe.PROFILE: str(folder / "own" / probe.PATTERN),
            "CXX": str(self.compiler),
        }
        started = time.monotonic()
        with isolation.Pages(self.sandbox.tree, python=self.sandbox.python, environment=environment) as pages:
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
        return measured

    def _objects(self) -> list[Path]:
        package = self.sandbox.tree / "torch_openreg"
        return [*package.glob("_C*.so"), *sorted((package / "lib").glob("*.so")), *(self.work / "objects").iterdir()]

    def _cxx_lines(self, folder: Path) -> Executed:
        raw = [file for file in sorted(folder.glob("*.profraw")) if file.stat().st_size]
        if not raw:
            return {}
        merged = folder / "merged.profdata"
        clang.merge(self.tools, raw, merged)
        folders = [self.sandbox.tree, self.sandbox.build_folder]
        counts = clang.line_counts(self.tools, merged, self._objects(), folders)
        for path, of_path in counts.items():
            self.counted.setdefault(path, set()).update(of_path)
        if not self.registrations:
            self.registrations = clang.registration_lines(self.tools, merged, self._objects(), folders)
        executed = {path: {line for line, count in of_path.items() if count} for path, of_path in counts.items()}
        return {path: numbers for path, numbers in executed.items() if numbers}

    def _python_lines(self, file: Path) -> Iterator[tuple[int, str, int]]:
        for record in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
            example, path, number = record.split("\t")
            yield int(example), path, int(number)


def read_earlier(pages: list[Page], code: str) -> dict[str, Any]:
    """What lines.json says of the pages already, of those that have not changed since; nothing, if the code has."""
    file = ROOT / RESULT
    said = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if said.get("code") != code or said.get("torch") != binding.torch_version():
        return {}
    digests = {page.name: page.digest for page in pages}
    return {name: entry for name, entry in said["pages"].items() if entry["digest"] == digests.get(name)}


def report(
    pages: list[Page], measured: dict[str, Measured], run: Measurement, earlier: list[dict[str, Any]]
) -> dict[str, Any]:
    """What lines.json says of each page. ``earlier`` is what it said of those that were not measured now."""
    known_elsewhere: dict[str, set[int]] = {}
    for listing in (listing for page in earlier for listing in page["listings"]):
        known_elsewhere.setdefault(listing["path"], set()).update(listing["executed"])
    showing: dict[str, list[tuple[Page, Listing]]] = {}
    for page in pages:
        for listing in page.listings:
            showing.setdefault(listing.path, []).append((page, listing))

    def entry(page: Page, listing: Listing) -> dict[str, Any]:
        text = (run.sandbox.tree / listing.path).read_text(encoding="utf-8").splitlines()
        here = measured[page.name].executed(listing.path)
        shown = range(listing.first, listing.last + 1)
        known = run.counted.get(listing.path, set()), run.registrations.get(listing.path, set())
        found = lines.classify(listing.path, text, shown, *known, here)
        elsewhere = known_elsewhere.get(listing.path, set()).union(
            *(
                measured[other.name].executed(listing.path) & set(range(place.first, place.last + 1))
                for other, place in showing[listing.path]
                if other is not page
            )
        )
        return {
            "path": listing.path,
            "first": listing.first,
            "last": listing.last,
            "region": listing.region,
            "executed": found.executed,
            "elsewhere": [number for number in found.missed if number in elsewhere],
            "missed": [number for number in found.missed if number not in elsewhere],
            "excused": {str(number): reason for number, reason in found.excused.items()},
            "silent": found.silent,
            "example": _best_example(page, measured[page.name], listing.path, set(found.executed)),
        }

    return {
        page.name: {
            "digest": page.digest,
            "examples": sum(len(block["steps"]) for block in page.blocks),
            "seconds": measured[page.name].seconds,
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


def write(pages: dict[str, Any], code: str) -> None:
    """Writes the result, one listing to a line, so that a change of it can be read."""
    head = {"date": datetime.date.today().isoformat(), "torch": binding.torch_version(), "code": code}
    out = [json.dumps(head)[:-1] + ', "pages": {']
    for number, (name, page) in enumerate(pages.items(), 1):
        out.append(json.dumps({name: {**page, "listings": None}})[1:-1].removesuffix("null}") + "[")
        out += [json.dumps(listing) + "," for listing in page["listings"]]
        out[-1] = out[-1].removesuffix(",")
        out.append("]}" + ("," if number < len(pages) else "}}"))
    (ROOT / RESULT).parent.mkdir(parents=True, exist_ok=True)
    (ROOT / RESULT).write_text("\n".join(out) + "\n", encoding="utf-8")


def write_examples(pages: list[Page], measured: dict[str, Measured], code: str) -> None:
    """Writes what each example executes, for whoever wants to run only those that matter: adds to what is there."""
    file = ROOT / WORK / "examples.json"
    said = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    found = said["pages"] if said.get("code") == code else {}
    found |= {
        page.name: {
            "digest": page.digest,
            "examples": {
                str(line): {path: sorted(numbers) for path, numbers in executed.items()}
                for line, executed in measured[page.name].examples.items()
            },
        }
        for page in pages
    }
    text = json.dumps({"code": code, "pages": found})
    file.write_text(text, encoding="utf-8")


def missed(pages: dict[str, Any]) -> list[str]:
    """One line for each displayed line that no example of a page that shows it executes."""
    found: dict[tuple[str, int], list[str]] = {}
    for name, page in pages.items():
        for listing in page["listings"]:
            for number in listing["missed"]:
                found.setdefault((listing["path"], number), []).append(name)
    return [
        f"{path}:{number}: shown by {', '.join(names)}, executed by no example there: "
        f"{(ROOT / path).read_text(encoding='utf-8').splitlines()[number - 1].strip()}"
        for (path, number), names in sorted(found.items())
    ]


def main(arguments: list[str]) -> None:
    """Measures all pages, or those that are named. Throws: ``Fault``."""
    parser = argparse.ArgumentParser(prog="make proof", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--page",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="only these pages (accelerator/hooks); of the others the result stays, if it is of the same code",
    )
    options = parser.parse_args(arguments)
    run = Measurement(clang.find_clang())
    with run.sandbox.lock():
        _measure(run, options.page)


def _again(pages: list[str]) -> str:
    return f"make proof ARGS='--page {' '.join(pages)}'"


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


def _measure(run: Measurement, names: list[str] | None) -> None:
    started = time.monotonic()
    pages = read_pages(ROOT / WORK / "plan", strict=not names)
    unknown = set(names or ()) - {page.name for page in pages}
    if unknown:
        raise Fault(f"no page {', '.join(sorted(unknown))}; pages: {', '.join(page.name for page in pages)}")
    chosen = [page for page in pages if not names or page.name in names]
    run.prepare()
    measured, failed = _run_pages(run, chosen)
    done = [page for page in chosen if page.name in measured]
    # Of the copy: the working tree may have moved on meanwhile.
    code = binding.code_digest(run.sandbox.tree)
    earlier = read_earlier(pages, code) if names else {}
    result = report(done, measured, run, [entry for name, entry in earlier.items() if name not in measured])
    known = {**earlier, **result}
    faults = missed(result)
    for fault in faults:
        print(fault)
    # Without a page that failed as well: once it is mended, it alone has to be measured. But some pages by themselves
    # do not take the place of a result for all of them.
    written = bool(result) and (bool(earlier) or not names)
    if written:
        write({page.name: known[page.name] for page in pages if page.name in known}, code)
        write_examples(done, measured, code)
    if failed:
        raise Fault("make proof: examples failed on the measured build; mend them and run " + _again(failed))
    if len(known) == len(pages) and not faults:
        floor.raise_floor(pages)
    count = sum(len(listing["executed"]) for page in result.values() for listing in page["listings"])
    if faults:
        raise Fault(f"make proof: {len(faults)} displayed lines are executed by no example of a page that shows them")
    where = f"; the result is {RESULT}" if written else "; no result: that of the other pages is of other code"
    print(f"make proof: {count} displayed lines executed, none missed ({time.monotonic() - started:.0f} s){where}")
