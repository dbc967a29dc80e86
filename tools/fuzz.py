"""``make fuzz``: runs random programs on the CPU and on the device, in every launch mode, until they differ.

A difference is printed as the shortest program that still shows it. ``--seed S --program N --mode M`` repeats one
program, ``--seed S --programs N`` runs the first N of a seed, always the same ones. A run of an hour writes
docs/proof/fuzz.json, with its date: no change of a source makes this result stale, since it says what was tried and
when, and another hour tries something else.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from driver import result
from environment import Fault
from prerequisites import installed_torch

if TYPE_CHECKING:
    from tests.fuzz.session import Session

KEPT = Path("docs", "proof", "fuzz.json")
LATEST = Path("build", "fuzz.json")
HOUR = 3600


def main(arguments: list[str]) -> None:
    """Runs programs. Throws: ``Fault``, if the device differs from the CPU."""
    options = parse(arguments)
    session = _session(options)
    begun = time.monotonic()
    if options.program is None:
        session.run(options.seconds, options.programs)
    else:
        for mode in session.modes:
            session.batch(mode, options.program, options.program + 1)
    seconds = time.monotonic() - begun
    if not session.programs and not session.found:
        died = len(session.deaths_on_the_cpu)
        why = f"{died} ended on the CPU" if died else "try longer, with more --seconds"
        raise Fault(f"make fuzz: no program ran to its end in {seconds:.1f} s, so nothing was compared: {why}")
    written = result(KEPT) if options.seconds >= HOUR else LATEST
    _write(written, session, seconds)
    summary = (
        f"{session.programs} programs, {session.statements} statements, {seconds:.0f} s, seed {session.seed}, "
        f"modes {', '.join(session.modes)}; the result is {written}"
    )
    if session.found:
        raise Fault(f"make fuzz: {len(session.found)} found, see above: {summary}")
    print(f"make fuzz: nothing found: {summary}")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parses the command line. Throws: ``Fault``, if nothing would be tried."""
    parser = argparse.ArgumentParser(
        prog="make fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--seconds", type=float, default=180, help="how long to try (180)")
    length.add_argument("--programs", type=int, metavar="N", help="how many to try, however long it takes")
    parser.add_argument("--seed", type=int, help="where to begin: the same seed gives the same programs (the time)")
    length.add_argument("--program", type=int, metavar="N", help="this program alone")
    parser.add_argument("--mode", choices=("auto", "async", "inline"), help="this launch mode alone")
    options = parser.parse_args(arguments)
    if options.programs is not None and options.programs < 1:
        raise Fault(f"make fuzz: --programs is how many to try, at least 1; got {options.programs}")
    if not options.seconds > 0:  # also of nan
        raise Fault(f"make fuzz: --seconds is how long to try, more than 0; got {options.seconds:g}")
    return options


def _session(options: argparse.Namespace) -> Session:
    # On import, PyTorch's framework asks whether there is a device. That would start the driver in this process, whose
    # children could then not use it. So the backend is imported last.
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    from torch.testing._internal.common_methods_invocations import op_db

    import torch_openreg  # noqa: F401 - imported for its registrations
    from tests.fuzz.isolation import MODES
    from tests.fuzz.session import Session

    def say(line: str) -> None:
        print(line)
        sys.stdout.flush()

    modes = (options.mode,) if options.mode else MODES
    seed = int(time.time()) if options.seed is None else options.seed
    return Session(seed, {entry.full_name: entry for entry in op_db}, modes, say=say)


def _write(file: Path, session: Session, seconds: float) -> None:
    found = {
        "date": str(date.today()),
        "PyTorch": str(installed_torch()),
        "seed": session.seed,
        "seconds": round(seconds),
        "programs": dict(session.by_mode),
        "statements": session.statements,
        "found": [found.text() for found in session.found],
        "ended on the CPU": session.deaths_on_the_cpu,
    }
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
