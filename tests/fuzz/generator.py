"""Writes random programs. Each line is tried on the CPU when it is written, so that the next can build on its result.

The choices depend on the seed and on what the CPU computes, which is the same each time: a seed identifies a program.
Hypothesis can draw and shrink programs, too. But it shrinks in the process that failed, which may no longer exist here;
the grammar and the child processes would still be needed, and removing lines one by one (tests/fuzz/minimize.py) takes
less code than a strategy for each kind of line. The lines are text, which can run again in any process.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from random import Random

import torch

from tests.fuzz.arguments import Argument, Drawing
from tests.fuzz.operators import IN_PLACE, OPERATORS, Operator
from tests.fuzz.overwriting import Overwriting, call, takes_out
from tests.fuzz.program import Program
from tests.fuzz.views import drawn
from tests.fuzz.writer import Writer

_LENGTHS = (4, 8, 12, 20, 30)
_MISTAKEN = 0.25
_ANY = Operator("", (), "any")


class Generator:
    """Writes one program."""

    def __init__(self, seed: int, number: int, watch: Callable[[str], None] = lambda _: None) -> None:
        self.random = Random(f"{seed} {number}")
        self.origin = f"seed {seed}, program {number}"
        self.writer = Writer(self.random, watch)
        self.overwriting = Overwriting(self.random, self.writer)
        self.has_gradients = self.random.random() < 0.3
        self.kinds: list[tuple[Callable[[], object], int]] = [
            (self._tensor, 3),
            (self._view, 3),
            (self._call, 12),
            (self._in_place, 4),
            (self._move, 2),
            (self._reshape, 1),
            (self._read, 1),
            (self._delete, 1),
            (self._backward, 3 if self.has_gradients else 0),
        ]

    def program(self) -> Program:
        """The whole program."""
        length = self.random.choice(_LENGTHS)
        kinds, weights = zip(*self.kinds, strict=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._tensor()
            while len(self.writer.statements) < length:
                self.random.choices(kinds, weights)[0]()
        return Program(self.origin, tuple(self.writer.statements))

    def _tensor(self) -> None:
        drawing = self._drawing(_ANY)
        code = drawing.literal(drawing.shape, drawing.dtype)
        if self.has_gradients and drawing.dtype.is_floating_point and self.random.random() < 0.6:
            code += ".requires_grad_()"
        self.writer.bind(code, drawing.home)

    def _view(self) -> None:
        if name := self._some():
            code = drawn(self.random, name, self.writer.tensors[name])
            self.writer.bind(code if self.random.random() < 0.7 else f"{code}.clone()", name[0])

    def _call(self) -> None:
        operator = self.random.choice(OPERATORS)
        drawing = self._drawing(operator)
        self._emit(operator, drawing, drawing.arguments)
        if self.random.random() < _MISTAKEN and (wrong := drawing.mistaken()):
            self._emit(operator, drawing, wrong)

    def _in_place(self) -> None:
        operator = self.random.choice(IN_PLACE)
        drawing = self._drawing(operator)
        wrong = drawing.mistaken() if self.random.random() < _MISTAKEN else None
        self.overwriting.in_place(operator, drawing.home, wrong or drawing.arguments)

    def _move(self) -> None:
        name = self._some()
        if not name:
            return
        other = self.random.choice("xyh".replace(name[0], ""))
        there = [one for one in self.writer.tensors if one[0] == other]
        if there and self.random.random() < 0.3:
            if self.overwriting.may_convert(name, there[0]):
                self.writer.line(f"{there[0]}.copy_({name})")
            return
        code = drawn(self.random, name, self.writer.tensors[name]) if self.random.random() < 0.5 else name
        where = {"x": "d0", "y": "d1", "h": "'cpu'"}[other]
        if isinstance(self.writer.tried(code)[1], torch.Tensor):
            self.writer.bind(f"{code}.to({where}, copy=True)", other)

    def _reshape(self) -> None:
        """A line that gives a tensor another shape, or another place in its storage."""
        name = self._some()
        if not name:
            return
        shape, tensor = self._drawing(_ANY).shape, self.writer.tensors[name]
        ways = [
            f"{name}.resize_({shape}).fill_(1)",
            f"{name}.t_()",
            f"{name}.squeeze_()",
            f"{name}.unsqueeze_(0)",
            f"{name}.transpose_(0, -1)",
            f"{name}.as_strided_({shape}, {tuple(range(len(shape)))})",
        ]
        # A storage that grows has uninitialized bytes.
        if torch.Size(shape).numel() * tensor.element_size() <= tensor.untyped_storage().nbytes():
            ways.append(f"{name}.set_({name}.untyped_storage(), 0, {shape})")
        self.writer.line(self.random.choice(ways))

    def _read(self) -> None:
        name = self._some()
        if name and name not in self.writer.inexact:
            code = self.random.choice((f"{name}.tolist()", f"{name}.item()", f"bool({name})", f"len({name})"))
            self.writer.bind(code, "v")

    def _delete(self) -> None:
        if len(self.writer.tensors) > 4:
            self.writer.line(f"del {self._some()}")

    def _backward(self) -> None:
        known = self.writer.tensors
        wanted = [name for name, tensor in known.items() if tensor.requires_grad and not tensor.is_leaf]
        if not wanted:
            return
        name = self.random.choice(wanted)
        retain = self.random.choice(("", ", retain_graph=True"))
        leaves = [one for one, tensor in known.items() if tensor.requires_grad and tensor.is_leaf]
        leaves = [one for one in leaves if one[0] == name[0]]
        self.writer.inexact.update(one for one, tensor in known.items() if tensor.requires_grad)
        if leaves and self.random.random() < 0.3:
            code = f"torch.autograd.grad({name}.sum(), {leaves[0]}, allow_unused=True{retain})"
            self.writer.bind(code, name[0], inexact=True)
        elif known[name].dim() == 0:
            self.writer.line(f"{name}.backward({retain.removeprefix(', ')})")
        else:
            self.writer.line(f"{name}.backward(torch.ones_like({name}){retain})")

    def _emit(self, operator: Operator, drawing: Drawing, arguments: list[Argument]) -> None:
        form = self.random.random()
        name = operator.name.lstrip(".")
        if form < 0.25 and hasattr(torch.Tensor, f"{name}_") and arguments[0].is_tensor:
            self.overwriting.method(operator, drawing.home, arguments)
        elif form < 0.55 and takes_out(name):
            self.overwriting.out(operator, drawing, arguments)
        else:
            self.writer.bind(call(operator.name, arguments), drawing.home, inexact=operator.is_inexact)

    def _drawing(self, operator: Operator) -> Drawing:
        home = "y" if self.random.random() < 0.12 else "x"
        return Drawing(self.random, operator, home, self.writer)

    def _some(self) -> str:
        there = list(self.writer.tensors)
        return self.random.choice(there) if there else ""
