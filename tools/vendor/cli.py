"""make vendor: a repository for a backend of another name, made of this one."""

from __future__ import annotations

import argparse
from pathlib import Path

from vendor import names, place, tree


def main(arguments: list[str]) -> None:
    """Writes the repository, and says what to do with it."""
    parser = argparse.ArgumentParser(prog="make vendor", description=__doc__)
    parser.add_argument("--name", required=True, help="the name of the device: torch.ones(2, device=NAME)")
    parser.add_argument("--dest", required=True, type=Path, help="the folder to write, which must not exist")
    parser.add_argument("--prefix", help="what the driver's functions begin with; the first two letters of the name")
    options = parser.parse_args(arguments)
    chosen = names.chosen(options.name, options.prefix or None)
    destination = options.dest.absolute()
    files = tree.files(chosen)
    place.write(files, destination)
    print(f"make vendor: {len(files)} files of the backend {chosen.device} are in {destination}; there, run make test")
