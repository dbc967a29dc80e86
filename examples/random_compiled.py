"""Compiles a checkpointed block with dropout, whose graph runs the forward pass twice and must drop the same."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import (
    _GRAPHSAFE_RNG_DEVICE_TYPES,
    register_graphsafe_rng_device_type,
)
from torch._functorch.aot_autograd import make_boxed_func
from torch.utils.checkpoint import checkpoint


def block(x: torch.Tensor) -> torch.Tensor:
    """Drops half of the elements and squares the rest."""
    return torch.nn.functional.dropout(x, 0.5).square()


def shown(graph: torch.fx.GraphModule, _: object) -> Any:
    """Prints what calls the random operators of a graph."""
    calls = {str(node.target) for node in graph.graph.nodes if node.op == "call_function"}
    print(*(call for call in calls if "rng_state" in call))
    return make_boxed_func(graph)


# LITERALINCLUDE START: random-compiled
def train_step() -> None:
    """One compiled forward and backward pass. The derivative of (2 x)² is twice the result where x is 1."""
    compiled = torch.compile(
        lambda x: checkpoint(block, x, use_reentrant=False), backend=aot_autograd(fw_compiler=shown)
    )
    x = torch.ones(16, device="openreg", requires_grad=True)
    y = compiled(x)
    y.sum().backward()
    assert x.grad is not None
    print("the second pass drops what the first one did:", torch.equal(x.grad, 2 * y))


def main() -> None:
    """Runs it without and with the entry in the compiler's list, which torch_openreg adds when it is imported."""
    _GRAPHSAFE_RNG_DEVICE_TYPES.remove("openreg")
    train_step()
    torch.compiler.reset()
    register_graphsafe_rng_device_type("openreg")
    train_step()


# LITERALINCLUDE END: random-compiled

if __name__ == "__main__":
    main()
