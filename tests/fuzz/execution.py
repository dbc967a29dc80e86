"""Runs a program on the CPU and on the device, line by line, and reports where they differ.

The rule: the device accepts what the CPU accepts and refuses what the CPU refuses, by that call or at the next wait,
and in the end all variables are equal. Nothing waits for the device in between, unless a line reads from it or is
refused: queued work is part of the test.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from tests.fuzz.attempt import attempt
from tests.fuzz.comparison import NoiseOf, difference
from tests.fuzz.known import is_known
from tests.fuzz.ordering import Ordering
from tests.fuzz.overlap import is_ordered
from tests.fuzz.program import Program, Statement, copied, first_and_last_device, key, namespace, tensors

_DEVICES = {"x": "d0", "y": "d1"}  # by the first letter of a name; other tensors are the CPU's
WAIT = "torch.accelerator.synchronize(d0)\ntorch.accelerator.synchronize(d1)"
Watch = Callable[[str, int], None]


@dataclass(frozen=True)
class Finding:
    """How the device differs from the CPU. Two findings of one kind are treated as the same defect."""

    kind: str
    detail: str
    index: int = -1
    """The line of the program; -1 where only the end shows it."""


class _NotingEmpty(TorchFunctionMode):
    """Notes whether a call is given a tensor without elements.

    Then no loop checks the dtype or a number, and whether the call returns depends on how far the kernel gets.
    """

    def __init__(self) -> None:
        super().__init__()
        self.has_empty = False

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        leaves = tree_leaves((args, kwargs))
        self.has_empty |= any(isinstance(leaf, torch.Tensor) and not leaf.numel() for leaf in leaves)
        return function(*args, **(kwargs or {}))


def spoiled(statement: Statement, known: Mapping[str, torch.Tensor]) -> list[str]:
    """The variables that a refused line may have partly written, and all that share memory with them."""
    if "_(" not in statement.code and "out=" not in statement.code:
        return []
    storages = {key(known[name]) for name in statement.names if name in known}
    return [name for name, tensor in known.items() if key(tensor) in storages]


class Execution:
    """One run of a program on both sides.

    ``watch`` is called with the side and the number of each line before it runs, ``say_line`` with the code that then
    runs on the device, ready to be pasted.
    """

    def __init__(
        self,
        program: Program,
        entries: Mapping[str, Any],
        watch: Watch = lambda *_: None,
        say_line: Callable[[str], object] = lambda _: None,
    ) -> None:
        self.program = program
        self.watch = watch
        self.say_line = say_line
        self.host = namespace(("cpu", "cpu"), entries)
        self.device = namespace(first_and_last_device(), entries)
        self._ordering = Ordering()
        self._noise = NoiseOf()
        # A gradient may be an expanded number; whether it still is when it comes back depends on the copies on its way.
        self._has_gradients = any("requires_grad" in statement.code for statement in program.statements)
        self._random: set[str] = set()  # variables with random values

    def run(self) -> Finding | None:
        """Returns what is wrong, if anything."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for index, statement in enumerate(self.program.statements):
                finding = self._step(index, statement)
                if finding is not None:
                    return finding
            return self._end()

    def _step(self, index: int, statement: Statement) -> Finding | None:
        if statement.apart and is_ordered(statement.code, statement.apart, self.host):
            return None  # The program has lost a line without which this one means nothing.
        before = {key(tensor) for tensor in tensors(self.host).values()}
        failed = self._device_lines(self._ordering.before(statement, tensors(self.host)))
        if failed is not None:
            return Finding(_raises(failed), f"before the line: {_summary(failed)}", index)
        refused, failed, may_accept = self._attempts(index, statement)
        if refused is None and failed is None:
            failed = self._device_lines(self._ordering.after(statement, tensors(self.host)))
            self._noise.spread(statement.names, tensors(self.host))
            self._ordering.forget(before - {key(tensor) for tensor in tensors(self.host).values()})
            return Finding(_raises(failed), f"after the line: {_summary(failed)}", index) if failed else None
        finding = None
        if refused is None and not statement.may_refuse:
            finding = Finding(_raises(failed), _summary(failed), index)
        elif failed is None and not may_accept:
            finding = Finding("the device accepts what the CPU refuses", _summary(refused), index)
        if finding is not None and not is_known(finding.kind, statement.code, finding.detail):
            return finding
        self._drop(statement)
        return None

    def _attempts(self, index: int, statement: Statement) -> tuple[Exception | None, Exception | None, bool]:
        """What a line raises on the CPU and on the device, and whether the device may accept what the CPU refuses."""
        self.watch("cpu", index)
        separate = copied(self.host) if statement.may_accept else None
        state = torch.get_rng_state()
        with _NotingEmpty() as noting:
            refused = attempt(statement.code, self.host)
        if not torch.equal(state, torch.get_rng_state()):
            self._random.update(statement.bound)
        self.watch("openreg", index)
        code = f"with s{statement.stream}: {statement.code}" if statement.stream else statement.code
        comment = f"  # the CPU raises {_summary(refused)}" if refused else ""
        self.say_line(f"with suppress(Exception): {code}{comment}" if refused or statement.may_refuse else code)
        failed = attempt(code, self.device)
        if failed is None and (refused is not None or statement.may_refuse):
            failed = attempt(WAIT, self.device)
        if refused is not None and failed is None and separate is not None:
            self.host = separate
            refused = attempt(_like(statement), self.host)
        return refused, failed, noting.has_empty

    def _device_lines(self, lines: list[str]) -> Exception | None:
        for line in lines:
            self.say_line(line)
            if (failed := attempt(line, self.device)) is not None:
                return failed
        return None

    def _drop(self, statement: Statement) -> None:
        attempt(WAIT, self.device)
        names = spoiled(statement, tensors(self.host))
        self._ordering.forget({key(self.host[name]) for name in names})
        for name in {*names, *statement.bound}:
            self.host.pop(name, None)
            self.device.pop(name, None)

    def _end(self) -> Finding | None:
        self.watch("openreg", len(self.program.statements))
        failed = attempt(WAIT, self.device)
        if failed is not None:
            return Finding(_raises(failed), f"in the end: {_summary(failed)}")
        for name in _variables(self.program.statements):
            if name not in self.host:
                continue
            wrong = self._compare(name)
            if wrong is not None:
                return wrong
        return None

    def _compare(self, name: str) -> Finding | None:
        expected, actual = self.host[name], self.device.get(name)
        pairs = [(name, expected, actual)]
        if isinstance(actual, torch.Tensor):
            place = str(self.device.get(_DEVICES.get(name[0], ""), "cpu"))
            if str(actual.device) != place:
                return Finding("another device", f"{name}: {actual.device} instead of {place}")
        try:
            if isinstance(expected, torch.Tensor) and expected.is_leaf and isinstance(actual, torch.Tensor):
                pairs.append((f"{name}.grad", expected.grad, actual.grad))
        except RuntimeError:
            return None  # One of several views whose base was changed: autograd forbids access to it.
        for what, one, other in pairs:
            try:
                wrong = difference(
                    one, other, self._noise.of(name), values=name not in self._random, strides=not self._has_gradients
                )
            except Exception as error:
                return Finding(_raises(error), f"when {what} is read: {_summary(error)}")
            if wrong is None:
                continue
            kind = wrong.split()[0] if wrong.startswith(("shape", "dtype", "stride", "requires_grad")) else "value"
            finding = Finding(f"another {kind}", f"{what}: {wrong}")
            if not is_known(finding.kind, self._binding(name), finding.detail):
                self.say_line(f"print({what})  # {wrong}")
                return finding
        return None

    def _binding(self, name: str) -> str:
        return next(statement.code for statement in self.program.statements if name in statement.bound)


def _like(statement: Statement) -> str:
    return f"{', '.join(statement.bound)} = {statement.apart}" if statement.bound else statement.apart


def _variables(statements: Iterable[Statement]) -> list[str]:
    return list(dict.fromkeys(name for statement in statements for name in statement.bound))


def _raises(error: Exception | None) -> str:
    return f"the device raises {type(error).__name__}"


def _summary(error: Exception | None) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:160]
