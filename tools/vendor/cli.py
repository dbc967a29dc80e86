"""make vendor: a repository for a backend of another name, made of this one."""

from __future__ import annotations

import argparse
from pathlib import Path

from environment import Fault
from vendor import names, place, tree


def main(arguments: list[str]) -> None:
    """Writes the repository, and says what to do with it."""
    parser = argparse.ArgumentParser(prog="make vendor", description=__doc__)
    parser.add_argument("--name", required=True, help="the name of the device: torch.ones(2, device=NAME)")
    parser.add_argument("--dest", required=True, help="the folder to write, which must not exist")
    parser.add_argument(
        "--prefix", help="what the driver's functions begin with; else the initials of its syllables, am"
    )
    options = parser.parse_args(arguments)
    if not (options.name and options.dest):
        raise Fault("say how the device is called, and where to write: make vendor NAME=acme DEST=../torch_acme")
    chosen = names.chosen(options.name, options.prefix or None)
    destination = Path(options.dest).absolute()
    files = tree.files(chosen)
    place.write(files, destination)
    print(f"make vendor: {len(files)} files of the backend {chosen.device} are in {destination}; there, run make test")
