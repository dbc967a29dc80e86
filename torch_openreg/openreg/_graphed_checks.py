"""What `make_graphed_callables` checks of modules, tensors and autograd's graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import Tensor, nn


# LITERALINCLUDE START: graphed-checks
def described(value: object) -> str:
    if not isinstance(value, Tensor):
        return f"of type {type(value).__name__}"
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)} on {value.device}"


def kind(tensor: Tensor) -> tuple[object, ...]:
    return tensor.shape, tensor.dtype, tensor.device


def refuse_unfit(module: nn.Module) -> None:
    """Raises for what a module's replay would leave out."""
    name = type(module).__name__
    hooks = (module._forward_pre_hooks, module._forward_hooks, module._backward_pre_hooks, module._backward_hooks)
    if count := sum(map(len, hooks)):
        raise ValueError(
            f"openreg: {name} has hooks ({count}), which a replay would not call: register them after "
            "make_graphed_callables()"
        )
    for buffer_name, buffer in module.named_buffers():
        if buffer.requires_grad:
            raise ValueError(
                f"openreg: buffer {buffer_name!r} of {name} requires a gradient, and a graphed module has gradients of "
                "its arguments and parameters: make it a parameter, or call requires_grad_(False)"
            )


class Member(NamedTuple):
    """A parameter, a buffer or a module, and the dictionary of the module that has it."""

    name: str
    holder: dict[str, Any]
    key: str
    value: object


def members_of(module: nn.Module) -> list[Member]:
    """The members of a module and of all modules in it."""
    found = []
    for path, owner in module.named_modules():
        held = (("parameter", owner._parameters), ("buffer", owner._buffers), ("module", owner._modules))
        for what, holder in held:
            for key, value in holder.items():
                name = f"{path}.{key}" if path else key
                found.append(Member(f"{what} {name!r}", holder, key, value))
    return found


def replaced(members: Sequence[Member]) -> list[Member]:
    """The members that are other objects now."""
    return [each for each in members if each.holder.get(each.key) is not each.value]


def leaves_of(results: Sequence[Tensor]) -> list[Tensor]:
    """The tensors at which the backward pass of the results ends."""
    inner = [node.variable for node in _nodes_of(results) if hasattr(node, "variable")]
    return [*inner, *(result for result in results if result.grad_fn is None)]


def saved_by(results: Sequence[Tensor]) -> list[Tensor]:
    """The tensors that autograd's graph of the results keeps for the backward pass.

    Without those that hooks keep, as `torch.utils.checkpoint` does: asking for them would compute them.
    """
    found: list[Any] = []
    for node in _nodes_of(results):
        for name in dir(node):
            if name.startswith("_raw_saved_"):
                saved = getattr(node, name)
                found += [each.data for each in (saved if isinstance(saved, list | tuple) else (saved,))]
    return [each for each in found if isinstance(each, Tensor)]


def _nodes_of(results: Sequence[Tensor]) -> set[Any]:
    seen, waiting = set(), [result.grad_fn for result in results]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return seen


# LITERALINCLUDE END: graphed-checks
