"""make vendor: creates a repository for a backend of another name from this one, or updates one created before."""

from __future__ import annotations

import argparse
from pathlib import Path

from environment import ROOT, STARTED_IN, Fault, say, user_path
from vendor import history, names, place, record, shape, tree, update
from vendor.chapters import Choice
from vendor.states import States


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line. Throws: ``Fault``, if the name or the folder is empty."""
    parser = argparse.ArgumentParser(prog="make vendor", description=__doc__)
    parser.add_argument("--name", required=True, help="the name of the device: torch.ones(2, device=NAME)")
    parser.add_argument("--dest", required=True, help="the folder to write; or one that was written before, to update")
    parser.add_argument(
        "--prefix", help="what the driver's functions begin with; else the initials of its syllables, am"
    )
    parser.add_argument(
        "--library",
        help="the driver's library and headers, the C++ namespace, and in capitals the environment variables; else the "
        "name of the device, which an SDK may have taken",
    )
    parser.add_argument(
        "--chapters",
        help="the pages whose sources are wanted, by name; all, unless some are named; an update adds them, or all",
    )
    parser.add_argument(
        "--state", help="how far the backend is to be: 1, which has a name, to the last; all, unless named"
    )
    parser.add_argument(
        "--git",
        choices=("", history.AUTO, history.YES, history.NO),
        help="whether to make a git repository with a first commit: auto, which is not inside another one; yes; no",
    )
    options = parser.parse_args(arguments)
    if not (options.name and options.dest):
        raise Fault("say how the device is called, and where to write: make vendor NAME=acme DEST=../torch_acme")
    return options


def main(arguments: list[str]) -> None:
    """Writes or updates the repository, and says what to do with it."""
    options = parse(arguments)
    destination = (STARTED_IN / user_path(options.dest)).resolve()
    before = record.read(destination)
    wanted = options.chapters.split() if options.chapters else None
    if wanted == ["all"]:
        wanted = None if before is None else Choice(ROOT).chapters
    state = _state(options.state)
    if wanted and state:
        raise Fault(f"STATE={state} decides which chapters there are; leave out CHAPTERS, or STATE")
    prefix, library = options.prefix or None, options.library or None
    if before is None:
        chosen = names.chosen(options.name, prefix, library)
        files = _written(chosen, wanted, state)
        message = f"{chosen.package}, as it was copied\n\nThe guide's commit: {tree.commit('%H of %cs')}"
        begun: list[str] = []
        # Before the folder has its name: an interrupt leaves nothing, and never a copy whose first commit is missing.
        wish = options.git or history.AUTO
        place.write(files, destination, lambda folder: begun.append(history.begin(folder, message, wish)))
        print(f"make vendor: {begun[0]}")
        stage = f", at state {state}," if state else ""
        done = f"{len(files)} files of the backend {chosen.device}{stage} are in {destination}; begin with README.md"
    else:
        planned = _update(destination, before, (options.name, prefix, library), wanted, state)
        done = f"{planned} in {destination}"
        if planned and history.is_repository(destination):
            done += "; git diff shows them, to commit"
        done += planned.left_to_do
    print(f"make vendor: {done}")


def _state(given: str | None) -> int | None:
    if not given:
        return None
    states = States(ROOT)
    if not given.isdecimal():
        raise Fault(f"STATE={given} is no number; the states are 1 to {len(states.all)}")
    return states[int(given)].number


def _update(
    destination: Path,
    before: record.Record,
    given: tuple[str, str | None, str | None],
    more: list[str] | None,
    state: int | None,
) -> update.Changes:
    device, prefix, library = given
    if (device, prefix or before.prefix, library or before.library) != (before.device, before.prefix, before.library):
        asked = " ".join([device, *(f"with {each}" for each in (prefix, library) if each)])
        its = f"with the prefix {before.prefix} and the library {before.library}"
        raise Fault(f"{destination} is a backend called {before.device}, {its}; {asked} needs a folder of its own")
    if state is not None and before.state is None:
        its = "all chapters" if before.chapters is None else "chapters"
        raise Fault(
            f"{destination} was written with {its}, and is at none of the states: leave out STATE to update it, or "
            f"write STATE={state} to a folder of its own"
        )
    if state is not None and before.state is not None and state < before.state:
        raise Fault(
            f"{destination} is at state {before.state}, and STATE={state} has less; write it to a folder of its own"
        )
    if more and before.state is not None:
        raise Fault(f"{destination} is at state {before.state}; a later STATE adds to it, and CHAPTERS does not")
    if more:
        Choice(ROOT, more)  # raises for an unknown name, also where all chapters are there and none is added
    wanted = None if before.chapters is None else sorted({*_still_there(before.chapters), *(more or ())})
    files = _written(before.names, wanted, before.state if state is None else state)
    recorded = files.pop(record.FILE)
    planned = update.changes(destination, before, files)
    update.apply(destination, planned)
    # Last: until then, the same command continues where it was interrupted.
    (destination / record.FILE).write_text(recorded, encoding="utf-8")
    return planned


def _still_there(recorded: list[str]) -> list[str]:
    """The recorded chapters that the guide still has; says which it has renamed or removed since."""
    every = Choice(ROOT).chapters
    if gone := sorted(set(recorded) - set(every)):
        say(f"the guide no longer has the chapter {', '.join(gone)}; add what took its place by CHAPTERS=")
    return [chapter for chapter in recorded if chapter in every]


def _written(chosen: names.Names, chapters: list[str] | None, state: int | None) -> dict[str, str]:
    files = shape.formatted(tree.files(chosen, chapters, state))
    return files | {record.FILE: record.of(chosen, chapters, tree.commit(), files, state).text}
