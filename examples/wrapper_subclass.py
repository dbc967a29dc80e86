"""A tensor subclass in place of a device, and what else can be done without a device.

    python examples/wrapper_subclass.py 'Far(torch.ones(2)) + 1'

Each argument is one statement, which can use `torch` and the names of this file. No backend is loaded.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import torch
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_map_only


# LITERALINCLUDE START: wrapper-tensor
class Far(torch.Tensor):
    """A tensor whose values are elsewhere, where only ``__torch_dispatch__`` reaches them."""

    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> Far:
        """Creates a tensor with size, strides and dtype, but without memory."""
        made: Far = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device("meta"),
        )
        made.held = held
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        """Shows the values; the usual printing would read memory that does not exist."""
        return f"Far({self.held.tolist()})"

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, op: torch._ops.OpOverload, types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Runs every operator on such tensors, after autograd has seen it."""
        kwargs = kwargs or {}
        near_args, near_kwargs = tree_map_only(Far, lambda tensor: tensor.held, (args, kwargs))
        if "device" in near_kwargs:  # the device of such a tensor, which is the CPU on the other side
            near_kwargs["device"] = torch.device("cpu")
        results = tree_map_only(torch.Tensor, cls, op(*near_args, **near_kwargs))
        # An operator that writes must return its argument, and a view must share its storage.
        return return_and_correct_aliasing(op, args, kwargs, results)


# LITERALINCLUDE END: wrapper-tensor


# LITERALINCLUDE START: wrapper-train
def perceptron() -> torch.nn.Module:
    """The same perceptron each time."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))


def losses(place: Callable[[torch.Tensor], torch.Tensor]) -> list[float]:
    """Trains a perceptron for three steps, with all tensors where `place` puts them."""
    model = perceptron()
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, torch.nn.Parameter(place(parameter.detach())))
    x, wanted = place(torch.rand(32, 8)), place(torch.randint(2, (32,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), wanted)
        loss.backward()
        optimizer.step()
        found.append(float(getattr(loss, "held", loss).detach()))
    return found


# LITERALINCLUDE END: wrapper-train


# LITERALINCLUDE START: wrapper-operators
class Seen(TorchDispatchMode):
    """Counts the operators that arrive below autograd, which a backend would have to run."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: Counter[str] = Counter()

    def __torch_dispatch__(
        self, op: torch._ops.OpOverload, types: Iterable[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """Counts the operator and runs it."""
        self.operators[str(op).removeprefix("aten.")] += 1
        return op(*args, **(kwargs or {}))


def operators_of_a_step() -> str:
    """The operators of one training step of the perceptron: how many there are, and the most frequent ones."""
    model = perceptron()
    with Seen() as seen:
        model(torch.rand(32, 8)).square().mean().backward()
        torch.optim.AdamW(model.parameters()).step()
    busiest = ", ".join(f"{name} {count}" for name, count in seen.operators.most_common(6))
    return f"{len(seen.operators)} operators, {seen.operators.total()} calls: {busiest} ..."


# LITERALINCLUDE END: wrapper-operators


if __name__ == "__main__":
    outcome = importlib.import_module("fresh_process").outcome
    for statement in sys.argv[1:]:
        shown = outcome(statement, globals())
        print(statement if shown == "no error" else f"{statement}\n   {shown.replace(chr(10), chr(10) + '   ')}")
