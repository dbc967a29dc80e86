"""Replays draw new random numbers, the same that eager calls draw."""

from __future__ import annotations

import torch
from torch.nn.functional import dropout, scaled_dot_product_attention


# LITERALINCLUDE START: graph-random
def main() -> None:
    """Compares two replays with two eager calls."""
    x = torch.ones(8, device="openreg")
    heads = torch.ones(1, 1, 4, 2, device="openreg")

    def work() -> torch.Tensor:
        weighted = scaled_dot_product_attention(heads, heads, heads, dropout_p=0.5)
        return dropout(x, 0.5) + torch.rand(8, device="openreg") + weighted.flatten()

    generator = torch.openreg.default_generators[0]
    graph = torch.accelerator.Graph()
    generator.manual_seed(1)
    with torch.Stream(), graph:
        result = work()
    print("offset after the capture:", generator.get_offset())
    replays = []
    for _ in range(2):
        graph.replay()
        replays.append(result.cpu())
    print("offset after two replays:", generator.get_offset())
    generator.manual_seed(1)
    eager = [work().cpu(), work().cpu()]
    print("same as eager:", all(map(torch.equal, replays, eager)), "- the same twice:", torch.equal(*replays))

    own = torch.Generator("openreg").manual_seed(7)
    other = torch.accelerator.Graph()
    with torch.Stream(), other:
        drawn = torch.rand(2, device="openreg", generator=own)
    other.replay()
    again = torch.rand(2, device="openreg", generator=torch.Generator("openreg").manual_seed(7))
    print("a generator of the program:", torch.equal(drawn.cpu(), again.cpu()), own.get_offset())


# LITERALINCLUDE END: graph-random

if __name__ == "__main__":
    main()
