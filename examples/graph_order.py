"""Calls of a graph in a wrong order, and captures that other threads disturb or do not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Literal, get_args

import torch

Mode = Literal["default", "thread_local", "relaxed", "global"]


# LITERALINCLUDE START: graph-order
def attempt(name: str, call: Callable[[], object]) -> None:
    """Prints how the call ends."""
    try:
        call()
        print(f"{name}: done")
    except RuntimeError as error:
        print(f"{name}: {error}")


def waiting_elsewhere(mode: Mode) -> torch.accelerator.Graph:
    """Captures while another thread waits for the device."""
    x = torch.zeros(2, device="openreg")
    graph = torch.accelerator.Graph(capture_error_mode=mode)
    with torch.Stream(), graph:
        x.add_(1)
        thread = threading.Thread(target=lambda: attempt(f"synchronize(), {mode}", torch.accelerator.synchronize))
        thread.start()
        thread.join()
    return graph


def main() -> None:
    """Prints each outcome."""
    graph = torch.accelerator.Graph(keep_graph=True)
    for call in (graph.replay, graph.instantiate, graph.capture_end, graph.pool):
        attempt(call.__name__, call)
    attempt("on the default stream", graph.capture_begin)
    x = torch.zeros(2, device="openreg")
    with torch.Stream():
        graph.capture_begin()
        x.add_(1)
        attempt("capture_begin, again", graph.capture_begin)
        attempt("another graph, there", torch.accelerator.Graph().capture_begin)
        with torch.Stream():
            attempt("capture_end, elsewhere", graph.capture_end)
            attempt("the same pool twice", torch.accelerator.Graph(pool=graph.pool()).capture_begin)
        graph.capture_end()
    graph.instantiate()
    graph.replay()
    attempt("debug_dump, unwritable", lambda: graph.debug_dump("/no/such/folder/graph.dot"))
    graph.reset()
    with torch.Stream():
        graph.capture_begin()
        x.add_(1)
        graph.reset()  # discards what was captured
        attempt("replay after reset", graph.replay)
    print(x.tolist())
    for mode in get_args(Mode):
        attempt(f"capture, {mode}", partial(waiting_elsewhere, mode))


# LITERALINCLUDE END: graph-order

if __name__ == "__main__":
    main()
