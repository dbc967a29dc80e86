"""Which elements of memory tensors have in common."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import torch

from tests.fuzz.program import key


def overlaps(written: torch.Tensor, read: Iterable[torch.Tensor]) -> bool:
    """Whether a tensor has two elements in one place, or one where an element of another is."""
    places = _places(written)
    taken = set(places)
    others = itertools.chain.from_iterable(_places(other) for other in read if key(other) == key(written))
    return len(taken) < len(places) or not taken.isdisjoint(others)


def _places(tensor: torch.Tensor) -> list[int]:
    """The bytes of all elements, by their place in the storage."""
    size = tensor.element_size()
    steps = [range(0, count * step, step) if step else [0] * count for count, step in _axes(tensor)]
    begin = tensor.storage_offset() * size
    return [begin + sum(place) + byte for place in itertools.product(*steps) for byte in range(size)]


def _axes(tensor: torch.Tensor) -> Iterable[tuple[int, int]]:
    return ((count, stride * tensor.element_size()) for count, stride in zip(tensor.shape, tensor.stride(), strict=True))
