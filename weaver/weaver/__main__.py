"""The commands of the weaver, for the project in which the working directory lies: ``python -m weaver COMMAND``.

Each command imports its dependencies only when it runs, so its help needs neither Sphinx nor a compiler.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from weaver.configuration import COMMANDS, Configuration, find
from weaver.fault import Fault


def run(configuration: Configuration, command: str, arguments: list[str]) -> None:
    """Run one command. Throws: ``Fault`` when it finds something wrong."""
    try:
        _run(configuration, command, arguments)
    except LookupError as error:
        if type(error) is not LookupError:  # a KeyError or IndexError is a defect of the weaver, not of the project
            raise
        raise Fault(str(error)) from None


def _run(configuration: Configuration, command: str, arguments: list[str]) -> None:
    if command == "doctest":
        from weaver.run import prove

        prove.main(configuration, arguments)
    elif command == "lock":
        from weaver.pages import lock

        lock.main(configuration)
    elif command == "proof":
        from weaver.proof import measure

        measure.main(configuration, arguments)
    elif command == "mutate":
        from weaver.proof import mutate

        mutate.main(configuration, arguments)
    else:
        raise Fault(f"there is no command {command}; there are {', '.join(COMMANDS)}")


def main() -> None:
    """Run the command given on the command line; a ``Fault`` becomes one line on stderr and exit status 1."""
    parser = argparse.ArgumentParser(prog="weaver", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own: `COMMAND --help` lists them")
    asked = parser.parse_args()
    try:
        run(find(Path.cwd()), asked.command, asked.arguments)
    except Fault as fault:
        sys.exit(f"weaver: {fault}")


if __name__ == "__main__":
    main()
