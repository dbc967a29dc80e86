"""The commands of the Makefile: each prepares the environment, builds the extension, does its work and says so.

Usage: python tools/dev.py COMMAND [ARGUMENT ...]; the arguments go to the program behind the command.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
# Last, so that no folder of the repository hides an installed package.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from prerequisites import MACHINE_FAULTS, first_fault


def main() -> None:
    """Runs one command; whatever stops it is one line on stderr and status 1."""
    fault = first_fault(MACHINE_FAULTS)
    if fault is not None:
        sys.exit(f"torch_openreg: {fault}")
    # Not before: these modules need the Python that the checks have just found.
    from commands import COMMANDS
    from environment import ROOT, Fault, chosen_interpreter

    name, *arguments = sys.argv[1:] or ["without a command"]
    if name not in COMMANDS:
        sys.exit(f"tools/dev.py: {name!r} is none of {', '.join(COMMANDS)}")
    os.chdir(ROOT)
    try:
        interpreter = chosen_interpreter()
        if interpreter != Path(sys.executable):
            os.environ["VIRTUAL_ENV"] = str(interpreter.parent.parent)
            os.execv(interpreter, [str(interpreter), __file__, *sys.argv[1:]])
        # As where the environment is active: its cmake, ninja and clang-format come first.
        os.environ["PATH"] = os.pathsep.join([str(interpreter.parent), os.environ["PATH"]])
        COMMANDS[name].prepare()
        COMMANDS[name].run(arguments)
    except Fault as error:
        sys.exit(f"torch_openreg: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
