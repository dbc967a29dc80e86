"""Which stubs this backend fills in the running process, beside which of them PyTorch reads.

python examples/stubs_table.py            totals, and where the two differ
python examples/stubs_table.py abs_stub   who reads one stub
"""

from __future__ import annotations

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import torch

STUBS: list[dict[str, Any]] = json.loads(Path("docs", "proof", "stubs.json").read_text(encoding="utf-8"))["stubs"]
LIBRARY = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))


class Slots(ctypes.Structure):
    """The members of a stub: DispatchStubImpl in ATen/native/DispatchStub.h."""

    _fields_ = [
        (name, ctypes.c_void_p)
        for name in ("cpu", "cuda", "hip", "mps", "mtia", "xpu", "hpu", "privateuse1")
        if name != "xpu" or torch.xpu._is_compiled()
    ]


def is_filled(name: str) -> bool:
    """Whether a stub has a kernel for the device. A mangled C++ name has the length of each part."""
    parts = ["at", "native", *name.split("::")]
    symbol = f"_ZN{''.join(f'{len(part)}{part}' for part in parts)}E"
    return Slots.in_dll(LIBRARY, symbol).privateuse1 is not None


def main() -> None:
    """Prints the totals, or what is known of one stub."""
    if len(sys.argv) > 1:
        for stub in STUBS:
            if stub["name"] == sys.argv[1]:
                for reader in stub["readers"]:
                    print(f"{reader['operator']}: {reader['kind']}, {'reached' if reader['device'] else 'CPU alone'}")
        return
    filled = {stub["name"] for stub in STUBS if stub["exported"] and is_filled(stub["name"])}
    reachable = {stub["name"] for stub in STUBS if any(reader["device"] for reader in stub["readers"])}
    print(f"{len(STUBS)} declared, {len(reachable)} reachable, {len(filled)} filled")
    print("filled, and read by nothing that was run:", *(sorted(filled - reachable) or ["none"]))


if __name__ == "__main__":
    main()
