"""The race of the page on streams: a producer writes on one stream, and a consumer reads on another."""

from __future__ import annotations

import sys

import torch


# LITERALINCLUDE START: debugging-race
def produce(x: torch.Tensor, stream: torch.Stream) -> None:
    """Queues work that takes a while, and then a write."""
    with stream:
        torch.openreg._sleep(100_000_000)
        x.fill_(7)


def consume(x: torch.Tensor, stream: torch.Stream) -> list[float]:
    """Reads what the producer may or may not have written yet."""
    with stream:
        values: list[float] = x.tolist()
        return values


def main(cure: str) -> None:
    """Produces and consumes, with or without synchronization between the two."""
    producer, consumer = torch.Stream("openreg"), torch.Stream("openreg")
    x = torch.zeros(3, device="openreg")
    torch.accelerator.synchronize()
    produce(x, producer)
    if cure == "wait":
        consumer.wait_stream(producer)
    print(consume(x, consumer))


# LITERALINCLUDE END: debugging-race


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "none")
