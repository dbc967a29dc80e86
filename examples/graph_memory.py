"""Shows what memory a graph holds, shares and returns."""

from __future__ import annotations

import torch

MIB = 1 << 20


# LITERALINCLUDE START: graph-memory
def held() -> int:
    """MiB of the device that PyTorch holds, without its cache."""
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    return int(torch.openreg.memory_reserved()) // MIB


def chain(x: torch.Tensor) -> torch.Tensor:
    """Four operators, whose results die one after the other."""
    for _ in range(4):
        x = x + 1
    return x.sum()


def main() -> None:
    """Prints it for one graph, for two that share a pool, and after their ends."""
    x = torch.zeros(4 * MIB, device="openreg")
    print("before:", held())
    stream = torch.Stream()
    first = torch.accelerator.Graph(pool=torch.openreg.graph_pool_handle())
    with stream, first:
        total = chain(x)
    print("one graph:", held())
    second = torch.accelerator.Graph(pool=first.pool())
    with stream, second:
        twice = chain(x * 2)
    print("two with one pool:", held())
    with stream:
        other = torch.full((12 * MIB,), 7.0, device="openreg")
    stream.synchronize()
    first.replay()
    print("replayed:", total.item() / x.numel(), "- a new tensor is untouched:", bool((other == 7).all()))
    x.fill_(1)
    second.replay()
    print("replayed:", twice.item() / x.numel())
    del other
    first.reset()
    print("after the first reset:", held())
    second.reset()
    del total, twice
    print("after the second:", held())
    for _ in range(3):
        graph = torch.accelerator.Graph()
        with stream:
            graph.capture_begin()  # `with graph:` would empty the cache first
            chain(x)
            graph.capture_end()
        print("with the graph of the turn:", torch.openreg.memory_reserved() // MIB)
        del graph


# LITERALINCLUDE END: graph-memory

if __name__ == "__main__":
    main()
