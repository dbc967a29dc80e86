"""Shared by the tests of graphs: capture a function, and replay it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar

import torch

from tests.offers import LAST_DEVICE

T = TypeVar("T")
Mode = Literal["default", "global", "thread_local", "relaxed"]

module = torch.get_device_module("openreg")


def captured(
    function: Callable[[], T],
    *,
    pool: tuple[int, int] | None = None,
    stream: torch.Stream | None = None,
    mode: Mode = "default",
) -> tuple[torch.accelerator.Graph, T]:
    """The graph of the function's work on a stream of its own, and what the function returned."""
    graph = torch.accelerator.Graph(pool=pool, capture_error_mode=mode)
    with stream or torch.Stream(device=LAST_DEVICE), graph:
        result = function()
    return graph, result


def captured_over_both(
    function: Callable[[], T], *, stream: torch.Stream | None = None, side: torch.Stream | None = None
) -> tuple[torch.accelerator.Graph, T]:
    """The graph of a stream of openreg:0 that one of openreg:1 joins, and what the function returned there."""
    stream, side = stream or torch.Stream(device="openreg:0"), side or torch.Stream(device="openreg:1")
    graph = torch.accelerator.Graph()
    with stream, graph:
        side.wait_event(stream.record_event())
        with side:
            result = function()
        stream.wait_event(side.record_event())
    return graph, result


def replayed(graph: torch.accelerator.Graph) -> None:
    """Replays on the current stream, and waits."""
    graph.replay()
    torch.accelerator.synchronize(LAST_DEVICE)
