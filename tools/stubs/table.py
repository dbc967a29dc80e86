"""Makes the table from the results of both passes and the symbols of PyTorch's libraries."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from stubs.declared import declared
from stubs.operators import reader_of, readers

TORCH = Path(torch.__file__).parent
_SYMBOL = re.compile(r" (_ZN2at6native12DispatchStub\w+_DECLARE_DISPATCH_typeEE7DEFAULTE)$", re.MULTILINE)
_TYPE = "_DECLARE_DISPATCH_type"


@dataclass
class Row:
    """What is known about one stub."""

    header: str
    name: str
    exported: bool
    cpu_kernel: bool
    readers: list[dict[str, object]] = field(default_factory=list)


def table(seen: Path, device: Path) -> list[dict[str, object]]:
    """A row for each declaration."""
    library = TORCH / "lib" / "libtorch_cpu.so"
    loaded = ctypes.CDLL(str(library))
    symbols = subprocess.run(["nm", "-D", str(library)], capture_output=True, text=True, check=True).stdout
    # A stub's DEFAULT pointer, for any processor, is null if PyTorch has no CPU kernel for it.
    implemented = {
        _stub_of(symbol)
        for symbol in _SYMBOL.findall(symbols)
        if ctypes.c_void_p.in_dll(loaded, symbol).value is not None
    }
    on_cpu = {(name, stub) for name, stub, _ in json.loads(seen.read_text(encoding="utf-8")) if stub}
    on_device = set()
    for line in device.read_text(encoding="utf-8").splitlines():
        name, end = json.JSONDecoder().raw_decode(line)
        on_device |= {(name, stub) for stub in json.loads(line[end:])}
    known = {reader.name: reader for reader in readers().values()}
    rows = []
    for stub in declared(TORCH / "include"):
        row = Row(
            stub.header,
            stub.name,
            stub.address(loaded) is not None,
            stub.name.rpartition("::")[2] in implemented,
        )
        for name in sorted(name for name, read in on_cpu | on_device if read == stub.name):
            reader, pair = known.get(name) or reader_of({}, name), (name, stub.name)
            row.readers.append(
                {
                    "operator": name,
                    "kind": reader.kind,
                    "kernel": reader.kernel,
                    "cpu": pair in on_cpu,
                    "device": pair in on_device,
                }
            )
        rows.append(asdict(row))
    return rows


def _stub_of(symbol: str) -> str:
    """The name of the stub in the symbol of its pointer; in symbols, a name follows its length."""
    until = symbol.removesuffix("EE7DEFAULTE")
    lengths = re.finditer(r"\d+", until)
    return next(until[found.end() :] for found in lengths if int(found[0]) == len(until) - found.end()).removesuffix(
        _TYPE
    )
