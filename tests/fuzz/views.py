"""Views of a tensor as expressions: of a requested shape, or of any."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import torch

Shape = tuple[int, ...]


def fitting(random: Random, name: str, tensor: torch.Tensor, shape: Shape) -> Iterator[str]:
    """Views of a tensor that have a shape, each made in another way."""
    have = tuple(tensor.shape)
    if have == shape:
        yield name
    if len(have) == len(shape):
        if have != shape and all(map(int.__ge__, have, shape)):
            yield f"{name}[{_slices(random, have, shape)}]"
        if len(have) >= 2 and all(map(int.__ge__, reversed(have), shape)):
            turned = f"{name}.permute({', '.join(map(str, reversed(range(len(have)))))})"
            turned = f"{name}.t()" if len(have) == 2 else turned
            yield turned if have[::-1] == shape else f"{turned}[{_slices(random, have[::-1], shape)}]"
    if len(have) == len(shape) + 1 and have[0] and all(map(int.__ge__, have[1:], shape)):
        row = random.randrange(have[0])
        yield f"{name}[{', '.join([str(row), *([_slices(random, have[1:], shape)] if shape else [])])}]"
    if len(have) <= len(shape) and _broadcasts(have, shape) and have != shape:
        yield f"{name}.expand({_tuple(shape)})"
    if tensor.numel() == torch.Size(shape).numel() and have != shape and tensor.is_contiguous():
        yield f"{name}.view({_tuple(shape)})"
    if len(have) == 2 and len(shape) == 1 and have[0] == have[1] == shape[0]:
        yield f"{name}.diagonal()"
    if len(have) == 1 and len(shape) == 2 and 0 < shape[1] <= have[0]:
        step = random.choice((1, 2))
        if (have[0] - shape[1]) // step + 1 == shape[0]:
            yield f"{name}.unfold(0, {shape[1]}, {step})"
    if 0 not in shape and shape:
        yield from _strided(random, name, tensor, shape)


def drawn(random: Random, name: str, tensor: torch.Tensor) -> str:
    """A random view of a tensor."""
    dims = tensor.dim()
    ways: list[Callable[[], str]] = [
        lambda: f"{name}.unsqueeze({random.randint(-dims - 1, dims)})",
        lambda: f"{name}.view(-1)",
        lambda: f"{name}.reshape(-1)",
        lambda: f"{name}.expand(2, {', '.join(['-1'] * dims)})" if dims else f"{name}.expand(3)",
        lambda: f"{name}.squeeze()",
    ]
    if tensor.is_complex():
        ways += [lambda: f"{name}.conj()", lambda: f"{name}.real", lambda: f"{name}.imag"]
        ways += [lambda: f"torch.view_as_real({name})"]
    if tensor.dtype in (torch.float32, torch.int32):
        ways.append(lambda: f"{name}.view(torch.int32)")
    if dims:
        dim = random.randrange(dims)
        size = tensor.size(dim)
        begin = random.randint(0, size)
        ways += [
            lambda: f"{name}.narrow({dim}, {begin}, {random.randint(0, size - begin)})",
            lambda: f"{name}[{':, ' * dim}{begin}:]",
            lambda: f"{name}[{':, ' * dim}::{random.choice((2, 3))}]",
            lambda: f"{name}.select({dim}, {random.randint(-size, size - 1) if size else 0})",
            lambda: f"{name}.unfold({dim}, {random.randint(0, size)}, {random.choice((1, 2))})",
            lambda: f"{name}.chunk(2, {dim})",
            lambda: f"{name}.unbind({dim})",
            lambda: f"{name}.movedim({dim}, {random.randrange(dims)})",
            lambda: f"{name}.split({random.choice((1, 2))}, {dim})",
        ]
    if dims >= 2:
        one, other = random.sample(range(dims), 2)
        ways += [
            lambda: f"{name}.transpose({one}, {other})",
            lambda: f"{name}.diagonal({random.choice((0, 0, 1, -1))}, {one}, {other})",
            lambda: f"{name}.flatten({min(one, other)}, {max(one, other)})",
            lambda: f"{name}.mT",
        ]
    return random.choice(ways)()


def lacks_stride(tensor: torch.Tensor) -> bool:
    """Whether a tensor repeats its elements along a dimension."""
    return any(size > 1 and not stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _slices(random: Random, have: Shape, want: Shape) -> str:
    parts = []
    for size, length in zip(have, want, strict=True):
        step = 2 if 2 * length - 1 <= size and random.random() < 0.3 else 1
        begin = random.randint(0, size - (length - 1) * step - 1) if length else random.randint(0, size)
        end = begin + length * step if length else begin
        parts.append(":" if (begin, end, step) == (0, size, 1) else f"{begin}:{end}{'' if step == 1 else ':2'}")
    return ", ".join(parts)


def _strided(random: Random, name: str, tensor: torch.Tensor, shape: Shape) -> Iterator[str]:
    # Not the whole storage: how much larger than its elements the storage of a result is depends on the kernel.
    elements = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    elements = elements if tensor.numel() else 0
    order = list(range(len(shape)))
    random.shuffle(order)
    strides, step = [0] * len(shape), random.choice((1, 1, 1, 2))
    for dim in order:
        strides[dim] = step
        step *= shape[dim]
    if random.random() < 0.15:  # elements that share memory
        strides[random.randrange(len(shape))] = random.choice((0, 1))
    span = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
    if span <= elements:
        begin = tensor.storage_offset() + random.randint(0, elements - span)
        yield f"{name}.as_strided({_tuple(shape)}, {_tuple(tuple(strides))}, {begin})"


def _broadcasts(have: Shape, want: Shape) -> bool:
    return all(one in (1, other) for one, other in zip(reversed(have), reversed(want), strict=False))


def _tuple(numbers: Shape) -> str:
    return f"({', '.join(map(str, numbers))}{',' if len(numbers) == 1 else ''})"
