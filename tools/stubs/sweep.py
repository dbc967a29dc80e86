"""Runs samples and records which stubs are read, in a process that the command starts (``__init__.py``).

    python sweep.py cpu RESULT          all samples on the CPU
    python sweep.py device SEEN RESULT  on the device, for each operator some samples that have made it run on the CPU
    python sweep.py table SEEN DEVICE RESULT

Requires: the library built from probe.cpp is preloaded. The second pass registers the CPU kernel of one operator at a
time for the device, if CUDA shares it: the stubs that it reads then, it reads for every device that registers it.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

import torch
from torch.utils._pytree import tree_map

from stubs.declared import declared
from stubs.operators import COMPOSITE, NATIVE_FUNCTION, STRUCTURED, Reader, reader_of, readers
from stubs.samples import Unit, taken, units
from stubs.table import table

TORCH = Path(torch.__file__).parent
CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
TRIES = 16  # samples that make the same operator read the same stub, from different units
OF_ENTRY = 2  # at most this many of them from one entry of the database
AT_LEAST = 4  # samples of each operator to run on the device, even if all expected reads have been found


class Probe:
    """Reads the records of probe.cpp."""

    def __init__(self) -> None:
        library = ctypes.CDLL(str(TORCH / "lib" / "libtorch_cpu.so"))
        self._names = {str(stub.address(library)): stub.name for stub in declared(TORCH / "include")}
        path = os.environ["LD_PRELOAD"]
        try:
            self._probe = ctypes.CDLL(path, mode=os.RTLD_NOW | os.RTLD_NOLOAD)
        except OSError:  # ld.so only warns, and then no read would be recorded
            sys.exit(f"{path} was not preloaded; use a clone and an environment without colons in their paths")
        self._probe.stub_probe_take.restype = ctypes.c_char_p
        self._probe.stub_probe_start()

    def take(self) -> list[list[str]]:
        """The records since the last call: operators, and reads as operator, device type and stub."""
        lines = [line.split() for line in self._probe.stub_probe_take().decode().splitlines()]
        return [line[:2] + [self._names.get(stub, "") for stub in line[2:]] for line in lines if line]


def on_cpu(result: Path) -> None:
    """Records, for each operator, the samples that made it run, and those that made it read a stub."""
    probe, known = Probe(), readers()
    found: dict[tuple[str, str], list[tuple[int, int]]] = {}
    entries = [(unit.dtype is None, unit.entry) for unit in units()]
    for number, unit in enumerate(units()):
        for index, sample in enumerate(unit.samples()):
            probe.take()
            taken(sample, "cpu")
            for operator, *read in probe.take():
                stub = read[1] if read else ""
                samples = found.setdefault((reader_of(known, operator).name, stub), [])
                if len(samples) < TRIES and _is_new(samples, number, entries):
                    samples.append((number, index))
        if number % 1000 == 0:
            print(f"{number} units on the CPU", file=sys.stderr, flush=True)
    result.write_text(json.dumps([[*key, samples] for key, samples in found.items()]), encoding="utf-8")


def _is_new(samples: list[tuple[int, int]], unit: int, entries: list[tuple[bool, int]]) -> bool:
    of_entry = [other for other, _ in samples if entries[other] == entries[unit]]
    return len(of_entry) < OF_ENTRY and unit not in of_entry


def on_device(seen: Path, result: Path) -> None:
    """Writes the stubs that each operator reads for the device, one line per operator."""
    probe, known, numbered = Probe(), readers(), list(units())
    by_name = {reader.name: reader for reader in known.values()}
    samples: dict[str, dict[tuple[int, ...], None]] = {}
    expected: dict[str, set[str]] = {}
    for name, stub, of_pair in json.loads(seen.read_text(encoding="utf-8")):
        expected.setdefault(name, set()).update([stub] if stub else [])
        samples.setdefault(name, {}).update(dict.fromkeys(map(tuple, of_pair)))
    done = len(result.read_text(encoding="utf-8").splitlines()) if result.is_file() else 0
    for name in list(samples)[done:]:
        reader = by_name.get(name)
        reads: set[str] = set()
        if reader is not None and reader.kind in (STRUCTURED, NATIVE_FUNCTION, COMPOSITE):
            # If the process crashes, its parent completes the line.
            _append(result, json.dumps(name))
            with registered(reader):
                for i, (unit, index) in enumerate(samples[name]):
                    if i >= AT_LEAST and reads >= expected[name]:
                        break
                    reads |= _reads(probe, numbered[unit], index, reader)
            _append(result, " " + json.dumps(sorted(reads)) + "\n")
        else:
            _append(result, json.dumps(name) + " []\n")


def write_table(seen: Path, device: Path, result: Path) -> None:
    """Combines the results of both passes."""
    result.write_text(json.dumps(table(seen, device)), encoding="utf-8")


def _append(file: Path, text: str) -> None:
    with file.open("a", encoding="utf-8") as stream:
        stream.write(text)


def _reads(probe: Probe, unit: Unit, index: int, reader: Reader) -> set[str]:
    """The stubs that an operator reads for the device when a sample is run there."""
    sample = next(islice(unit.samples(), index, None))
    probe.take()
    taken(sample, "openreg")
    return {
        read[1]
        for operator, *read in probe.take()
        if read and read[0] != "cpu" and operator.removeprefix("aten::") in reader.overloads
    }


@contextmanager
def registered(reader: Reader) -> Iterator[None]:
    """Registers PyTorch's kernel of an operator for the device."""
    with ExitStack() as stack:
        library = stack.enter_context(torch.library._scoped_library("aten", "IMPL"))
        for overload in reader.overloads:
            # A composite operator needs no registration, unless the backend has one, which would take precedence.
            own = torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{overload}", "PrivateUse1")
            if own or reader.kind != COMPOSITE:
                out = _overload(reader.name) if overload == reader.functional else None
                library.impl(overload, _kernel(_overload(overload), out), "PrivateUse1")
        yield


def _overload(name: str) -> torch._ops.OpOverload:
    packet, _, overload = name.partition(".")
    found = getattr(getattr(torch.ops.aten, packet), overload or "default")
    assert isinstance(found, torch._ops.OpOverload)
    return found


def _kernel(operator: torch._ops.OpOverload, out: torch._ops.OpOverload | None) -> Any:
    def as_on_cpu(*args: Any, **kwargs: Any) -> Any:
        return operator.redispatch(CPU, *args, **kwargs)

    def into_results(*args: Any, **kwargs: Any) -> Any:
        # The CPU kernel would allocate on the CPU. So the results are allocated on the device, like those of the CPU.
        there = operator(*tree_map(_to_cpu, args), **tree_map(_to_cpu, kwargs))
        single = isinstance(there, torch.Tensor)
        results = [torch.empty_like(each, device="openreg") for each in ([there] if single else there)]
        names = [argument.name for argument in out._schema.arguments if argument.is_out] if out else []
        return out(*args, **kwargs, **dict(zip(names, results, strict=True))) if out else None

    return into_results if out else as_on_cpu


def _to_cpu(value: Any) -> Any:
    return value.cpu() if isinstance(value, torch.Tensor) else value


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    kind, *files = sys.argv[1:]
    {"cpu": on_cpu, "device": on_device, "table": write_table}[kind](*map(Path, files))
