"""A random program: lines of Python that mean the same on the CPU and on the device.

A program is text, so that it can go to a child process and back, lose any of its lines, and be pasted into a shell.
Names tell where a tensor is: ``x1`` on the first device, ``y1`` on the last, ``h1`` on the host; ``v1`` is not a
tensor.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

NAME = re.compile(r"\b[xyhv]\d+\b")
BOUND = re.compile(r"^((?:[xyhv]\d+, )*[xyhv]\d+) = ")
PREAMBLE = """\
import torch
import torch.nn.functional as F
from contextlib import suppress
from math import inf, nan
d0, d1 = "openreg:0", f"openreg:{torch.accelerator.device_count() - 1}"  # for the values of the CPU: "cpu", "cpu"
"""
DATABASE = """\
from torch.testing._internal.common_methods_invocations import op_db
entries = {entry.full_name: entry for entry in op_db}
"""


@dataclass(frozen=True)
class Statement:
    """One line."""

    code: str
    stream: int = 0
    """Which stream of the first device it runs on; 0 is the default stream."""
    apart: str = ""
    """Of a line that writes where it reads: the same, reading copies. Only where both mean the same is it compared."""
    may_refuse: bool = False
    """Whether the device may refuse it where the CPU does not."""
    may_accept: bool = False
    """Whether the device may compute what ``apart`` does where the CPU refuses ``code``."""

    @property
    def names(self) -> list[str]:
        """The variables that it mentions, each once."""
        return list(dict.fromkeys(NAME.findall(self.code)))

    @property
    def bound(self) -> list[str]:
        """The variables that it binds."""
        match = BOUND.match(self.code)
        return match[1].split(", ") if match else []


@dataclass(frozen=True)
class Program:
    """Some lines, and their origin."""

    origin: str
    statements: tuple[Statement, ...]

    def without(self, begin: int, end: int) -> Program:
        """The program that lacks some of its lines."""
        return replace(self, statements=self.statements[:begin] + self.statements[end:])

    def with_code(self, index: int, code: str) -> Program:
        """The program with one line replaced."""
        changed = replace(self.statements[index], code=code)
        return replace(self, statements=(*self.statements[:index], changed, *self.statements[index + 1 :]))

    def on_one_stream(self) -> Program:
        """The program with all of its lines on the default stream."""
        return replace(self, statements=tuple(replace(statement, stream=0) for statement in self.statements))

    def dump(self) -> str:
        """One line of JSON."""
        return json.dumps([self.origin, [asdict(statement) for statement in self.statements]])

    @staticmethod
    def load(text: str) -> Program:
        """The program that ``dump`` wrote."""
        origin, statements = json.loads(text)
        return Program(origin, tuple(Statement(**statement) for statement in statements))


def first_and_last_device() -> tuple[str, str]:
    """What ``d0`` and ``d1`` are on the device; the same where the machine has one. This starts the driver."""
    return "openreg:0", f"openreg:{torch.accelerator.device_count() - 1}"


def namespace(devices: tuple[str, str], entries: Mapping[str, Any]) -> dict[str, Any]:
    """The names that the lines of a program can use; ``entries`` are those of the operator database."""
    return {
        "torch": torch,
        "F": torch.nn.functional,
        "inf": math.inf,
        "nan": math.nan,
        "d0": devices[0],
        "d1": devices[1],
        "entries": entries,
    }


def tensors(names: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """The variables that are tensors."""
    return {name: value for name, value in names.items() if isinstance(value, torch.Tensor) and NAME.fullmatch(name)}


def copied(names: Mapping[str, Any]) -> dict[str, Any]:
    """The same variables with copied memory, which they share among themselves as the originals do."""
    storages: dict[int, torch.UntypedStorage] = {}
    copies = dict(names)
    for name, tensor in tensors(names).items():
        storage = storages.setdefault(key(tensor), tensor.untyped_storage().clone())
        place = tensor.storage_offset(), tensor.size(), tensor.stride()
        copy = torch.empty(0, dtype=tensor.dtype).set_(storage, *place)
        copy = copy.conj() if tensor.is_conj() else copy
        copies[name] = torch._neg_view(copy) if tensor.is_neg() else copy
    return copies


def key(tensor: torch.Tensor) -> int:
    """A key that is the same for all tensors that share one storage."""
    return int(tensor.untyped_storage()._cdata)
