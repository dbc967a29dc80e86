"""Graphed callables that cannot be made, and calls that their graphs cannot answer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

make = torch.openreg.make_graphed_callables
outside = torch.ones(2, device="openreg", requires_grad=True)


class Gated(nn.Module):
    """A parameter that is used, one that is not, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.unused = (nn.Parameter(torch.ones(2, device="openreg")) for _ in range(2))
        self.register_buffer("scale", torch.ones(2, device="openreg"))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, None]:
        """Two results, of which one has no gradient."""
        product = x * self.weight * self.scale
        return product, product.detach().amax(), None


class Counting(nn.Module):
    """Replaces its buffer in each call."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), device="openreg"))

    def forward(self, x: Tensor) -> Tensor:
        """Depends on the number of the call."""
        self.calls = self.calls + 1
        return x * self.calls


def hooked() -> nn.Module:
    """A module with a hook."""
    module = Gated()
    module.register_forward_hook(lambda *_: None)
    return module


def trained_buffer() -> nn.Module:
    """A module whose buffer requires a gradient."""
    module = Gated()
    module.scale.requires_grad_()
    return module


def in_inference_mode() -> None:
    """Tensors that do not tell what changes them."""
    with torch.inference_mode():
        make(torch.sin, (x(),))


def in_autocast() -> None:
    """Autocast with its cache."""
    with torch.autocast("openreg", torch.bfloat16):
        make(Gated(), (x(),))


def in_capture(call: Callable[[], object]) -> None:
    """Calls in a capture of the program."""
    with torch.Stream(), torch.accelerator.Graph():
        call()


def x(*shape: int, **options: Any) -> Tensor:
    """An argument."""
    return torch.ones(shape or 2, device="openreg", **options)


# LITERALINCLUDE START: graph-callables-refused
def attempt(name: str, call: Callable[[], object]) -> None:
    """Prints how the call ends."""
    try:
        call()
        print(f"{name}: done")
    except (RuntimeError, TypeError, ValueError) as error:
        print(f"{name}: {error}")


def cannot_be_made() -> None:
    """What is refused before or during the capture."""
    attempt("a list", lambda: make([Gated()], (x(),)))
    attempt("no tuple", lambda: make(torch.sin, x()))
    attempt("one callable twice", lambda: make((torch.sin, torch.sin), ((x(),), (x(),))))
    attempt("a number", lambda: make(torch.add, (x(), 1)))
    attempt("another device", lambda: make(torch.add, (x(), torch.ones(2))))
    attempt("autocast", in_autocast)
    attempt("inference mode", in_inference_mode)
    attempt("a hook", lambda: make(hooked(), (x(),)))
    attempt("a buffer", lambda: make(trained_buffer(), (x(),)))
    counting = nn.Sequential(Counting())
    attempt("a buffer that is replaced", lambda: make(counting, (x(),)))
    print("the buffer afterwards:", counting[0].calls.item())
    attempt("in a capture", lambda: in_capture(lambda: make(torch.sin, (x(),))))
    attempt("an unused parameter", lambda: make(Gated(), (x(),)))
    attempt("a tensor from outside", lambda: make(lambda y: y * outside, (x(),)))
    attempt("a result on the CPU", lambda: make(lambda y: y.cpu(), (x(),)))
    attempt("a number as a result", lambda: make(len, (x(),)))
    attempt("a change in place", lambda: make(lambda y: y.add_(1), (x(),)))
    attempt("a value on the host", lambda: make(lambda y: y * y.sum().item(), (x(),)))


def cannot_be_called() -> None:
    """What is refused before a replay."""
    module = make(Gated(), (x(requires_grad=True),), allow_unused_input=True)
    product, largest, nothing = module(x())
    print("results:", product.requires_grad, largest.requires_grad, nothing)
    attempt("a keyword", lambda: module(x(), x=x()))
    attempt("a number", lambda: module(1))
    attempt("another shape", lambda: module(x(3)))
    attempt("in a capture", lambda: in_capture(lambda: module(x())))
    early = module(x())[0]
    attempt("an earlier call's backward pass", product.sum().backward)
    with torch.no_grad():
        module.weight.mul_(1)
    attempt("a weight that has changed in between", early.sum().backward)
    later = module(x())[0]
    attempt("second derivatives", lambda: torch.autograd.grad(later.sum(), module.weight, create_graph=True))
    attempt("the last call's backward pass", later.sum().backward)
    print("gradients:", module.weight.grad.tolist(), module.unused.grad)
    attempt("a copy", lambda: copy.deepcopy(module))
    module.weight.data = x()
    attempt("a weight that has moved", lambda: module(x()))
    module.weight = nn.Parameter(x())
    attempt("a weight that was replaced", lambda: module(x()))
    sine = make(torch.sin, (x(),))
    attempt("a gradient that was not captured", lambda: sine(x(requires_grad=True)))
    with torch.no_grad():
        for_inference = make(Gated(), (x(),))
        attempt("made and called without gradients", lambda: for_inference(x()))
    attempt("called with gradients", lambda: for_inference(x()))


# LITERALINCLUDE END: graph-callables-refused

if __name__ == "__main__":
    cannot_be_made()
    cannot_be_called()
