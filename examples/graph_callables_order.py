"""Graphed callables that share a pool: their order, their gradients, and what making them leaves as it was."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn

from examples.graph_callables_refused import attempt

make = torch.openreg.make_graphed_callables


# LITERALINCLUDE START: graph-callables-several
def two_layers() -> None:
    """Two layers with one sample, in their order and in others."""
    references = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(2)]
    sample = torch.zeros(3, 4, device="openreg", requires_grad=True)
    first, second = make(tuple(copy.deepcopy(each).to("openreg") for each in references), ((sample,), (sample,)))
    host = torch.randn(3, 4, requires_grad=True)
    x = host.detach().to("openreg").requires_grad_()
    result = second(first(x))
    result.sum().backward(retain_graph=True)
    (expected,) = torch.autograd.grad(references[1](references[0](host)).sum(), host)
    print("gradients agree:", torch.allclose(x.grad.cpu(), expected, atol=1e-6))
    print("largest element of the sample:", sample.max().item())
    attempt("its backward pass again", result.sum().backward)
    late = second(first(x))
    first(x)
    attempt("after another call of the first", late.sum().backward)
    early = first(x)
    second(x)
    attempt("after another call of the second", early.sum().backward)


def one_pool() -> None:
    """Callables of two calls with one pool."""
    pool, x = torch.openreg.graph_pool_handle(), torch.ones(2, device="openreg", requires_grad=True)
    sine, cosine = (make(function, (x,), pool=pool) for function in (torch.sin, torch.cos))
    early = sine(x).sum()
    cosine(x)
    attempt("after a call of another one with the pool", early.backward)


def doubled_slowly(x: Tensor) -> Tensor:
    """Reads its argument after 20 milliseconds."""
    torch.openreg._sleep(20_000_000)
    return x * 2


def two_streams() -> None:
    """A second call on another stream, before the first one has run."""
    graphed = make(doubled_slowly, (torch.zeros(2, device="openreg"),))
    inputs, results = [torch.full((2,), value, device="openreg") for value in (1.0, 10.0)], []
    torch.accelerator.synchronize()
    for each in inputs:
        with torch.Stream():
            results.append(graphed(each))
    torch.accelerator.synchronize()
    print("on two streams:", *(result.tolist() for result in results))


def one_result_of_two(tensors: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """A function of a dictionary."""
    return tensors["a"] * 2, tensors["b"] * 3


def main() -> None:
    """Prints what each part shows."""
    torch.manual_seed(0)
    two_layers()
    one_pool()
    two_streams()
    given = {name: torch.ones(2, device="openreg", requires_grad=True) for name in "ab"}
    graphed = make(one_result_of_two, (given,))
    graphed(given)[1].sum().backward()
    print("gradients of a and b:", given["a"].grad.tolist(), given["b"].grad.tolist())
    attempt("in another form", lambda: graphed(tuple(given.values())))
    runs: list[Tensor] = []
    make(lambda y: (runs.append(y), y + 1)[1], (torch.ones(2, device="openreg"),))  # type: ignore[func-returns-value]
    print("runs of a function:", len(runs))
    elsewhere = make(torch.neg, (torch.ones(2, device="openreg:1"),))
    print("on device 1:", elsewhere(torch.tensor([2.0, 3.0], device="openreg:1")).tolist())
    before = torch.openreg.default_generators[0].get_offset()
    dropout = make(nn.Dropout(0.5), (torch.ones(8, device="openreg"),))
    print("random numbers drawn:", torch.openreg.default_generators[0].get_offset() - before)
    with torch.no_grad():
        print("dropped:", int((dropout(torch.ones(8, device="openreg", requires_grad=True)) == 0).sum()))
    with torch.autocast("openreg", torch.bfloat16, cache_enabled=False):
        product = make(nn.Linear(8, 2, device="openreg"), (torch.ones(1, 8, device="openreg"),))
    print("captured in autocast:", product(torch.ones(1, 8, device="openreg")).dtype)


# LITERALINCLUDE END: graph-callables-several

if __name__ == "__main__":
    main()
