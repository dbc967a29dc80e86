"""Random numbers: a seed determines them, on each device."""

from __future__ import annotations

import pytest
import torch

DRAWS = {
    "rand": lambda: torch.rand(5, device="remote"),
    "randint": lambda: torch.randint(100, (5,), device="remote"),
    "randperm": lambda: torch.randperm(20, device="remote"),
    "dropout": lambda: torch.nn.functional.dropout(torch.ones(50, device="remote")),
    "multinomial": lambda: torch.ones(9, device="remote").multinomial(4),
    "bernoulli": lambda: torch.full((40,), 0.5, device="remote").bernoulli(),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_a_seed_repeats(draw: str) -> None:
    """The same seed gives the same numbers; without reseeding they differ."""
    torch.manual_seed(3)
    first, second = DRAWS[draw]().tolist(), DRAWS[draw]().tolist()
    torch.manual_seed(3)
    assert (DRAWS[draw]().tolist(), DRAWS[draw]().tolist()) == (first, second)
    assert first != second


def test_the_state_repeats() -> None:
    """set_rng_state restores what get_rng_state returned; fork_rng restores the state too."""
    state = torch.remote.get_rng_state()
    first = torch.rand(3, device="remote").tolist()
    torch.remote.set_rng_state(state)
    assert torch.rand(3, device="remote").tolist() == first
    with torch.random.fork_rng(device_type="remote", devices=[0]):
        inside = torch.rand(3, device="remote").tolist()
    assert torch.rand(3, device="remote").tolist() == inside


@pytest.mark.parametrize("seed", [-1, 0, 1 << 63, (1 << 64) - 1])
def test_every_seed_is_kept(seed: int) -> None:
    """Seeds have 64 bits without a sign, as on the CPU; half of those of ``torch.seed()`` need the last bit."""
    torch.manual_seed(seed)
    assert torch.remote.initial_seed() == torch.initial_seed() == seed % (1 << 64)
    state = torch.remote.get_rng_state()
    first = torch.rand(3, device="remote").tolist()
    torch.manual_seed(3)
    torch.remote.set_rng_state(state)
    assert torch.remote.initial_seed() == seed % (1 << 64)
    assert torch.rand(3, device="remote").tolist() == first


@pytest.mark.compiled
def test_generators() -> None:
    """A generator of the device is used; one of another device is rejected."""
    generator = torch.Generator("remote:1").manual_seed(5)
    first = torch.rand(3, device="remote:1", generator=generator)
    assert torch.equal(torch.rand(3, device="remote:1", generator=generator.manual_seed(5)).cpu(), first.cpu())
    clone = generator.clone_state()
    values = [torch.rand(2, device="remote:1", generator=one).tolist() for one in (generator, clone)]
    assert values[0] == values[1]
    with pytest.raises(RuntimeError, match=r"Expected a .*generator.*remote"):
        torch.rand(2, device="remote:0").normal_(generator=generator)
    said = "^remote:9 does not exist: TORCH_REMOTE_DEVICES sets how many devices there are, now 2"
    with pytest.raises(RuntimeError, match=said):
        torch.Generator("remote:9")
