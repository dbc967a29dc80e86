"""make vendor: a repository for a backend of another name, made of this one; or more of it, in one made before."""

from __future__ import annotations

import argparse
from pathlib import Path

from environment import Fault
from vendor import history, names, place, record, shape, tree, update


def main(arguments: list[str]) -> None:
    """Writes the repository or brings it up to date, and says what to do with it."""
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
    parser.add_argument("--chapters", help="the pages whose sources are wanted, by name; all, unless some are named")
    parser.add_argument(
        "--git",
        choices=("", history.AUTO, history.YES, history.NO),
        help="whether to make a git repository with a first commit: auto, which is not inside another one; yes; no",
    )
    options = parser.parse_args(arguments)
    if not (options.name and options.dest):
        raise Fault("say how the device is called, and where to write: make vendor NAME=acme DEST=../torch_acme")
    destination = Path(options.dest).resolve()
    before = record.read(destination)
    wanted = options.chapters.split() if options.chapters else None
    prefix, library = options.prefix or None, options.library or None
    if before is None:
        chosen = names.chosen(options.name, prefix, library)
        files = _written(chosen, wanted)
        place.write(files, destination)
        message = f"{chosen.package}, as it was copied\n\nThe guide's commit: {tree.commit('%H of %cs')}"
        print(f"make vendor: {history.begin(destination, message, options.git or history.AUTO)}")
        done = f"{len(files)} files of the backend {chosen.device} are in {destination}; begin with README.md"
    else:
        done = f"{_update(destination, before, (options.name, prefix, library), wanted)} in {destination}"
        if history.is_repository(destination):
            done += "; git diff shows them, to commit"
    print(f"make vendor: {done}")


def _update(
    destination: Path, before: record.Record, given: tuple[str, str | None, str | None], more: list[str] | None
) -> str:
    device, prefix, library = given
    if (device, prefix or before.prefix, library or before.library) != (before.device, before.prefix, before.library):
        asked = " ".join([device, *(f"with {each}" for each in (prefix, library) if each)])
        its = f"with the prefix {before.prefix} and the library {before.library}"
        raise Fault(f"{destination} is a backend called {before.device}, {its}; {asked} needs a folder of its own")
    wanted = None if before.chapters is None else sorted({*before.chapters, *(more or ())})
    files = _written(before.names, wanted)
    recorded = files.pop(record.FILE)
    planned = update.changes(destination, before, files)
    update.apply(destination, planned)
    # Last: until then, the same command goes on where it was stopped.
    (destination / record.FILE).write_text(recorded, encoding="utf-8")
    return str(planned)


def _written(chosen: names.Names, chapters: list[str] | None) -> dict[str, str]:
    files = shape.formatted(tree.files(chosen, chapters))
    return files | {record.FILE: record.of(chosen, chapters, tree.commit(), files).text}
