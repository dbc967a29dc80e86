"""Which memory tensors share, and whether that changes the outcome of a line."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from tests.fuzz.attempt import attempt
from tests.fuzz.comparison import Noise, difference
from tests.fuzz.program import BOUND, copied, key, tensors


def is_taken(code: str, names: Mapping[str, Any]) -> bool:
    """Whether the CPU accepts a line."""
    return attempt(f"result = {BOUND.sub('', code)}", copied(names)) is None


def is_ordered(code: str, apart: str, names: Mapping[str, Any]) -> bool:
    """Whether the outcome of a line depends on the order of reads and writes; False if the CPU refuses the line."""
    plain, separate = copied(names), copied(names)
    if attempt(f"result = {BOUND.sub('', code)}", plain) is not None:
        return False
    if attempt(f"result = {apart}", separate) is not None:
        return True
    noise = Noise()
    return any(difference(plain[name], separate[name], noise) is not None for name in (*tensors(names), "result"))


def overlaps(written: torch.Tensor, read: Iterable[torch.Tensor]) -> bool:
    """Whether two elements of a tensor overlap each other, or one overlaps an element of another tensor.

    A tensor without elements may be resized, and then overlap anything in its storage.
    """
    shared = [other for other in read if key(other) == key(written)]
    if not written.numel():
        return bool(shared)
    places = _places(written)
    taken = set(places)
    others = itertools.chain.from_iterable(_places(other) for other in shared)
    return len(taken) < len(places) or not taken.isdisjoint(others)


def _places(tensor: torch.Tensor) -> list[int]:
    """The offsets in the storage of the bytes of all elements."""
    size = tensor.element_size()
    steps = [range(0, count * step, step) if step else [0] * count for count, step in _axes(tensor)]
    begin = int(tensor.storage_offset()) * size
    return [begin + sum(place) + byte for place in itertools.product(*steps) for byte in range(size)]


def _axes(tensor: torch.Tensor) -> Iterable[tuple[int, int]]:
    return (
        (count, stride * tensor.element_size()) for count, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
