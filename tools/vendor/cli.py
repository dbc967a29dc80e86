"""make vendor: a repository for a backend of another name, made of this one; or more of it, in one made before."""

from __future__ import annotations

import argparse
from pathlib import Path

from environment import Fault
from vendor import names, place, record, tree, update


def main(arguments: list[str]) -> None:
    """Writes the repository or brings it up to date, and says what to do with it."""
    parser = argparse.ArgumentParser(prog="make vendor", description=__doc__)
    parser.add_argument("--name", required=True, help="the name of the device: torch.ones(2, device=NAME)")
    parser.add_argument("--dest", required=True, help="the folder to write; or one that was written before, to update")
    parser.add_argument(
        "--prefix", help="what the driver's functions begin with; else the initials of its syllables, am"
    )
    parser.add_argument("--chapters", help="the pages whose sources are wanted, by name; all, unless some are named")
    options = parser.parse_args(arguments)
    if not (options.name and options.dest):
        raise Fault("say how the device is called, and where to write: make vendor NAME=acme DEST=../torch_acme")
    destination = Path(options.dest).resolve()
    before = record.read(destination)
    wanted = options.chapters.split() if options.chapters else None
    if before is None:
        chosen = names.chosen(options.name, options.prefix or None)
        files = _written(chosen, wanted)
        place.write(files, destination)
        done = f"{len(files)} files of the backend {chosen.device} are in {destination}; there, run make test"
    else:
        done = f"{_update(destination, before, options.name, options.prefix, wanted)} in {destination}"
    print(f"make vendor: {done}")


def _update(destination: Path, before: record.Record, name: str, prefix: str | None, more: list[str] | None) -> str:
    if (name, prefix or before.prefix) != (before.device, before.prefix):
        raise Fault(
            f"{destination} is a backend called {before.device}, with the prefix {before.prefix}; "
            f"{name}{f' with {prefix}' if prefix else ''} needs a folder of its own"
        )
    wanted = None if before.chapters is None else sorted({*before.chapters, *(more or ())})
    files = _written(names.Names(before.device, before.prefix), wanted)
    recorded = files.pop(record.FILE)
    planned = update.changes(destination, before, files)
    update.apply(destination, planned)
    # Last: until then, the same command goes on where it was stopped.
    (destination / record.FILE).write_text(recorded, encoding="utf-8")
    return str(planned)


def _written(chosen: names.Names, chapters: list[str] | None) -> dict[str, str]:
    files = tree.files(chosen, chapters)
    digests = {path: record.digest(text) for path, text in files.items()}
    made = record.Record(chosen.device, chosen.prefix, chapters, tree.commit(), digests)
    return files | {record.FILE: made.text}
