"""Compiles in the mode "reduce-overhead", and prints how each call runs: launched, captured, or replayed.

python examples/compile_replay.py first     an inference, a training, and results that the program keeps
python examples/compile_replay.py moved     inputs that move, are written, or come back as results
python examples/compile_replay.py without   what is launched one by one, and why
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

os.environ["OPENREG_FALLBACK_WARNING"] = "off"

import torch
from torch import Tensor
from torch._functorch import config as autograd_config
from torch._inductor import config

# Without a cache, where an earlier run's code would be found.
autograd_config.enable_autograd_cache = False
config.fx_graph_cache = False
config.compile_threads = 1
replayed = functools.partial(torch.compile, mode="reduce-overhead", fullgraph=True, dynamic=False)


def watch() -> list[str]:
    """Fills the returned list with `captured` and `replayed` as compiled graphs are."""
    from torch_openreg.compile import replay

    seen: list[str] = []

    def note(name: str, word: str) -> None:
        original: Callable[..., Any] = getattr(replay._Captured, name)

        def noted(*arguments: Any) -> Any:
            result = original(*arguments)
            seen.append(word)
            return result

        setattr(replay._Captured, name, noted)

    note("__init__", "captured")
    note("replay", "replayed")
    return seen


SEEN = watch()


def how() -> str:
    """How the calls since the last question ran."""
    words = " and ".join(SEEN) or "launched"
    SEEN.clear()
    return words


# LITERALINCLUDE START: compile-replay-first
def wave(x: Tensor) -> Tensor:
    """Two operators, one kernel."""
    return (x * 2).sin()


def first() -> None:
    """Four calls of an inference; results that are kept; a training."""
    call = replayed(wave)
    for value in range(4):
        x = torch.full((4,), float(value), device="openreg")
        print("inference:", how() if call(x).allclose(wave(x)) else "wrong")

    kept, expected = [], []
    for value in range(5):
        x = torch.full((4,), float(value), device="openreg")
        kept.append(call(x))
        expected.append(wave(x))
        print("kept:", how())
    print(torch.stack(kept).allclose(torch.stack(expected)))

    model = torch.nn.Linear(4, 4, bias=False, device="openreg")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # With dynamic=True, sizes are numbers, and a compiled graph has them among its inputs and results.
    compiled = torch.compile(model, mode="reduce-overhead", dynamic=True)
    for _ in range(8):
        optimizer.zero_grad()
        loss = compiled(torch.ones(2, 4, device="openreg")).square().sum()
        forward = how()
        loss.backward()
        optimizer.step()
        print(f"training: forward {forward}, backward {how()}")


# LITERALINCLUDE END: compile-replay-first


# LITERALINCLUDE START: compile-replay-moved
def moved() -> None:
    """Weights at other addresses, an input that is written, results that are inputs, and another stream."""
    layer = torch.nn.Linear(4, 4, bias=False, device="openreg").requires_grad_(False)
    call = replayed(layer)
    weights = [torch.full((4, 4), float(value), device="openreg") for value in range(6)]
    x = torch.ones(4, device="openreg")
    for chosen in (0, 1, 2, 2, 3, 4, 5):
        layer.weight.data = weights[chosen]
        print(f"weight {chosen}:", call(x)[0].item(), how())

    def write(x: Tensor) -> Tensor:
        x += 1
        return x * 2

    call = replayed(write)
    for _ in range(3):
        expected = write(x.clone())
        print("a written input:", call(x).equal(expected), x[0].item(), how())

    parameter = torch.nn.Parameter(torch.ones(2, 2, device="openreg"), requires_grad=False)
    call = replayed(lambda x: (x, parameter.view(4), wave(x), x.shape[0]))
    for _ in range(2):
        results = call(x)
    print("results that are inputs:", results[0] is x, results[1].data_ptr() == parameter.data_ptr(), results[3], how())

    side = torch.Stream()
    call = replayed(wave)
    for value in range(4):
        x = torch.full((4,), float(value), device="openreg")
        result = call(x)
        side.wait_stream(torch.accelerator.current_stream())
        with side:
            on_side = result.clone()
        result.record_stream(side)
        side.synchronize()
        print("read by another stream:", on_side.allclose(wave(x)), how())

    call = replayed(lambda x: wave(x) + 1)
    for value in range(4):
        x = torch.full((4,), float(value), device="openreg")
        result = call(x)
        print("resized by the program:", result.allclose(wave(x) + 1), how())
        result.resize_(5000)
        del result


# LITERALINCLUDE END: compile-replay-moved


class Printed(logging.Handler):
    """Prints what Inductor logs about graphs, without the advice at the end."""

    def emit(self, record: logging.LogRecord) -> None:
        """Prints a line."""
        print("  ", record.getMessage().partition(", while")[0])


EVENT = torch.Event("openreg")


@torch.library.custom_op("compile_replay::not_in_graphs", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def not_in_graphs(x: Tensor) -> Tensor:
    """An operator that must run in each call."""
    return x.clone()


not_in_graphs.register_fake(torch.empty_like)


def with_event(x: Tensor) -> Tensor:
    """Records an event of the program."""
    result = wave(x)
    EVENT.record()
    return result


# LITERALINCLUDE START: compile-replay-without
def without() -> None:
    """What is not captured."""
    log = logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")
    log.handlers, log.propagate = [Printed()], False
    x, matrix = torch.ones(4, device="openreg"), torch.eye(2, device="openreg")
    cases: dict[str, tuple[Callable[..., Tensor], Tensor, dict[str, Any]]] = {
        "an operator on the CPU": (torch.linalg.eigvalsh, matrix, {}),
        "two devices": (lambda x: wave(x).to("openreg:1"), x, {}),
        "an event": (with_event, x, {}),
        "an operator that says so": (lambda x: wave(not_in_graphs(x)), x, {}),
        "told not to": (wave, x, {"force_disable_cudagraph_TESTING_ONLY": True}),
        "no capture left": (wave, x, {"triton.cudagraph_unexpected_rerecord_limit": 0}),
    }
    for name, (function, argument, options) in cases.items():
        torch.compiler.reset()
        call = torch.compile(function, options={"triton.cudagraphs": True, **options})
        for _ in range(3):
            assert call(argument).allclose(function(argument))
        print(f"{name}: {how()}")

    torch.compiler.reset()
    fixed: dict[str, Any] = {"triton.cudagraphs": True, "triton.cudagraph_skip_dynamic_graphs": True}
    call = torch.compile(wave, dynamic=True, options=fixed)
    for _ in range(3):
        call(x)
    print(f"sizes that may change: {how()}")

    torch.compiler.reset()
    call = replayed(wave)
    for _ in range(2):
        call(x)
    how()
    graph = torch.accelerator.Graph()
    with torch.Stream(), graph:
        result = call(x)
    graph.replay()
    print(f"in a capture of the program: {how()}", result.allclose(wave(x)))

    required: dict[str, Any] = {"triton.cudagraphs": True, "triton.cudagraph_or_error": True}
    call = torch.compile(torch.linalg.eigvalsh, options=required)
    call(matrix)
    try:
        call(matrix)
    except RuntimeError as error:
        print(str(error).partition(", while")[0])


# LITERALINCLUDE END: compile-replay-without

if __name__ == "__main__":
    {"first": first, "moved": moved, "without": without}[sys.argv[1]]()
