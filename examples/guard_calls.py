"""Runs statements and says which functions of the device guard PyTorch called for each (both: guard_calls.cpp).

    python examples/guard_calls.py 'x = torch.ones(2, device="openreg")' 'stream = torch.Stream("openreg")'

Only the functions that concern streams and events. Statements see the names of those before them.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from pathlib import Path

import torch
from operators_stub_alone import compiled  # type: ignore[import-not-found]


def main() -> None:
    """Takes the place of the backend's guard, then runs the statements of the command line."""
    with tempfile.TemporaryDirectory() as folder:
        library = ctypes.CDLL(str(compiled(Path(__file__).with_suffix(".cpp"), Path(folder))))
    library.take_notes.restype = ctypes.c_char_p
    torch.ones(1, device="openreg", requires_grad=True).sum().backward()  # starts the devices and autograd's threads
    library.start_noting()
    names: dict[str, object] = {"torch": torch}
    for statement in sys.argv[1:]:
        exec(statement, names)
        print(f"{statement}\n    {library.take_notes().decode() or 'none'}", flush=True)


if __name__ == "__main__":
    main()
