"""Lines that write into existing memory: ``out=``, and in-place methods.

Where a call writes memory that it also reads, PyTorch mostly refuses it, and otherwise leaves the values undefined. A
line stays in a program only if its outcome on the CPU is that of separate memory.
"""

from __future__ import annotations

from random import Random
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from tests.fuzz.arguments import DTYPES, Argument, Drawing
from tests.fuzz.operators import READ_BEFORE, WRITTEN_FIRST, Operator
from tests.fuzz.overlap import is_ordered, is_taken, overlaps
from tests.fuzz.program import Statement
from tests.fuzz.writer import Writer


class Overwriting:
    """Writes such lines."""

    def __init__(self, random: Random, writer: Writer) -> None:
        self.random = random
        self.writer = writer

    def out(self, operator: Operator, drawing: Drawing, arguments: list[Argument]) -> None:
        """A call with ``out=``: mostly of the right shape and dtype, often a view of an existing tensor."""
        code = call(operator.name, arguments)
        refused, result = self.writer.tried(code)
        single = isinstance(result, torch.Tensor)
        results = [result] if single else list(result) if isinstance(result, list | tuple) else []
        if refused is not None or not all(isinstance(one, torch.Tensor) for one in results) or not results:
            self.writer.bind(code, drawing.home, inexact=operator.is_inexact)
            return
        targets = [self._target(drawing, one) for one in results]
        target = targets[0] if single else f"({', '.join(targets)})"
        apart = call(operator.name, [argument.apart for argument in arguments])
        self._write(
            operator, drawing.home, f"{code[:-1]}, out={target})", target, arguments, f"{apart[:-1]}, out={target})"
        )

    def method(self, operator: Operator, home: str, arguments: list[Argument]) -> None:
        """The variant of an operator that overwrites its first argument."""
        name, target, rest = operator.name.lstrip("."), arguments[0].code, arguments[1:]
        code = f"{target}.{name}_({', '.join(argument.text for argument in rest)})"
        self._write(
            operator, home, code, target, rest, f"{target}.{name}_({', '.join(argument.apart for argument in rest)})"
        )

    def in_place(self, operator: Operator, home: str, arguments: list[Argument]) -> None:
        """A call of an operator that has only an in-place form."""
        code, rest = call(operator.name, arguments), arguments[1:]
        apart = call(operator.name, [arguments[0].text, *(argument.apart for argument in rest)])
        self._write(operator, home, code, arguments[0].code, rest, apart)

    def may_convert(self, source: str, target: str) -> bool:
        """Whether the dtype of the target can represent the numbers of the source."""
        refused, pair = self.writer.tried(f"{source}, {target}")
        if refused is not None or not isinstance(pair[1], torch.Tensor | list):
            return True
        if not all(isinstance(one, torch.Tensor | list) for one in pair):
            return True
        sources, targets = (one if isinstance(one, list) else [one] for one in pair)
        is_exact = not any(name in self.writer.inexact for name in Statement(source).names)
        return all(_converts(one, other, is_exact) for one, other in zip(sources, targets, strict=False))

    def _target(self, drawing: Drawing, result: torch.Tensor) -> str:
        shape, choice = tuple(result.shape), self.random.random()
        if choice < 0.1:
            shape = (0,)
        elif choice > 0.97:
            shape = (2, *shape)
        dtype = result.dtype if 0.02 < choice < 0.9 else self.random.choice(DTYPES["float"])
        return drawing.operand(shape, dtype)

    def _write(self, operator: Operator, home: str, code: str, target: str, read: list[Argument], apart: str) -> None:
        """``apart`` is the same line reading copies."""
        if read and "out=" not in code and not self.may_convert(read[0].code, target):
            return
        like = Statement("")
        if self._overlapping(target, [one.code for one in read if one.is_tensor or one.word == "[*]"]):
            may_accept = operator.name.removeprefix("F.") in READ_BEFORE
            like = Statement("", apart=apart, may_refuse=True, may_accept=may_accept)
            self.writer.watch(code)
            # For several outputs, and for sums, PyTorch does not define the order of writes and reads.
            is_unsaid = operator.is_inexact or operator.name in WRITTEN_FIRST
            is_open = "out=(" in code or ("out=" in code and is_unsaid)
            if is_open and is_taken(code, self.writer.names):
                return
            if self.writer.has_gradients() or is_ordered(code, apart, self.writer.names):
                return
        if code.startswith("torch._foreach"):
            self.writer.line(code, inexact=operator.is_inexact, like=like)
        else:
            self.writer.bind(code, home, inexact=operator.is_inexact, like=like)

    def _overlapping(self, target: str, read: list[str]) -> bool:
        refused, values = self.writer.tried(f"[{target}], [{', '.join(read)}]")
        if refused is not None:
            return False
        written, others = (
            [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.layout is torch.strided]
            for value in values
        )
        # A tensor that a list has twice is written twice.
        beside = [[*written[:place], *written[place + 1 :]] for place in range(len(written))]
        return any(overlaps(one, [*others, *rest]) for one, rest in zip(written, beside, strict=True))


def call(name: str, arguments: list[Argument] | list[str]) -> str:
    """The call of an operator."""
    texts = [one.text if isinstance(one, Argument) else one for one in arguments]
    if name.startswith("."):
        return f"{texts[0]}{name}({', '.join(texts[1:])})"
    return f"{'' if name.startswith('F.') else 'torch.'}{name}({', '.join(texts)})"


def takes_out(name: str) -> bool:
    """Whether an operator has a variant with ``out=``."""
    packet = getattr(torch.ops.aten, name, None)
    return packet is not None and hasattr(torch, name) and any("out" in one for one in packet.overloads())


def _converts(source: Any, target: Any, is_exact: bool) -> bool:
    if not isinstance(source, torch.Tensor) or not isinstance(target, torch.Tensor):
        return True
    if target.is_floating_point() or target.is_complex():
        return True
    if source.is_complex():
        return False
    if source.is_floating_point():
        return is_exact and bool(torch.isfinite(source).all()) and bool((source.abs() < 100).all())
    return True
