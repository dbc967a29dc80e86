"""Leaves out one part of flex attention after another, and prints what a compiled call and its derivative give then."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch._functorch import config as autograd_config
from torch._inductor import config

# Otherwise an earlier run's code would be found, and Inductor would start threads, which a fork does not survive.
autograd_config.enable_autograd_cache = config.fx_graph_cache = False
config.compile_threads = 1

# ruff: noqa: E402 - the configuration comes before what reads it
import torch._inductor.compile_fx
from torch import Tensor
from torch._higher_order_ops.flex_attention import flex_attention as operator
from torch.nn.attention import flex_attention as public

from torch_openreg.compile import flex_pass, patches


# LITERALINCLUDE START: flex-without-cases
def refuse_the_device() -> None:
    """Puts back PyTorch's own check."""
    public._validate_device = public._validate_device.__wrapped__


def without_autocast() -> None:
    """Takes back what is registered for autocast."""
    operator.py_kernels.pop(torch._C._dispatch_key_parse("AutocastPrivateUse1"))


def without_pass() -> None:
    """Takes the patch that registers the pass out of the list."""
    for release, listed in patches.PATCHES.items():
        patches.PATCHES[release] = tuple(patch for patch in listed if patch.__name__ != "_compose_flex_attention")


def without(name: str, instead: Callable[..., Any]) -> Callable[[], None]:
    """Puts something that does nothing in the place of a part of the pass."""
    return lambda: setattr(flex_pass, name, instead)


# What is left out, how, and the dtype of the call that notices.
CASES: tuple[tuple[str, Callable[[], None], torch.dtype], ...] = (
    ("nothing", lambda: None, torch.float32),
    ("the device in PyTorch's check", refuse_the_device, torch.float32),
    ("its autocast", without_autocast, torch.bfloat16),
    ("the pass", without_pass, torch.float32),
    ("_NumbersInTheGraph", without("_NumbersInTheGraph", lambda device: contextlib.nullcontext()), torch.float32),
    ("_learned", without("_learned", lambda buffers: contextlib.nullcontext()), torch.float32),
    ("float32 statistics", without("_forward", flex_pass.sdpa_dense), torch.float64),
)
# LITERALINCLUDE END: flex-without-cases


def attempt(leave_out: Callable[[], None], dtype: torch.dtype) -> str:
    """Attention over the current and the last position, with a bias that is learned, and its gradient."""
    leave_out()
    logging.disable()  # Inductor logs the node that it was at
    given = torch.promote_types(dtype, torch.float32)
    on_device: dict[str, Any] = {"device": "openreg", "dtype": given}
    query, key = (torch.arange(32.0, **on_device).view(1, 1, 2, 16) / 32 for _ in range(2))
    value = torch.tensor([[1.0], [3.0]], **on_device).expand(1, 1, 2, 16)
    bias = torch.zeros(2, requires_grad=True, **on_device)

    def add_bias(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        changed: Tensor = score + bias[key]
        return changed

    attend: Any = torch.compile(public.flex_attention)
    try:
        with torch.autocast("openreg", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            attended = attend(query, key, value, score_mod=add_bias)
        attended[..., 0].sum().backward()
    except Exception as error:
        cause = getattr(error, "inner_exception", error)
        return f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]}"[:150].rstrip()
    of_bias = None if bias.grad is None else [round(each, 4) for each in bias.grad.tolist()]
    return f"{[round(each, 4) for each in attended[0, 0, :, 0].tolist()]}, gradient of the bias {of_bias}"


def main() -> None:
    """Tries each in a process of its own, forked before the device is used."""
    for name, leave_out, dtype in CASES:
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            try:
                print(f"without {name}: {attempt(leave_out, dtype)}", flush=True)
            finally:
                os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
