"""Programs from PyTorch's operator database: a valid call, and the same with one wrong argument, in turns.

`tests/opinfo/test_mistakes.py` makes the same calls and checks whether they return. Here the values are compared, too:
the valid call runs again after each mistake, from which the backend might have cached something wrong.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from random import Random

import torch
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_unflatten

from tests.fuzz.literals import Unwritable, written
from tests.fuzz.operators import NEEDS_STRIDES
from tests.fuzz.program import Program, Statement
from tests.fuzz.views import lacks_stride
from tests.opinfo.compare import Comparison
from tests.opinfo.mistakes import DIFFERENT, calls, chosen, mistaken

_LARGEST = 200  # elements, all of which are written down
# Elements that these add are uninitialized.
_RESIZING = ("resize_", "resize_as_")


def asked(entries: Mapping[str, OpInfo]) -> list[str]:
    """The names of the entries from which programs are made."""
    return [name for name, entry in entries.items() if _is_asked(entry)]


def _is_asked(entry: OpInfo) -> bool:
    if entry.name in _RESIZING or entry.name in DIFFERENT or not chosen(entry.name):
        return False
    return Comparison(entry, "cpu", torch.float32).has_values


def program(entries: Mapping[str, OpInfo], name: str, seed: int, number: int) -> Program:
    """A program of one entry: another seed or number gives other mistakes."""
    drawn = Random(f"{seed} {number}")
    statements: list[Statement] = []
    reads_beyond = any(one in name for one in NEEDS_STRIDES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        for leaves, spec in calls(entries[name], _LARGEST):
            variations = [leaves]
            for _, given in mistaken(leaves, drawn):
                variations += [given, leaves]
            for given in variations:
                if reads_beyond and any(isinstance(one, torch.Tensor) and lacks_stride(one) for one in given):
                    continue
                try:
                    args, kwargs = tree_unflatten([written(leaf) for leaf in given], spec)
                except Unwritable:
                    continue
                statements.append(_statement(name, args, kwargs, len(statements)))
    return Program(f"seed {seed}, program {number}: {name}", tuple(statements))


def _statement(name: str, args: object, kwargs: Mapping[str, object], number: int) -> Statement:
    texts = [_text(one) for one in args] if isinstance(args, tuple) else []
    texts += [f"{key}={_text(value)}" for key, value in kwargs.items()]
    return Statement(f"x{number + 1} = entries[{name!r}]({', '.join(texts)})")


def _text(tree: object) -> str:
    """A tree whose leaves are expressions."""
    if isinstance(tree, list):
        return f"[{', '.join(map(_text, tree))}]"
    if isinstance(tree, tuple):
        return f"({', '.join(map(_text, tree))}{',' if len(tree) == 1 else ''})"
    if isinstance(tree, dict):
        return f"{{{', '.join(f'{key!r}: {_text(value)}' for key, value in tree.items())}}}"
    return str(tree)
