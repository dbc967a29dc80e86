"""Random operators that a backward pass repeats, as `torch.utils.checkpoint` asks: they draw the same numbers again.

PyTorch saves the state of the generator before such an operator, and sets it for the repetition, for the devices of a
list. (Inductor mostly has a shorter way, with generators that share a state, which has no list.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._C import DispatchKey
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

from torch_openreg.openreg.random import get_rng_state, set_rng_state


# LITERALINCLUDE START: compile-random-state
def _device(arguments: tuple[Any, ...], named: dict[str, Any]) -> torch.device | None:
    """Where an operator computes, if it is this device."""
    given = (torch.device(named["device"]) if named.get("device") else None, *arguments)
    devices = (each.device if isinstance(each, Tensor) else each for each in given)
    device = next((each for each in devices if isinstance(each, torch.device)), None)
    return device if device is not None and device.type == "openreg" else None


# Positional, because operators have an argument `device`, too.
def _run_and_save(device: torch.device, op: Callable[..., Any], /, *arguments: Any, **named: Any) -> tuple[Tensor, Any]:
    return get_rng_state(device), op(*arguments, **named)


def _run_with(device: torch.device, state: Tensor, op: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    current = get_rng_state(device)
    set_rng_state(state.cpu(), device)
    try:
        return op(*arguments, **named)
    finally:
        set_rng_state(current, device)


def repeat_random_operators() -> None:
    """Adds the device to the functions that choose by it.

    Without the patch, dropout under `checkpoint` fails with `fallback_random`, and with two devices in a graph.
    """
    _replace_choice(run_and_save_rng_state, _run_and_save, 1)
    _replace_choice(run_with_rng_state, _run_with, 2)


def _replace_choice(run: Any, ours: Callable[..., Any], before: int) -> None:
    # `before`: how many arguments come before those of the operator.
    original = run.py_kernels[DispatchKey.BackendSelect]

    def chosen(*arguments: Any, **named: Any) -> Any:
        device = _device(arguments[before:], named)
        return original(*arguments, **named) if device is None else ours(device, *arguments, **named)

    run.py_kernels[DispatchKey.BackendSelect] = chosen
    run._dispatch_cache.clear()
    # Two more call it, not through the table: what predicts the results, and what records a graph.
    for caller in (registered_hop_fake_fns[run], run.python_key_table[ProxyTorchDispatchMode]):
        for cell in caller.__closure__ or ():
            if cell.cell_contents is original:
                cell.cell_contents = chosen


# LITERALINCLUDE END: compile-random-state
