"""Runs PyTorch's operator database in float32 on the backend, against the CPU, and prints a table of what fails.

    python opinfo.py [SAMPLES]

Forward and backward of each entry are one unit each; the comparison is that of the conformance kit, which must be
installed or on PYTHONPATH. SAMPLES is how many samples of an entry are compared, 3 by default. A unit of which the CPU
supports no sample compares nothing, and does not count.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import sys
import warnings
from collections.abc import Iterator
from datetime import date

import torch

torch_remote = importlib.import_module("torch_remote")

DTYPE = torch.float32


def units(samples: int) -> Iterator[tuple[str, str, int, BaseException | None]]:
    """Runs each entry in each mode that it has, and yields how many samples were equal, and the error of the next."""
    kit = importlib.import_module("accelerator_conformance.samples")
    entries = importlib.import_module("torch.testing._internal.common_methods_invocations").op_db
    for entry in entries:
        made = entry.sample_inputs_func
        entry.sample_inputs_func = lambda *a, made=made, **k: itertools.islice(made(*a, **k), samples)
        for mode in ("forward", "backward"):
            if DTYPE in kit.dtypes(entry, mode):
                torch.manual_seed(0)
                comparison = kit.Comparison(entry, "remote", DTYPE)
                try:
                    comparison.run(mode)
                    torch.remote.synchronize()
                    yield entry.formatted_name, mode, comparison.compared, None
                except Exception as error:
                    if isinstance(error, torch.remote.DeviceDied):
                        torch.remote.reset(0)
                    yield entry.formatted_name, mode, comparison.compared, error


def why(error: BaseException) -> str:
    """The root cause of an error, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split())[:160]


def main(samples: int = 3) -> int:
    """Prints the table. Returns the exit status: 0 if at least 99.5 % of the units with a comparison pass."""
    torch_remote.register()
    warnings.simplefilter("ignore")
    found = list(units(samples))
    failed = [(name, mode, error) for name, mode, _, error in found if error is not None]
    passed = sum(compared > 0 and error is None for _, _, compared, error in found)
    asked = len(failed) + passed
    share = passed / asked if asked else 0.0
    print(f"Made by `python opinfo.py {samples}` on {date.today()}, with PyTorch {torch.__version__}, layouts")
    print(f"{'asked' if torch_remote.calls.ALWAYS_ASK else 'foreseen'}.\n")
    print(
        f"{passed} of {asked} units pass: {share:.2%}",
        f"\n{len(found) - asked} more units have nothing to compare: the CPU supports none of their samples.",
        "\n| entry | mode | why |\n| --- | --- | --- |",
        sep="\n",
    )
    for name, mode, error in failed:
        print(f"| {name} | {mode} | {type(error).__name__}: {why(error)} |")
    return 0 if share >= 0.995 else 1


def number(text: str) -> int:
    """A number of samples. Throws: ``ArgumentTypeError`` if nothing would be compared."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"how many samples of an entry to compare is a number from 1, got {text!r}")
    return int(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("samples", metavar="SAMPLES", nargs="?", type=number, default=3)
    chosen = parser.parse_args().samples
    if importlib.util.find_spec("accelerator_conformance") is None:
        sys.exit("opinfo.py needs the conformance kit, in a clone of the guide: pip install ../../conformance")
    sys.exit(main(chosen))
