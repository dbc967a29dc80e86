"""``make next TORCH=2.14.1``: tries the backend with another release of PyTorch, and writes a dated result.

The release has a separate environment, and each step runs there as a user would run it: the changes of the surface, the
build, the tests, the operator database, the pages. A failed step does not stop the others, since the result is what the
release breaks. The page ``reference/releases`` shows the result, ``docs/proof/releases/<release>.json``. A step that is
repeated replaces only its own part of it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import surface
from environment import PAGES_OF_ANOTHER_TORCH, ROOT, Fault, say
from prerequisites import is_supported_torch, supported_series, torch_releases, torch_version

RESULTS = Path("docs", "proof", "releases")
# Tests of this repository's tools, and of results that are measured with the reference.
_OF_THE_REFERENCE = ("tests/build", "tests/conformance", "tests/docs", "tests/driver_conformance", "tests/weaver")
_PAGE = re.compile(
    r"^doctest (?P<page>\S+): (?P<examples>\d+) examples, (?:ok|(?P<failures>\d+) failures?)", re.MULTILINE
)
_FAULT = re.compile(r"^/\S+?/docs/source/(?P<page>\S+?)\.md:(?P<line>\d+): WARNING: (?P<text>.*)$", re.MULTILINE)
_COMPILER = re.compile(
    r"^\S+:\d+:\d+: (?:fatal )?error: .*$|^(?:.*: )?undefined reference .*$|^ValueError: .*$", re.MULTILINE
)
_UNITS = re.compile(
    r"^make opinfo: (?P<passed>\d+) of (?P<units>\d+) units passed.*; the result is (?P<file>.+)$", re.MULTILINE
)
_OTHER_UNIT = re.compile(
    r"^- (?P<unit>.+, \w+, \w+): (?P<outcome>passed|failed), and (?:is|is not) listed$", re.MULTILINE
)
_SHOWN = 300
# The page that shows the results of this command: while they are made, it is behind them.
_PAGE_OF_RESULTS = "reference/releases"


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the release."""

    folder: Path
    log: Path

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"

    def make(self, *words: str, **variables: str) -> tuple[bool, str]:
        """Runs a command of tools/dev.py there, and logs its output. Returns whether it passed, and the output."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("OPENREG_")}
        environment = {**inherited, **variables, "VIRTUAL_ENV": str(self.folder)}
        command = [str(self.python), str(ROOT / "tools" / "dev.py"), *words]
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ make {' '.join(words)}\n")
            log.flush()
            begin = log.tell()
            ran = subprocess.run(
                command,
                env=environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        with self.log.open(encoding="utf-8", errors="replace") as written:
            written.seek(begin)
            return ran.returncode == 0, written.read()


def prepare(release: str, folder: Path | None) -> Environment:
    """The given environment, or a new one. Throws: ``Fault``, if it does not have the release."""
    place = ROOT / "build" / "next" / release
    place.mkdir(parents=True, exist_ok=True)
    made = Environment((folder or place / "venv").resolve(), place / "log")
    made.log.write_text("", encoding="utf-8")
    # Until PyTorch is there: an interrupted run may leave an interpreter without pip, or a part of PyTorch.
    complete = made.folder / "complete"
    is_new = folder is None and not complete.exists()
    if is_new:
        say(f"creating {made.folder.relative_to(ROOT)}, and installing torch=={release} there")
        command = [sys.executable, "-m", "venv", "--clear", str(made.folder)]
        if subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode != 0:
            raise Fault(f"{' '.join(command)} failed; its output is above")
        # Installed first, with an exact version, so that later packages that need torch use it.
        command = [str(made.python), "-m", "pip", "--disable-pip-version-check", "install", f"torch=={release}"]
        with made.log.open("a", encoding="utf-8") as log:
            ran = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, check=False)
        if ran.returncode != 0:
            raise Fault(f"pip found no torch=={release} that it could install; see {made.log.relative_to(ROOT)}")
    packages = next(iter(made.folder.glob("lib/python*/site-packages")), made.folder)
    found = torch_version(packages / "torch")
    if (found or "").partition("+")[0] != release:
        cure = f"{made.python} -m pip install torch=={release}" if folder else f"remove {made.folder}"
        raise Fault(f"{made.folder} has {f'PyTorch {found}' if found else 'no PyTorch'}, not {release}: {cure}")
    if is_new:
        complete.touch()
    return made


def changed_surface(environment: Environment) -> dict[str, Any]:
    """What has changed, since the reference, in the surface of PyTorch. Needs `import torch`, but no build."""
    script = "import sys; sys.path.insert(0, 'tools'); import surface; "
    script += "print(surface.current(surface.names_in(surface.FILE.read_text(encoding='utf-8'))), end='')"
    ran = subprocess.run(
        [str(environment.python), "-c", script],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        return {"passed": False, "error": ran.stderr.strip().rpartition("\n")[2][:_SHOWN]}
    return {"passed": True, "changes": changes(surface.FILE.read_text(encoding="utf-8"), ran.stdout)}


def changes(before: str, after: str) -> dict[str, list[str]]:
    """The removed lines, with ``-``, and the new ones, with ``+``, by section of the surface."""
    old, new = _sections(before), _sections(after)
    result = {}
    for name in [*new, *(name for name in old if name not in new)]:
        lines = surface.difference("\n".join(old.get(name, [])), "\n".join(new.get(name, [])), "", "").splitlines()
        if found := [line for line in lines[2:] if line.startswith(("-", "+"))]:
            result[name] = found
    return result


def _sections(text: str) -> dict[str, list[str]]:
    parts = (part.split("\n") for part in re.split(r"\n\n(?=\[)", text.strip("\n")))
    sections = {heading.strip("[]"): lines for heading, *lines in parts}
    # The files that look up a name change with every release, and say little.
    sections[surface.NAMES] = [line.partition(":")[0] for line in sections.get(surface.NAMES, [])]
    return sections


def build(environment: Environment) -> dict[str, Any]:
    """The build: the errors of the compiler, the linker and the generator."""
    passed, output = environment.make("build")
    return {"passed": passed, "errors": list(dict.fromkeys(_COMPILER.findall(output)))}


def tests(environment: Environment) -> dict[str, Any]:
    """The tests of the backend; those of this repository's own tools and results run only with the reference."""
    report = environment.log.with_name("tests.xml")
    report.unlink(missing_ok=True)
    ignored = [f"--ignore={folder}" for folder in _OF_THE_REFERENCE]
    passed, output = environment.make("test", f"--junit-xml={report}", *ignored)
    if not report.is_file():
        return {"passed": False, "error": output.strip().rpartition("\n")[2][:_SHOWN]}
    return {"passed": passed, **outcome(ET.parse(report).getroot())}


def outcome(report: ET.Element) -> dict[str, Any]:
    """The number of tests by outcome, and the first line of the reason for each failure."""
    counts = {"tests": 0, "failures": 0, "skipped": 0}
    failed = {}
    for case in report.iter("testcase"):
        counts["tests"] += 1
        counts["skipped"] += case.find("skipped") is not None
        for fault in [*case.findall("failure"), *case.findall("error")][:1]:
            counts["failures"] += 1
            name = f"{(case.get('classname') or '').replace('.', '/')}.py::{case.get('name')}"
            failed[name] = (fault.get("message") or "").strip().partition("\n")[0][:_SHOWN]
    return {**counts, "failed": failed}


def opinfo(environment: Environment) -> dict[str, Any]:
    """PyTorch's operator database, all of it: the units that do something else than with the reference."""
    passed, output = environment.make("opinfo")
    counted = _UNITS.search(output)
    if not passed or counted is None:
        return {"passed": False, "error": output.strip().rpartition("\n")[2][:_SHOWN]}
    # With another PyTorch, `make opinfo` lists the differences from tests/opinfo/exceptions.toml below its tables.
    written = (ROOT / counted["file"]).read_text(encoding="utf-8")
    differ = {unit["unit"]: unit["outcome"] for unit in _OTHER_UNIT.finditer(written)}
    counts = {"units": int(counted["units"]), "units_passed": int(counted["passed"])}
    return {"passed": not differ, **counts, "differ": differ}


def pages(environment: Environment, *named: str) -> dict[str, Any]:
    """All pages, or the named ones, executed. The guide describes the reference: this is what differs from its text."""
    # PyTorch built for CUDA warns in each process where it finds a toolkit and no GPU; an empty path stops that.
    quiet = {PAGES_OF_ANOTHER_TORCH: "1", "CUDA_PATH": ""}
    _passed, output = environment.make("doctest", *named, **quiet)
    found = {match["page"]: match for match in _PAGE.finditer(output)}
    if not found:
        return {"passed": False, "error": output.strip().rpartition("\n")[2][:_SHOWN]}
    faults: dict[str, list[str]] = {}
    for fault in _FAULT.finditer(output):
        if fault["page"] != _PAGE_OF_RESULTS and (not named or fault["page"] in found):
            faults.setdefault(fault["page"], []).append(f"{fault['line']}: {fault['text'][:_SHOWN]}")
    examples = {page: int(match["examples"]) for page, match in sorted(found.items())}
    return {"passed": not faults, "examples": examples, "faults": dict(sorted(faults.items()))}


def renewed(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The earlier result of the pages, with that of the pages of ``now`` replaced. Requires: these were tried."""
    tried = now["examples"]
    if "error" in before:
        return now
    faults = {page: places for page, places in before.get("faults", {}).items() if page not in tried}
    faults = dict(sorted((faults | now["faults"]).items()))
    examples = dict(sorted((before.get("examples", {}) | tried).items()))
    return {**now, "passed": not faults, "examples": examples, "faults": faults}


STEPS: dict[str, Callable[..., dict[str, Any]]] = {
    "surface": changed_surface,
    "build": build,
    "test": tests,
    "opinfo": opinfo,
    "doctest": pages,
}


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line. Throws: ``Fault``, if the release, a step or a page is unknown."""
    parser = argparse.ArgumentParser(prog="make next", description=__doc__, allow_abbrev=False)
    parser.add_argument("release", help="a release of PyTorch, such as 2.14.1: TORCH=2.14.1")
    parser.add_argument("--environment", type=Path, help="a virtual environment that has the release already")
    parser.add_argument("--steps", default=",".join(STEPS), help="some of %(default)s")
    parser.add_argument("--pages", default="", help="in the step doctest, only these; the others keep their result")
    options = parser.parse_args(arguments)
    release, options.steps = options.release, options.steps.split(",")
    options.pages = options.pages.split(",") if options.pages else []
    _check_pages(options.pages)
    if unknown := sorted(set(options.steps) - set(STEPS)):
        raise Fault(f"make next: there is no step {', '.join(unknown)}; there are {', '.join(STEPS)}")
    if not release:
        raise Fault(f"make next: name a release: make next TORCH={torch_releases()[-1]}")
    if "+" in release:
        exact = release.partition("+")[0]
        raise Fault(f"make next: the index of pip decides which build it installs: TORCH={exact}, not {release}")
    if not re.fullmatch(r"\d+\.\d+\.\d\S*", release) or not is_supported_torch(release):
        listed = f"pyproject.toml lists {', '.join(torch_releases())}; add a release of its series there first"
        raise Fault(f"make next: {release!r} is no release of PyTorch {supported_series()}: {listed}")
    return options


def _check_pages(named: list[str]) -> None:
    """Throws: ``Fault``, if the guide has no such page."""
    from weaver.configuration import load
    from weaver.fault import Fault as Wrong

    from weaver import options

    try:
        options.check_names("page", named, options.pages(load(ROOT)) if named else ())
    except Wrong as wrong:
        raise Fault(f"make next: {wrong}") from None


def main(arguments: list[str]) -> None:
    """Runs the steps, one after the other, and writes the result after each.

    Throws: ``Fault``, if named pages do not run: their earlier result stays.
    """
    options = parse(arguments)
    release, steps, named = options.release, options.steps, options.pages
    environment = prepare(release, options.environment)
    file = RESULTS / f"{release}.json"
    record = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"torch": release, "steps": {}}
    for step in STEPS:
        if step in steps:
            begun = time.monotonic()
            say(f"{step} with PyTorch {release}; the output goes to {environment.log.relative_to(ROOT)}")
            again = named if step == "doctest" else []
            done = {"date": date.today().isoformat(), **STEPS[step](environment, *again)}
            if again and "error" in done:
                raise Fault(f"make next: {', '.join(again)} did not run, and the earlier result stays: {done['error']}")
            done["seconds"] = round(time.monotonic() - begun)
            record["steps"][step] = renewed(record["steps"].get(step, {}), done) if again else done
            say(f"{step}: {'passed' if done['passed'] else 'did not pass'} ({record['steps'][step]['seconds']} s)")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    failed = [step for step in steps if not record["steps"][step]["passed"]]
    what = f"{', '.join(failed)} did not pass" if failed else f"{', '.join(steps)} passed"
    print(f"make next: with PyTorch {release}, {what}; the result is {file}")
