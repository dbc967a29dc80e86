"""Captures work of two streams, and prints the graph."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch


# LITERALINCLUDE START: graph-fork
def main() -> None:
    """Prints the recorded work with its order, and the result of a replay."""
    x = torch.full((4,), 3.0, device="openreg")
    main_stream, side = torch.Stream(), torch.Stream()
    graph = torch.accelerator.Graph()
    graph.enable_debug_mode()
    with main_stream, graph:
        a = x * 2
        side.wait_stream(main_stream)  # fork: side waits for an event of the capture, and joins it
        with side:
            b = a.clone()
            b.record_stream(main_stream)
        c = a.exp().zero_()
        main_stream.wait_stream(side)  # join
        total = torch.add(b, c)
        del b  # used on another stream: not reused before the capture has ended
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.dot"
        graph.debug_dump(str(path))
        print(path.read_text(), end="")
    graph.replay()
    print(total.tolist())


# LITERALINCLUDE END: graph-fork

if __name__ == "__main__":
    main()
