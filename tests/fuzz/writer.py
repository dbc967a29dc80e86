"""Writes the lines of a program: tries each on the CPU, names its results, and knows what later lines may build on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

import torch

from tests.fuzz.attempt import attempt
from tests.fuzz.execution import spoiled
from tests.fuzz.program import Statement, key, namespace, tensors

_STREAMS = 3
_MOST_ELEMENTS = 2000
_PLAIN = Statement("")


class Writer:
    """The lines so far, and the variables on the CPU. ``watch`` is called with each line before it is tried."""

    def __init__(self, random: Random, watch: Callable[[str], None]) -> None:
        self.random = random
        self.watch = watch
        self.names = namespace(("cpu", "cpu"), {})
        self.statements: list[Statement] = []
        self.inexact: set[str] = set()
        """The variables whose last bits may differ on the device: nothing may be made of these that jumps."""
        self._has_streams = random.random() < 0.4
        self._count = 0

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """The variables that are tensors."""
        return tensors(self.names)

    def has_gradients(self) -> bool:
        """Whether any tensor requires gradients."""
        return any(tensor.requires_grad for tensor in self.tensors.values())

    def tried(self, code: str, names: Mapping[str, Any] | None = None) -> tuple[Exception | None, Any]:
        """What an expression raises on the CPU, and its value."""
        found = dict(self.names) if names is None else dict(names)
        self.watch(code)
        return attempt(f"result = {code}", found), found.get("result")

    def bind(self, code: str, home: str, *, inexact: bool = False, like: Statement = _PLAIN) -> str:
        """Writes a line that names its result, or each part of it. Returns the last name, if there is one."""
        refused, result = self.tried(code)
        if refused is not None:
            self._count += 1
            self._refused(f"{home}{self._count} = {code}", like)
            return ""
        is_tuple = isinstance(result, list | tuple)
        parts = list(result) if is_tuple and all(isinstance(one, torch.Tensor) for one in result) else [result]
        if not parts or sum(one.numel() for one in parts if isinstance(one, torch.Tensor)) > _MOST_ELEMENTS:
            return ""
        fresh = []
        for part in parts:
            self._count += 1
            fresh.append(f"{home if isinstance(part, torch.Tensor) else 'v'}{self._count}")
        self.names.update(zip(fresh, parts, strict=True))
        is_single = is_tuple and len(parts) == 1 and isinstance(parts[0], torch.Tensor)
        line = f"{', '.join(fresh)} = {code}{'[0]' if is_single else ''}"
        self._add(line, like, inexact)
        return fresh[-1]

    def line(self, code: str, *, inexact: bool = False, like: Statement = _PLAIN) -> None:
        """Writes a line that has no result."""
        self.watch(code)
        if attempt(code, self.names) is None:
            self._add(code, like, inexact)
        else:
            self._refused(code, like)

    def _add(self, code: str, like: Statement, inexact: bool) -> None:
        statement = replace(like, code=code, stream=self._stream(code))
        self.statements.append(statement)
        mentioned = [name for name in statement.names if name in self.tensors]
        if inexact or any(name in self.inexact for name in mentioned):
            storages = {key(self.names[name]) for name in mentioned}
            self.inexact.update(name for name, one in self.tensors.items() if key(one) in storages)

    def _refused(self, code: str, like: Statement) -> None:
        self._add(code, like, inexact=False)
        for name in spoiled(self.statements[-1], self.tensors):
            del self.names[name]

    def _stream(self, code: str) -> int:
        """The stream of a line: the default stream if it involves another device, the host or gradients."""
        names = Statement(code).names
        if not self._has_streams or "d1" in code or any(name[0] != "x" for name in names) or self.has_gradients():
            return 0
        return self.random.randrange(_STREAMS)
