"""Draws the arguments of a call by the pattern of its operator, and wrong arguments in their place."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import torch

from tests.fuzz.comparison import is_finite
from tests.fuzz.operators import NEEDS_STRIDES, Operator
from tests.fuzz.views import Shape, fitting, lacks_stride
from tests.fuzz.writer import Writer

DTYPES = {
    "integer": (torch.int64, torch.int64, torch.int32, torch.uint8, torch.int8, torch.bool),
    "float": (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16),
    "complex": (torch.complex64, torch.complex128),
}
_GROUPS = {
    "any": (*["float"] * 4, "integer", "integer", "complex"),
    "number": (*["float"] * 4, "integer", "integer", "complex"),
    "real": ("float", "integer"),
    "float": (*["float"] * 8, "integer", "complex"),
    "integer": ("integer",),
}
_WORD = re.compile(r"\^all0|\^all|\^1|\^[a-z]|\^|\[\*\]|\*|\?[a-z0-9AB]*|!|#|\$|%|&|@")
_SIZES = re.compile(r"[a-z0-9AB]+")
_LARGEST = 1e5
_SHARED = 0.75  # how often an operand is a view of an existing tensor


@dataclass
class Argument:
    """One argument: its code, and its word in the pattern."""

    code: str
    word: str
    shape: Shape = ()
    prefix: str = ""  # "name=" of a keyword argument

    @property
    def text(self) -> str:
        """Its text in the call."""
        return self.prefix + self.code

    @property
    def is_tensor(self) -> bool:
        """Whether the pattern has a tensor there."""
        return bool(self.word) and self.word not in ("#", "$", "@", "%", "()", "[*]")

    @property
    def apart(self) -> str:
        """The same value in memory of its own."""
        if self.word == "[*]":
            return f"{self.prefix}[one.clone() for one in {self.code}]"
        return f"{self.text}.clone()" if self.is_tensor and self.code != "None" else self.text


class Drawing:
    """The arguments of one call."""

    def __init__(self, random: Random, operator: Operator, home: str, writer: Writer) -> None:
        self.random = random
        self.operator = operator
        self.home = home  # x or y: the first device or the second
        self.writer = writer
        self.dtype = self._any_dtype()
        self.shape = self._any_shape()
        self.sizes: dict[str, int] = {"A": 2, "B": 3} | {digit: int(digit) for digit in "123"}
        self.first = ""
        self.arguments = [self._argument(word) for word in operator.pattern]

    def mistaken(self) -> list[Argument] | None:
        """The same arguments, one of which is wrong."""
        places = [place for place, argument in enumerate(self.arguments) if argument.word]
        if not places:
            return None
        place = self.random.choice(places)
        wrong = list(self.arguments)
        argument = wrong[place]
        wrong[place] = Argument(self._wrong(argument), argument.word, argument.shape, argument.prefix)
        return wrong

    def number(self) -> str:
        """A number, mostly one that the call's dtype can represent."""
        choices = ["0", "1", "2", "-1", "3", "True", "(2+0j)"]
        choices += ["0.5", "-1.5", "2.0", "inf", "nan"] if self.dtype.is_floating_point else []
        choices += ["1j", "(2+1j)"] if self.dtype.is_complex else []
        return self.random.choice(choices)

    def literal(self, shape: Shape, dtype: torch.dtype) -> str:
        """A new tensor."""
        where = f"device=d{'xy'.index(self.home)}"
        count = torch.Size(shape).numel()
        if 0 in shape:
            return f"torch.zeros({shape}, dtype={dtype}, {where})"
        flat = [self._element(dtype) for _ in range(count)]
        if len(shape) == 2 and self.random.random() < 0.2:
            return f"torch.tensor({_nested(flat, shape[::-1])}, dtype={dtype}, {where}).t()"
        return f"torch.tensor({_nested(flat, shape)}, dtype={dtype}, {where})"

    def operand(self, shape: Shape, dtype: torch.dtype, *, shared: float = _SHARED) -> str:
        """A tensor of a shape: mostly a view of an existing one of the dtype, otherwise a new one."""
        if self.random.random() < shared:
            known = [(name, tensor) for name, tensor in self._known() if tensor.dtype == dtype]
            self.random.shuffle(known)
            for name, tensor in known:
                views = list(fitting(self.random, name, tensor, shape))
                if self.operator.name in NEEDS_STRIDES:
                    views = [view for view in views if "expand" not in view and "as_strided" not in view]
                if views:
                    return self.random.choice(views)
        code = self.literal(shape, dtype)
        return self.writer.bind(code, self.home) if self.random.random() < 0.5 else code

    def _known(self) -> Iterable[tuple[str, torch.Tensor]]:
        avoided = self.writer.inexact if self.operator.is_sensitive else set()
        for name, tensor in self.writer.tensors.items():
            if self.operator.name in NEEDS_STRIDES and lacks_stride(tensor):
                continue
            if name[0] == self.home and name not in avoided and _is_moderate(tensor):
                yield name, tensor

    def _any_dtype(self) -> torch.dtype:
        group = DTYPES[self.random.choice(_GROUPS[self.operator.dtypes])]
        there = [tensor.dtype for _, tensor in self._known() if tensor.dtype in group]
        return self.random.choice(there if there and self.random.random() < 0.6 else group)

    def _any_shape(self) -> Shape:
        there = [tuple(tensor.shape) for _, tensor in self._known() if tensor.dim() <= 3 and tensor.numel() < 100]
        if there and self.random.random() < 0.6:
            return self.random.choice(there)
        return tuple(self._size() for _ in range(self.random.choice((0, 1, 1, 2, 2, 3))))

    def _size(self) -> int:
        return self.random.choices((0, 1, 2, 3, 4, 6), (1, 3, 6, 6, 2, 2))[0]

    def _sizes(self, letters: str) -> Shape:
        return tuple(self.sizes.setdefault(letter, self._size()) for letter in letters)

    def _argument(self, word: str) -> Argument:
        prefix, equals, rest = word.rpartition("=")
        prefix += equals
        if rest.startswith("{"):
            return Argument(self.random.choice(rest[1:-1].split("|")), "", prefix=prefix)
        if rest.startswith("("):
            body = re.sub(r"\^all0|[%$&a-z]", lambda match: self._argument(match[0]).code, rest[1:-1])
            if "%" in rest or "$" in rest:
                return Argument(f"({body})", "()", prefix=prefix)
            return Argument(self._size_names(f"({body})", rest), "", prefix=prefix)
        if _WORD.fullmatch(rest):
            return self._by_symbol(rest, prefix)
        if _SIZES.fullmatch(rest) and not rest.isdigit():
            return self._tensor(rest, self._sizes(rest), prefix)
        return Argument(rest, "", prefix=prefix)

    def _size_names(self, text: str, word: str) -> str:
        return f"({self.sizes[word[1]]},)" if word == "(n,)" else text

    def _by_symbol(self, word: str, prefix: str) -> Argument:
        shape = self._shape_of_first()
        if word in "*!":
            return self._tensor(word, self.shape if word == "*" else (), prefix)
        if word.startswith("?"):
            full = self._sizes(word[1:]) if word[1:] else self.shape
            if not word[1:] and self.random.random() < 0.3:
                return Argument(self.number(), "#", prefix=prefix)
            return self._tensor(word, self._broadcast(full), prefix)
        if word == "[*]":
            count = self.random.choice((1, 2, 3))
            return Argument(f"[{', '.join(self.operand(self.shape, self.dtype) for _ in range(count))}]", word)
        if word == "&":
            return Argument(self.operand(self._broadcast(self.shape), torch.bool), word, self.shape, prefix)
        if word == "@":
            groups = ("float", "float", "integer") if not self.dtype.is_floating_point else ("float",)
            dtypes = DTYPES["complex"] if self.dtype.is_complex else DTYPES[self.random.choice(groups)]
            return Argument(str(self.random.choice((None, *dtypes))), word, prefix=prefix)
        if word == "%":
            self.dim = self.random.randrange(max(len(shape), 1))
            return Argument(str(self.dim - self.random.choice((0, 0, max(len(shape), 1)))), word, prefix=prefix)
        if word.startswith("^"):
            return self._indices(word, shape, prefix)
        return Argument(self.number() if word == "#" else str(self.random.choice((0, 1, 1, 2))), word, prefix=prefix)

    def _tensor(self, word: str, shape: Shape, prefix: str) -> Argument:
        is_other = self.first and self.random.random() < 0.12
        dtype = self._any_dtype() if is_other else self.dtype
        code = self.operand(shape, dtype)
        if not self.first:
            self.first, self.first_shape = code, shape
        return Argument(code, word, shape, prefix)

    def _shape_of_first(self) -> Shape:
        return self.first_shape if self.first else self.shape

    def _broadcast(self, shape: Shape) -> Shape:
        if self.random.random() < 0.6:
            return shape
        kept = shape[self.random.randint(0, len(shape)) :]
        return tuple(1 if self.random.random() < 0.3 else size for size in kept)

    def _indices(self, word: str, shape: Shape, prefix: str) -> Argument:
        if len(word) == 2 and word[1].isalpha():
            below, sizes = 1, self._sizes(word[1])
        elif word == "^all":
            below, sizes = torch.Size(shape).numel(), self.shape
        elif word == "^all0":
            below, sizes = (shape or (1,))[0], (shape or (1,))[:1]
        else:
            dim = getattr(self, "dim", 0)
            below = shape[dim] if shape else 1
            sizes = shape if word == "^" else (below,)
        count = torch.Size(sizes).numel()
        # Without repetitions, for which the order of writes is undefined.
        numbers = self.random.sample(range(below), below)
        flat = [str(numbers[place % below]) for place in range(count)] if below else ["0"] * count
        if word in ("^", "^all") and below:
            flat = _along(numbers, sizes, getattr(self, "dim", 0)) if word == "^" else flat
        where = f"device=d{'xy'.index(self.home)}"
        if not count:
            return Argument(f"torch.zeros({sizes}, dtype=torch.int64, {where})", "^", sizes, prefix)
        return Argument(f"torch.tensor({_nested(flat, sizes)}, {where})", "^", sizes, prefix)

    def _element(self, dtype: torch.dtype) -> str:
        if dtype == torch.bool:
            return self.random.choice(("True", "False"))
        if dtype.is_complex:
            return f"{self.random.randint(-3, 3)}{self.random.randint(-3, 3):+}j"
        if dtype.is_floating_point and self.random.random() < 0.02:
            return self.random.choice(("nan", "inf", "-inf", "0.5"))
        return str(self.random.randint(0 if dtype == torch.uint8 else -4, 5))

    def _wrong(self, argument: Argument) -> str:
        choose = self.random.choice
        if argument.word in "#$@%" and argument.word:
            wrong = {
                "#": ("1e300", "nan", "(2+1j)", "100", "-100", "-1e300", "'nonsense'", "None", "2**70"),
                "$": ("-1", "100", "-100", "1.5", "None"),
                "@": ("torch.int32", "torch.bool", "torch.complex64", "torch.float16"),
                "%": ("3", "-4", "100", "None", "1", "-2"),
            }
            return choose(wrong[argument.word])
        if argument.word == "()":
            return choose(("(-1,)", "(100, 100)", "()", "(0, 0, 0)"))
        if argument.word == "^":
            return choose((f"({argument.code} + 5)", f"({argument.code} - 9)", f"{argument.code}.float()"))
        if argument.word == "[*]":
            return choose(
                ("[]", f"{argument.code[:-1]}, {self.operand((5,), self.dtype)}]", f"{argument.code[:-1]}, 1]")
            )
        shape = list(argument.shape)
        kind = self.random.random()
        dtypes = [dtype for group in DTYPES.values() for dtype in group]
        if kind < 0.4:
            return self.operand(tuple(shape), choose(dtypes))
        if kind < 0.8 and shape:
            place = self.random.randrange(len(shape))
            shape[place] += choose((1, -1)) if shape[place] else 1
            return self.operand(tuple(shape), self.dtype)
        return choose(
            (f"{argument.code}.unsqueeze(0)", f"{argument.code}[:0]", "None", self.literal((5, 2), self.dtype))
        )


def _is_moderate(tensor: torch.Tensor) -> bool:
    if not tensor.dtype.is_floating_point or not tensor.numel():
        return True
    largest = tensor.detach().abs().float().nan_to_num(0.0, 0.0, 0.0).max().item()
    return is_finite(largest) and largest < _LARGEST


def _along(numbers: list[int], sizes: Shape, dim: int) -> list[str]:
    """Indices in which each line along a dimension has each number once."""
    grid = torch.tensor(numbers).reshape([-1 if place == dim else 1 for place in range(max(len(sizes), 1))])
    return [str(number) for number in grid.expand(sizes or (1,)).flatten().tolist()]


def _nested(flat: list[str], shape: Shape) -> str:
    if not shape:
        return flat[0]
    step = len(flat) // shape[0]
    return f"[{', '.join(_nested(flat[step * i : step * (i + 1)], shape[1:]) for i in range(shape[0]))}]"
