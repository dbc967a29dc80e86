"""make states: checks whether the states of `make vendor` build, what the kit reports on each, and what works there.

The committed result names for each state what decides it: its sources, what each of them needs, and the table of the
states. A check reports when another trial is due.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

from environment import ROOT, Fault
from vendor import conforms, record, shape, tree
from vendor.chapters import Choice
from vendor.states import State, States
from vendor.trial import ACME, Trial
from weaver.configuration import load
from weaver.sources.closure import Sources

RESULT = Path("docs", "proof", "states.json")
WORKS = "works"
Results = dict[str, dict[str, Any]]


def stale() -> Iterator[str]:
    """One line for each state whose sources have changed since its result, or at which less works than before."""
    known = read()
    states = States(ROOT)
    for state in states.all:
        if known.get(str(state.number), {}).get("parts") != _parts(state, states):
            yield f"{RESULT}: state {state.number}: it has other sources than when it was tried; run `make states`"
        elif known[str(state.number)]["tried"] != _programs(states):
            yield f"{RESULT}: state {state.number}: other programs were tried; run `make states`"
    yield from faults(known, states)


def faults(known: Mapping[str, Mapping[str, Any]], states: States) -> Iterator[str]:
    """Yields a line for whatever works at one state and not at the next, and for what does not work at the last."""
    results = [known[str(state.number)] for state in states.all if str(state.number) in known]
    for number, (before, after) in enumerate(pairwise(results), start=2):
        lost = [name for name, word in before["programs"].items() if word == WORKS != after["programs"][name]]
        lost += [area for area, score in before["kit"].items() if score["passed"] > after["kit"][area]["passed"]]
        yield from (f"{RESULT}: {each!r} works less at state {number} than before it" for each in lost)
    if len(results) == len(states.all):
        last = results[-1]
        left = [name for name, word in last["programs"].items() if word != WORKS]
        left += [area for area, score in last["kit"].items() if score["passed"] != score["asked"]]
        yield from (f"{RESULT}: {each!r} does not work at the last state" for each in left)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(prog="make states", description=__doc__)
    parser.add_argument("--every", action="store_true", help="try all states, also those that have not changed")
    parser.add_argument("--state", type=int, action="append", default=[], help="try this state, too")
    parser.add_argument("--sample", type=int, default=0, help="try so many others, too")
    parser.add_argument("--seed", type=int, default=0, help="which these are")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    """Tries the states that are due, and those that are given."""
    options, states = parse(arguments), States(ROOT)
    known = read()
    due = {
        state.number
        for state in states.all
        if options.every or not _is_known(known.get(str(state.number), {}), state, states)
    }
    due |= {states[number].number for number in options.state}
    others = sorted({state.number for state in states.all} - due)
    due |= set(random.Random(options.seed).sample(others, min(options.sample, len(others))))
    if not due:
        print(f"make states: nothing has changed; the result is {RESULT}")
        return
    for number in sorted(due):
        again = options.every or number in options.state
        known[str(number)] = _tried(states[number], states, {} if again else known.get(str(number), {}))
        kept = {str(state.number): known[str(state.number)] for state in states.all if str(state.number) in known}
        (ROOT / RESULT).write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if found := list(faults(known, states)):
        raise Fault("\n  ".join(["make states:", *found]))
    tried = ", ".join(str(number) for number in sorted(due))
    print(f"make states: {tried} built, and nothing that worked before is lost; the result is {RESULT}")


def areas(state: State, states: States) -> list[str]:
    """The areas of the kit that are checked at a state."""
    return [area for each in states.until(state.number) for area in each.areas]


def _is_known(result: Mapping[str, Any], state: State, states: States) -> bool:
    return bool(result.get("parts") == _parts(state, states) and result["tried"] == _programs(states))


def _tried(state: State, states: States, known: Mapping[str, Any]) -> dict[str, Any]:
    """Tries a state. If only the programs have changed, the kit's result is kept."""
    print(f"-- state {state.number}: {state.title}", flush=True)
    trial = Trial("make states", f"state {state.number}", "state", optimized=False)
    trial.clear()
    trial.write(shape.formatted(tree.files(ACME, None, state.number)), None, state.number)
    trial.build()
    parts, programs = _parts(state, states), _programs(states)
    only_programs = known.get("parts") == parts and known["tried"] != programs
    return {
        "date": date.today().isoformat(),
        "parts": parts,
        "tried": programs,
        "kit": known["kit"] if only_programs else _asked(trial, state, states),
        "programs": {name: trial.run(code) for name, code in states.programs.items()},
    }


def _asked(trial: Trial, state: State, states: States) -> dict[str, dict[str, int]]:
    """The result of the conformance kit, by area."""
    report = trial.ask(conforms.LEVEL, ",".join(areas(state, states)))
    if report["fault"]:
        raise Fault(f"make states: state {state.number}: {report['fault']}")
    return {
        area: {"passed": score["passed"], "asked": sum(score[each] for each in ("passed", *conforms.FAILED))}
        for area, score in report["scores"].items()
    }


def _parts(state: State, states: States) -> str:
    """A digest of what decides a state: its sources, what each of them needs, its tests, and the areas of the kit."""
    edges = conforms.parts(Sources(load(ROOT)), Choice(ROOT, None, state.number).taken)
    return _digest([edges, repr(replace(state, title="", adds="")), *areas(state, states)])


def _programs(states: States) -> str:
    return _digest([f"{name}: {code}" for name, code in states.programs.items()])


def _digest(words: list[str]) -> str:
    return record.digest(json.dumps(words))


def read() -> Results:
    """The committed result."""
    file = ROOT / RESULT
    known: Results = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return known
