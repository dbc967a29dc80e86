"""Checks that the output of `make vendor` works: all chapters together, and each alone, as a backend called acme.

Each is built and checked by the conformance kit at the level *usable*; those alone without optimization, since the
question is which sources they need. A failure is allowed only if the kit names an excluded chapter as its cure. The
committed result records the parts of the closure that it is for, so that a check can say when another trial is due. All
chapters together are tried again as soon as the code of one source changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Collection, Iterator
from datetime import date
from pathlib import Path
from typing import Any

from environment import ROOT, Fault
from vendor import shape, tree
from vendor.chapters import BASE, Choice
from vendor.trial import ACME, Trial
from weaver.configuration import load
from weaver.sources.binding import code_digest, code_files
from weaver.sources.closure import Sources

RESULT = Path("docs", "proof", "chapters.json")
LEVEL = "usable"
FAILED = ("failed", "crashed", "hung")
ALL, NONE = "all", "base"
# The kit compiles nothing, and every choice has what torch.compile needs.
_COMPILES = f"assert torch.compile(lambda x: x * 2 + 1)(torch.ones(3, device={ACME.device!r})).tolist() == [3.0] * 3"


def choices() -> dict[str, list[str] | None]:
    """The choices by name: everything, the base only, and each other chapter alone."""
    others = sorted(set(Choice(ROOT).chapters) - set(BASE))
    return {ALL: None, NONE: [], **{chapter: [chapter] for chapter in others}}


def stale() -> Iterator[str]:
    """One line for each choice whose sources have changed since its result."""
    known = _read()
    sources = Sources(load(ROOT))
    for name, chosen in choices().items():
        if known.get(name, {}).get("parts") != _parts(chosen, sources):
            yield f"{RESULT}: {name}: it needs other sources than when it was tried; run `make chapters`"
    for name in sorted(set(known) - set(choices())):
        yield f"{RESULT}: {name} is no chapter with sources any more; run `make chapters`"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="make chapters", description=__doc__)
    parser.add_argument("--every", action="store_true", help="try all choices, also those that have not changed")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Tries the choices that have changed."""
    options = parse(arguments)
    known = _read()
    wanted = [name for name in choices() if options.every or not _is_known(name, known.get(name, {}))]
    if not wanted:
        print(f"make chapters: nothing has changed since {known[ALL]['date']}; the result is {RESULT}")
        return
    for name in wanted:
        known[name] = _tried(name, choices()[name])
        kept = {each: known[each] for each in choices() if each in known}
        (ROOT / RESULT).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    print(f"make chapters: {', '.join(wanted)} built and conform as far as they go; the result is {RESULT}")


def _tried(name: str, chosen: list[str] | None) -> dict[str, Any]:
    """Writes the repository for the choice, builds it and runs the kit."""
    print(f"-- chapters: {name}", flush=True)
    trial = Trial("make chapters", name, "whole" if name == ALL else "alone", optimized=name == ALL)
    trial.write(shape.formatted(tree.files(ACME, chosen)), chosen)
    trial.build()
    if name == NONE and (ended := trial.run(_COMPILES)) != "works":
        raise Fault(f"make chapters: {name} in {trial.folder}: {_COMPILES!r} ended with {ended}")
    asked = trial.ask(LEVEL)
    destination = trial.folder
    left_out = set(choices()) - {ALL, NONE} - set(chosen if chosen is not None else choices())
    if faults := list(unexplained(asked, left_out)):
        raise Fault("\n  ".join([f"make chapters: {name} in {destination}:", *faults]))
    failed = list(_failed(asked))
    return {
        "date": date.today().isoformat(),
        "parts": _parts(chosen),
        **({"sources digest": written()} if name == ALL else {}),
        "passed": sum(check["outcome"] == "passed" for check in asked["checks"]),
        "not offered": sum(check["outcome"] == "not offered" for check in asked["checks"]),
        "left to other chapters": {
            chapter: sum(check["chapter"] == chapter for check in failed)
            for chapter in sorted({check["chapter"] for check in failed})
        },
    }


def unexplained(report: dict[str, Any], left_out: Collection[str]) -> Iterator[str]:
    """The kit's findings that no excluded chapter would cure."""
    if report["fault"]:
        yield report["fault"]
    for check in _failed(report):
        if check["chapter"] not in left_out:
            yield f"{check['name']}: {check['reason']}; its cure is in {check['chapter']}, which is there"


def _failed(report: dict[str, Any]) -> Iterator[dict[str, str]]:
    yield from (check for check in report["checks"] if check["outcome"] in FAILED)


def _is_known(name: str, result: dict[str, Any]) -> bool:
    """Whether the result is for what would be tried now."""
    same = result.get("parts") == _parts(choices()[name])
    return same and (name != ALL or result.get("sources digest") == written())


def written() -> str:
    """A digest of what `make vendor` writes and builds: the code of the copied files and of this package."""
    copied = (entry for entry in tree.COPIED if not entry.startswith("tests/"))
    files = code_files(ROOT, (*copied, "tools/vendor"))
    lines = [f"{file.relative_to(ROOT)} {code_digest(file)}" for file in files]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _parts(chosen: list[str] | None, sources: Sources | None = None) -> str:
    sources = sources or Sources(load(ROOT))
    base = Choice(ROOT, [], sources=sources).taken if chosen else set()
    return parts(sources, Choice(ROOT, chosen, sources=sources).taken, base)


def parts(sources: Sources, taken: Collection[str], base: Collection[str] = ()) -> str:
    """A digest of what decides whether a choice is complete: its sources, and what each of them needs.

    The base is tried by itself, so a chapter alone counts only what it adds to the base.
    """
    edges = {path: sorted(sources.closure([path]) - set(base)) for path in sorted(set(taken) - set(base))}
    return hashlib.sha256(json.dumps(edges).encode()).hexdigest()[:16]


def _read() -> dict[str, dict[str, Any]]:
    file = ROOT / RESULT
    known: dict[str, dict[str, Any]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return known
