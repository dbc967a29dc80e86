"""Captures two operators on a stream, changes the input, and replays."""

from __future__ import annotations

import torch


# LITERALINCLUDE START: graph-first
def main() -> None:
    """Prints the result after the capture and after two replays."""
    x = torch.zeros(3, device="openreg")
    y = torch.full((3,), -1.0, device="openreg")
    stream = torch.Stream()
    graph = torch.accelerator.Graph()
    with stream, graph:
        torch.add(x * 2, 1, out=y)
        print("captured:", stream.is_capturing(), torch.openreg.is_current_stream_capturing())
    print("after the capture:", y.tolist(), stream.is_capturing())
    for value in (1.0, 5.0):
        x.fill_(value)
        graph.replay()
        print(f"replayed with {value}:", y.tolist())


# LITERALINCLUDE END: graph-first

if __name__ == "__main__":
    main()
