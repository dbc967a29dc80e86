"""``make instructions``: counts the instructions of small calls and of a training step, on the device and on the CPU.

A time depends on the machine and on what else it does; a count of instructions does not, and so shows changes of a few
percent. The command fails if a call needs 3 % more than was accepted. After a deliberate change, ``--accept`` writes
the new counts, and the tables of benchmarks/results/instructions.md. Counts of another compiler, PyTorch, C library,
valgrind, processor or driver are not compared.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

import results
from driver import result
from environment import ROOT, Fault, say

from instructions import accepted, callgrind, parts
from instructions.accepted import ACCEPT, Accepted
from instructions.callgrind import CPU, DEVICE, STEP, Profiles

_LONGEST = 100  # characters of a function's name


def _table(header: Iterable[str], rows: Iterable[Iterable[object]], texts: int = 1) -> str:
    """A Markdown table; the first columns are texts, the others numbers."""
    names = list(header)
    lines = [names, ["---"] * texts + ["---:"] * (len(names) - texts), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _number(count: float) -> str:
    return f"{count:,.0f}".replace(",", " ")


def table_of_calls(profiles: Profiles) -> str:
    """The instructions of one call of each path, and the ratio."""
    rows = []
    for name, both in profiles.items():
        device, cpu = both[DEVICE].total, both[CPU].total
        rows.append((name, _number(cpu), _number(device), f"{device / cpu:.2f}"))
    return _table(("call", "CPU", "device", "ratio"), rows)


def table_of_step(profiles: Profiles) -> str:
    """The parts of a training step."""
    cpu, device = (profiles[STEP][name] for name in (CPU, DEVICE))
    on_cpu, on_device = parts.split(cpu.own), parts.split(device.own)
    on_cpu["together"], on_device["together"] = cpu.total, device.total
    rows = [(name, *map(_number, (count, on_device[name], on_device[name] - count))) for name, count in on_cpu.items()]
    return _table(("instructions of a training step", "CPU", "device", "more"), rows)


def table_of_events(profiles: Profiles) -> str:
    """What is counted of a training step beside instructions."""
    cpu, device = (parts.calls(profiles[STEP][name]) for name in (CPU, DEVICE))
    rows = [(unit, *map(_number, (count, device[unit], device[unit] - count))) for unit, count in cpu.items()]
    return _table(("counted in a training step", "CPU", "device", "more"), rows)


def table_of_differences(profiles: Profiles) -> str:
    """By part and call, how many more instructions the device needs than the CPU."""
    names = [name for name in profiles if name != STEP]
    more = {}
    for name in names:
        device, cpu = (parts.split(profiles[name][on].own) for on in (DEVICE, CPU))
        more[name] = {part: device[part] - cpu[part] for part in device}
    rows = [(part, *(_number(more[name][part]) for name in names)) for part in more[names[0]]]
    rows.append(("together", *(_number(sum(more[name].values())) for name in names)))
    return _table(("more on the device", *names), rows)


def table_of_functions(profiles: Profiles, name: str, most: int = 60) -> str:
    """The functions of a path whose own instructions differ most, with what they need together with their callees."""
    cpu, device = (profiles[name][on] for on in (CPU, DEVICE))
    more = {one: device.own.get(one, 0) - cpu.own.get(one, 0) for one in {*cpu.own, *device.own}}
    first = sorted(more, key=lambda one: (-abs(more[one]), one))[:most]
    rows = []
    for one in first:
        figures = (more[one], device.own.get(one, 0), device.inclusive.get(one, 0), device.calls.get(one, 0))
        rows.append((parts.part_of(one), one.replace("|", "/")[:_LONGEST], *(f"{figure:.1f}" for figure in figures)))
    return _table(("part", f"function, in {name} on the device", "more", "own", "inclusive", "calls"), rows, texts=2)


def tables(profiles: Profiles) -> str:
    """All tables."""
    all_tables = (table_of_calls, table_of_differences, table_of_step, table_of_events)
    return "\n\n".join(make(profiles) for make in all_tables)


def compare(before: Accepted, counted: accepted.Counts) -> Iterator[str]:
    """Yields what makes the command fail; says what only needs fewer instructions."""
    if unknown := accepted.missing(before.counts, counted):
        yield f"counted or accepted, but not both: {', '.join(unknown)}"
        return
    for change in accepted.changes(before.counts, counted):
        if change.grown:
            yield str(change)
        else:
            say(f"{change}: `{ACCEPT}` accepts them, so that none of the gain is lost again")


def _accept(profiles: Profiles) -> str:
    """Writes the counts and the tables; returns where."""
    conditions = accepted.conditions()
    file = result(ROOT / accepted.FILE)
    Accepted(conditions, accepted.counts(profiles)).write(file)
    machine = "; ".join(f"{name} {value}" for name, value in conditions.items())
    page = file.with_suffix(".md")
    page.write_text(f"Counted by `{ACCEPT}`: {machine}; {date.today()}.\n\n{tables(profiles)}\n", encoding="utf-8")
    results.INSTRUCTIONS.note(ROOT)
    return str(page)


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(
        prog="make instructions", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--accept", action="store_true", help="write the counts instead of comparing them")
    parser.add_argument("--tables", action="store_true", help="print the tables too")
    parser.add_argument("--functions", metavar="CALL", help="print the functions of a call: --functions 'abs(16)'")
    return parser.parse_args(arguments)


def _check_call(name: str) -> None:
    """Raises: ``Fault``, if the program has no call of this name. It may have one that is not accepted yet."""
    if f'"{name}"' not in (ROOT / callgrind.SOURCE).read_text(encoding="utf-8"):
        known = ", ".join(Accepted.read(ROOT / accepted.FILE).counts)
        raise Fault(f"make instructions: there is no call {name!r} to show the functions of; there are {known}")


def main(arguments: list[str]) -> None:
    """Counts, and compares or accepts. Throws: ``Fault``, with the calls that have grown."""
    options = parse(arguments)
    if options.functions:
        _check_call(options.functions)
    before = None if options.accept else Accepted.read(ROOT / accepted.FILE)
    shows = options.tables or options.functions
    # What is accepted or shown here is compared with nothing, and only needs to be counted.
    if reason := accepted.incomparable({} if shows or before is None else before.conditions):
        if shows or options.accept:
            raise Fault(f"make instructions: nothing was counted: {reason}")
        print(f"make instructions is left out: {reason}")
        return
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder, "program")
        callgrind.compile_program(program)
        profiles = callgrind.count(program)
    if options.tables:
        print(tables(profiles))
    if options.functions:
        print(table_of_functions(profiles, options.functions))
    if before is None:
        print(f"make instructions: accepted, tables in {_accept(profiles)}")
        return
    if reason := accepted.incomparable(before.conditions):
        print(f"make instructions: nothing was compared: {reason}")
        return
    grown = list(compare(before, accepted.counts(profiles)))
    if grown:
        cure = f"if the change is worth it, accept the new counts: {ACCEPT}"
        raise Fault("\n".join([f"make instructions: {len(grown)} counts are over the accepted ones:", *grown, cure]))
    print(f"make instructions: {len(profiles)} calls on two devices, none over its accepted count by 3 %")
