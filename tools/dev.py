"""The commands of the Makefile: each prepares the environment, builds the extension, does its work and reports it.

Usage: python tools/dev.py [--driver FOLDER] [--host-kernels ON|OFF] COMMAND [ARGUMENT ...]; the arguments are passed to
the program behind the command.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent))
# Last, so that no folder of the repository hides an installed package.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from prerequisites import MACHINE_FAULTS, first_fault

if TYPE_CHECKING:
    from command import Command


def _options() -> argparse.Namespace:
    """The options before the command, the command, and all that follows it, unparsed."""
    parser = argparse.ArgumentParser(prog="tools/dev.py", add_help=False, allow_abbrev=False)
    # Empty means the default: the Makefile passes its variables even if they are empty.
    parser.add_argument("--driver", default="")
    parser.add_argument("--host-kernels", default="")
    parser.add_argument("-h", "--help", action="store_true")
    parser.add_argument("command", nargs="?", default="")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    return parser.parse_args()


def _usage(commands: Mapping[str, Command]) -> str:
    """How to call this program, and what each command does."""
    described = ((name, (command.run.__doc__ or "").partition("\n")[0]) for name, command in commands.items())
    return "\n".join(
        [
            "usage: tools/dev.py [--driver FOLDER] [--host-kernels ON|OFF] COMMAND [ARGUMENT ...]",
            "\ncommands:",
            *(f"  {name:<{max(map(len, commands))}}  {what}" for name, what in described),
        ]
    )


def main() -> None:
    """Runs one command; if it is stopped by a fault, prints one line on stderr and exits with status 1."""
    fault = first_fault(MACHINE_FAULTS)
    if fault is not None:
        sys.exit(f"torch_openreg: {fault}")
    # Imported late: these modules need the Python version that was just checked.
    from commands import COMMANDS
    from driver import choose
    from environment import ROOT, Fault, chosen_interpreter

    options = _options()
    name = options.command
    if options.help:
        print(_usage(COMMANDS))
        return
    if not name:
        sys.exit(f"{_usage(COMMANDS)}\n\ntools/dev.py: expected a COMMAND, got none; name one of those above")
    if name not in COMMANDS:
        sys.exit(f"tools/dev.py: {name!r} is none of {', '.join(COMMANDS)}")
    try:
        COMMANDS[name].check(name, options.arguments)
        choose(options.driver, options.host_kernels)
        interpreter = chosen_interpreter()
        if interpreter != Path(sys.executable):
            os.environ["VIRTUAL_ENV"] = str(interpreter.parent.parent)
            os.execv(interpreter, [str(interpreter), __file__, name, *options.arguments])
        os.chdir(ROOT)
        # As in an active environment: its cmake, ninja and clang-format come first.
        os.environ["PATH"] = os.pathsep.join([str(interpreter.parent), os.environ["PATH"]])
        COMMANDS[name].prepare(name)
        COMMANDS[name].run(options.arguments)
    except Fault as error:
        sys.exit(f"torch_openreg: {error}")
    except OSError as error:
        # Of another user, or on a medium that is read-only. A file elsewhere is another matter.
        is_refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        if not (is_refused and error.filename and Path(ROOT, error.filename).is_relative_to(ROOT)):
            raise
        clone = "make writes into its clone: use a clone of your own"
        sys.exit(f"torch_openreg: {error.filename}: {error.strerror}; {clone}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
