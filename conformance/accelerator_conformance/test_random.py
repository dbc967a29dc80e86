"""Random numbers: seeds, states, generators, and the distribution of the numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from accelerator_conformance.checks import chapter, level, not_offered, optional

pytestmark = chapter("random")
COUNT = 20_000

DRAWS: dict[str, Callable[..., torch.Tensor]] = {
    "rand": lambda device, generator=None: torch.rand(100, device=device, generator=generator),
    "randn": lambda device, generator=None: torch.randn(100, device=device, generator=generator),
    "randint": lambda device, generator=None: torch.randint(1 << 40, (100,), device=device, generator=generator),
    "bernoulli": lambda device, generator=None: torch.full((100,), 0.5, device=device).bernoulli(generator=generator),
    "randperm": lambda device, generator=None: torch.randperm(100, device=device, generator=generator),
    "multinomial": lambda device, generator=None: torch.multinomial(
        torch.ones(50, device=device), 20, generator=generator
    ),
}


@pytest.mark.parametrize("draw", DRAWS)
def test_seed_repeats(device: str, draw: str) -> None:
    """The same seed gives the same numbers, and another seed gives others."""
    torch.manual_seed(5)
    first, second = DRAWS[draw](device).cpu(), DRAWS[draw](device).cpu()
    torch.manual_seed(5)
    again = DRAWS[draw](device).cpu()
    torch.manual_seed(6)
    after_another = DRAWS[draw](device).cpu()
    assert torch.equal(first, again), "torch.manual_seed does not seed the device"
    assert not torch.equal(first, second), "the same numbers are drawn each time"
    assert not torch.equal(first, after_another), "the seed is ignored"


def test_state_is_kept_and_restored(device: str, module: Any) -> None:
    """get_rng_state and set_rng_state restore the generator; the state is a CPU tensor of bytes."""
    torch.manual_seed(1)
    DRAWS["randn"](device)
    state = module.get_rng_state()
    assert (state.device.type, state.dtype) == ("cpu", torch.uint8)
    first = DRAWS["randn"](device).cpu()
    module.set_rng_state(state)
    assert torch.equal(DRAWS["randn"](device).cpu(), first), "the state was not restored"


@pytest.mark.parametrize("draw", DRAWS)
def test_generator_is_obeyed(device: str, module: Any, draw: str) -> None:
    """An operator draws from the generator that it is given, and leaves the default one alone."""
    generator = torch.Generator(device).manual_seed(7)
    before = module.get_rng_state()
    first = DRAWS[draw](device, generator=generator).cpu()
    assert torch.equal(module.get_rng_state(), before), "the default generator was drawn from"
    again = DRAWS[draw](device, generator=generator.manual_seed(7)).cpu()
    assert torch.equal(first, again), "the generator is ignored"


def test_generator_has_a_state(device: str) -> None:
    """A generator's state can be read and set, and it knows its seed."""
    generator = torch.Generator(device).manual_seed(3)
    assert generator.initial_seed() == 3
    state = generator.get_state()
    first = torch.rand(8, device=device, generator=generator).cpu()
    twin = torch.Generator(device)
    twin.set_state(state)
    assert torch.equal(torch.rand(8, device=device, generator=twin).cpu(), first)
    assert generator.seed() != generator.seed()


@level("usable")
def test_generator_is_cloned(device: str) -> None:
    """`clone_impl`: the clone of a generator is on its device, and draws the same numbers independently."""
    generator = torch.Generator(device).manual_seed(3)
    torch.rand(8, device=device, generator=generator)
    clone = generator.clone_state()
    assert clone.device == generator.device, f"the clone of a generator of {generator.device} is on {clone.device}"
    first = torch.rand(8, device=device, generator=generator).cpu()
    assert torch.equal(torch.rand(8, device=device, generator=clone).cpu(), first), "a clone draws other numbers"


@level("usable")
def test_generator_has_an_offset(device: str) -> None:
    """`set_offset` and get_offset: a generator returns to a position in its sequence, for graphs and DTensor."""
    generator = torch.Generator(device).manual_seed(3)
    try:
        torch.rand(8, device=device, generator=generator)
        offset = generator.get_offset()
    except RuntimeError as error:
        not_offered(str(error).partition("\n")[0])
    first = torch.rand(8, device=device, generator=generator).cpu()
    assert generator.get_offset() > offset, "the offset stays where it is, whatever is drawn"
    generator.set_offset(offset)
    assert torch.equal(torch.rand(8, device=device, generator=generator).cpu(), first), "the offset is not obeyed"
    assert generator.initial_seed() == 3


def test_generator_of_the_cpu_is_refused(device: str) -> None:
    """A generator of another device is an error, not ignored."""
    with pytest.raises((RuntimeError, ValueError)):
        torch.rand(4, device=device, generator=torch.Generator("cpu"))


@level("usable")
@chapter("frontend")
def test_fork_rng(device: str, module: Any) -> None:
    """torch.random.fork_rng preserves the state of the device."""
    before = module.get_rng_state()
    with torch.random.fork_rng(device_type=device):
        torch.rand(100, device=device)
    assert torch.equal(module.get_rng_state(), before), "what was drawn inside is missing outside"


def test_devices_draw_for_themselves(module: Any, other: torch.device) -> None:
    """Each device has a generator of its own."""
    before = module.get_rng_state(0)
    torch.rand(100, device=other)
    assert torch.equal(module.get_rng_state(0), before), "the devices share a generator"


@pytest.mark.parametrize(
    ("draw", "mean", "deviation"),
    [
        ("rand", 0.5, 12**-0.5),
        ("randn", 0.0, 1.0),
        ("bernoulli", 0.25, 0.1875**0.5),
        ("exponential", 0.5, 0.5),
        ("log_normal", 1.1331, 0.6039),
    ],
    ids=["rand", "randn", "bernoulli", "exponential", "log_normal"],
)
def test_distribution(device: str, draw: str, mean: float, deviation: float) -> None:
    """Mean and deviation of many numbers are those of the distribution, within six standard errors."""
    torch.manual_seed(0)
    x = torch.zeros(COUNT, device=device)
    fill = {"rand": x.uniform_, "randn": x.normal_}
    {
        **fill,
        "bernoulli": lambda: x.bernoulli_(0.25),
        "exponential": lambda: x.exponential_(2.0),
        "log_normal": lambda: x.log_normal_(0.0, 0.5),
    }[draw]()
    values = x.cpu().double()
    assert abs(values.mean().item() - mean) < 6 * deviation / COUNT**0.5
    assert abs(values.std().item() / deviation - 1) < 0.1
    if draw == "rand":
        assert values.min() >= 0, "uniform numbers begin at 0"
        assert values.max() < 1, "uniform numbers end before 1"


def test_randperm_is_a_permutation(device: str) -> None:
    """Each number occurs once, in another order."""
    drawn = torch.randperm(1000, device=device).cpu()
    assert torch.equal(drawn.sort().values, torch.arange(1000))
    assert not torch.equal(drawn, torch.arange(1000))


@pytest.mark.parametrize("probability", [0.0, 0.3, 1.0])
def test_dropout(device: str, probability: float) -> None:
    """Dropout drops the right share, scales the rest, and its gradient uses the same mask."""
    x = torch.ones(COUNT, device=device, requires_grad=True)
    result = torch.nn.functional.dropout(x, probability)
    result.sum().backward()
    assert x.grad is not None
    kept = result.detach().cpu() != 0
    assert abs(kept.float().mean().item() - (1 - probability)) < 0.03
    scale = 1 / (1 - probability) if probability < 1 else 0.0
    torch.testing.assert_close(result.detach().cpu(), kept * scale)
    torch.testing.assert_close(x.grad.cpu(), kept * scale)


@level("usable")
def test_default_generators_of_the_module(device: str, module: Any) -> None:
    """`default_generators` has one generator per device, the one that operators use."""
    with optional():
        generators = module.default_generators
    if not len(generators):
        module.init()
    assert len(module.default_generators) == torch.accelerator.device_count()
    before = module.default_generators[0].get_state()
    torch.rand(4, device=f"{device}:0")
    after = module.default_generators[0].get_state()
    assert not torch.equal(after, before), "operators use another one"
    assert torch.equal(after, module.get_rng_state(0)), "get_rng_state reads another one"
