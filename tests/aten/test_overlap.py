"""Operators that write where they read: the CPU's values, or the CPU's error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.testing import assert_close

Change = Callable[[torch.Tensor], object]


def index(*numbers: int, like: torch.Tensor) -> torch.Tensor:
    return torch.tensor(numbers, device=like.device)


def shifted_bernoulli(p: torch.Tensor) -> torch.Tensor:
    torch.bernoulli(p, out=p)  # the same places, so each is read before it is written
    return p[1:].bernoulli_(p[:-1])


def shifted_mask(flags: torch.Tensor) -> torch.Tensor:
    return flags[1:].masked_fill_(flags[:-1], True)


CHANGES: dict[str, Change] = {
    "copy_, transposed": lambda x: x.view(2, 3).t().copy_(x.view(3, 2)),
    "copy_, shifted": lambda x: x[1:].copy_(x[:-1]),
    "copy_, apart": lambda x: x[:3].copy_(x[3:]),
    "copy_, its own transpose": lambda x: x[:4].view(2, 2).copy_(x[:4].view(2, 2).t()),
    "copy_, its own row": lambda x: x.view(2, 3).copy_(x[:3]),
    "masked_fill_, shifted": lambda x: shifted_mask(x > 2),
    "masked_scatter_, itself": lambda x: x.masked_scatter_(x > 2, x),
    "index_put_, shifted": lambda x: x.index_put_((index(0, 1, like=x),), x[1:3]),
    "index_put_, itself": lambda x: x.index_put_((torch.arange(6, device=x.device),), x),
    "put_, shifted": lambda x: x.put_(index(0, 1, like=x), x[1:3]),
    "put_, apart": lambda x: x.put_(index(0, 1, like=x), x[2:4]),
    "put_, a single number of its own": lambda x: x.put_(index(0, like=x), x[0]),
    "index_put_, a single number of its own": lambda x: x.index_put_((index(0, like=x),), x[0]),
    "index_copy_, its last row": lambda x: x.view(3, 2).index_copy_(0, index(0, 2, like=x), x.view(3, 2)[1:]),
    "cross, its input as a view": lambda x: torch.cross(x.view(2, 3), x.view(2, 3).flip(0), dim=1, out=x.view(2, 3)),
    "cumsum, shifted": lambda x: torch.cumsum(x[:-1], 0, out=x[1:]),
    "sort, its input as a view": lambda x: torch.sort(x.view(6), out=(x.view(6), index(*range(6), like=x))),
    "index_fill_, its own number": lambda x: x.index_fill_(0, index(0, like=x), x[5]),
    "index_copy_, shifted": lambda x: x.index_copy_(0, index(0, 1, like=x), x[1:3]),
    "scatter_, shifted": lambda x: x.scatter_(0, index(0, 1, like=x), x[1:3]),
    "fill_, its own number": lambda x: x.fill_(x[3]),
    "_foreach_add_, shifted": lambda x: torch._foreach_add_([x[1:]], [x[:-1]]),
    "_foreach_add_, itself": lambda x: torch._foreach_add_([x], [x]),
    "_foreach_mul_, neighbours": lambda x: torch._foreach_mul_([x[1:], x[:-1]], 2),
    "bernoulli_, shifted": lambda x: shifted_bernoulli((x > 2).float()),
    "threshold_, expanded": lambda x: torch.threshold_(x[:1].expand(3), 2.0, 7.0),
    "relu_, expanded": lambda x: torch.relu_(x[:1].expand(3)),
    "cumsum_, expanded": lambda x: x[:1].expand(3).cumsum_(0),
    "add_, shifted": lambda x: x[1:].add_(x[:-1]),
    "addmm, a row of the output is added": lambda x: torch.addmm(
        x[:2], torch.ones(3, 2, device=x.device), torch.ones(2, 2, device=x.device), out=x.view(3, 2)
    ),
    "addmm, a part of the output's row is added": lambda x: torch.addmm(
        x[:2], torch.ones(2, 2, device=x.device), torch.ones(2, 2, device=x.device), out=x.view(2, 3)[:, :2]
    ),
}
INTEGERS: dict[str, Change] = {
    "take, into itself": lambda x: torch.take(x, torch.arange(6, device=x.device), out=x.view(6)),
    "take, into its own indices": lambda x: torch.take(x + 0, x, out=x.view(6)),
    "index_put_, its own indices": lambda x: x.index_put_((x[:2],), index(7, 8, like=x)),
    "put_, its own indices": lambda x: x.put_(x[:2], index(7, 8, like=x)),
    "index_fill_, its own indices": lambda x: x.index_fill_(0, x[:2], 9),
}


def outcome(change: Change, x: torch.Tensor) -> object:
    """The tensor after the call, or the call's error."""
    try:
        change(x)
    except RuntimeError as error:
        return str(error).splitlines()[0].partition(" (raised by the kernel")[0]
    return x.cpu()


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("name", [*CHANGES, *INTEGERS])
def test_as_on_the_cpu(name: str) -> None:
    x = torch.arange(6) if name in INTEGERS else torch.arange(6.0)
    change = {**CHANGES, **INTEGERS}[name]
    expected, found = outcome(change, x.clone()), outcome(change, x.to("openreg"))
    assert type(found) is type(expected), (found, expected)
    assert_close(found, expected) if isinstance(expected, torch.Tensor) else None
    assert isinstance(expected, torch.Tensor) or found == expected


@pytest.mark.needs("host kernels")
@pytest.mark.parametrize("method", ["index_put_", "put_"])
def test_bools_are_values_where_indices_come_first(method: str) -> None:
    def change(x: torch.Tensor) -> object:
        indices = torch.arange(3, device=x.device)
        return getattr(x, method)((indices,) if method == "index_put_" else indices, x.view(3))

    flags = torch.tensor([True, False, True])
    expected, found = outcome(change, flags.clone()), outcome(change, flags.to("openreg"))
    assert isinstance(expected, str)
    assert found == expected


@pytest.mark.needs("host kernels")
def test_what_is_overwritten_is_read_before() -> None:
    """In these cases the CPU reads what it has already written, or refuses the added tensor."""
    x = torch.arange(9.0).view(3, 3)
    ones = torch.ones(3, 3)
    assert_close(x.to("openreg").addmm_(ones.to("openreg"), x.to("openreg")).cpu(), x + ones @ x)
    there = x.to("openreg")
    assert_close(there.addmm_(ones.to("openreg"), there).cpu(), x + ones @ x)
    rows = torch.arange(12.0).to("openreg")
    torch.addmm(rows[:3], rows[:9].view(3, 3), rows[3:].view(3, 3), out=rows[3:].view(3, 3))
    whole = torch.arange(12.0)
    assert_close(rows[3:].cpu().view(3, 3), whole[:3] + whole[:9].view(3, 3) @ whole[3:].view(3, 3))
    square = torch.arange(4.0).view(2, 2)
    ones = torch.ones(2, 2)
    there = square.to("openreg")
    torch.addmm(there.t(), ones.to("openreg"), ones.to("openreg"), out=there)
    assert_close(there.cpu(), torch.addmm(square.t(), ones, ones))
