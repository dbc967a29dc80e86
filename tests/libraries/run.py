"""Runs the programs of one library and prints their outcomes as JSON: `python -m tests.libraries.run peft`."""

from __future__ import annotations

import json
import sys
import warnings
from typing import Any

from tests.libraries.catalog import PROGRAMS, installed
from tests.libraries.programs import DEVICE, Program, compare


def outcome(program: Program) -> dict[str, Any]:
    """What a row of the table says of a program; ``fault`` is empty if all is as the program says."""
    row = {"library": program.library, "version": installed(program.library), "program": program.name}
    try:
        found = compare(program)
    except Exception as error:
        return {**row, "fault": f"{type(error).__name__}: {error}"}
    fault = ""
    if found.where != DEVICE:
        fault = f"it computes on {found.where}"
    elif not found.difference <= program.bound:  # a NaN is beyond any bound
        fault = f"it differs from the CPU by {found.difference:.1e}, and {program.bound:.0e} is allowed"
    elif program.without not in found.without:
        fault = f"without the integration: {found.without}, and {program.without} is expected"
    return {
        **row,
        "without": found.without,
        "must": program.must,
        "difference": float(f"{found.difference:.0e}"),
        "seconds": round(found.seconds, 2),
        "fault": fault,
    }


def main() -> None:
    """Prints a line for each program, behind what the libraries print."""
    warnings.simplefilter("ignore")
    rows = [outcome(program) for program in PROGRAMS if program.library == sys.argv[1]]
    print("\n" + json.dumps(rows))


if __name__ == "__main__":
    main()
