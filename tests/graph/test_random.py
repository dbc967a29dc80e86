"""Random numbers: every replay draws new ones, the same as eager mode at the same offset."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from tests.graph.capture import captured, module, replayed
from tests.offers import LAST_DEVICE

pytestmark = pytest.mark.needs("graphs", "kernels")


def test_replays_draw_what_eager_calls_would() -> None:
    x = torch.ones(1000, device=LAST_DEVICE)

    def work() -> list[torch.Tensor]:
        return [
            functional.dropout(x, 0.3),
            torch.rand_like(x),
            torch.randint(9, (50,), device=LAST_DEVICE),
            torch.empty_like(x).bernoulli_(0.4),
            torch.normal(x, 2),
            torch.randperm(40, device=LAST_DEVICE),
        ]

    torch.manual_seed(11)
    graph, results = captured(work)
    torch.manual_seed(11)
    expected = [[value.cpu() for value in work()] for _ in range(3)]
    torch.manual_seed(11)
    for wanted in expected:
        replayed(graph)
        for value, other in zip(results, wanted, strict=True):
            assert torch.equal(value.cpu(), other)
    assert not torch.equal(expected[0][1], expected[1][1])


def test_the_capture_itself_draws_nothing() -> None:
    generator = module.default_generators[torch.device(LAST_DEVICE).index]
    generator.manual_seed(5)
    graph, _ = captured(lambda: torch.rand(7, device=LAST_DEVICE))
    assert generator.get_offset() == 0
    graph.replay()
    graph.replay()
    assert generator.get_offset() == 14


def test_a_generator_of_the_program_is_registered_when_it_is_drawn_from() -> None:
    mine = torch.Generator(LAST_DEVICE).manual_seed(1)
    graph, (a, b) = captured(
        lambda: (torch.rand(5, device=LAST_DEVICE, generator=mine), torch.rand(5, device=LAST_DEVICE))
    )
    torch.manual_seed(2)
    replayed(graph)
    other = torch.Generator(LAST_DEVICE).manual_seed(1)
    assert torch.equal(a.cpu(), torch.rand(5, device=LAST_DEVICE, generator=other).cpu())
    torch.manual_seed(2)
    assert torch.equal(b.cpu(), torch.rand(5, device=LAST_DEVICE).cpu())
    mine.manual_seed(1)
    replayed(graph)
    other.manual_seed(1)
    assert torch.equal(a.cpu(), torch.rand(5, device=LAST_DEVICE, generator=other).cpu())


def test_attention_with_dropout_and_its_backward() -> None:
    query = torch.randn(1, 2, 6, 4).to(LAST_DEVICE).requires_grad_()

    def work() -> tuple[torch.Tensor, torch.Tensor]:
        output = functional.scaled_dot_product_attention(query, query, query, dropout_p=0.4)
        (gradient,) = torch.autograd.grad(output.sum(), query)
        return output.detach(), gradient

    graph, results = captured(work)
    torch.manual_seed(3)
    expected = [[value.cpu() for value in work()] for _ in range(2)]
    torch.manual_seed(3)
    for wanted in expected:
        replayed(graph)
        for value, other in zip(results, wanted, strict=True):
            torch.testing.assert_close(value.cpu(), other)


@pytest.mark.parametrize(
    "change",
    [
        lambda generator: generator.manual_seed(1),
        lambda generator: generator.set_offset(4),
        lambda generator: generator.set_state(torch.zeros(16, dtype=torch.uint8)),
    ],
)
def test_a_generator_cannot_be_set_in_a_capture(change: Callable[[torch.Generator], object]) -> None:
    generator = module.default_generators[torch.device(LAST_DEVICE).index]
    with pytest.raises(RuntimeError, match="cannot be set while a graph is captured: a replay draws from where"):
        captured(lambda: change(generator))


def assert_replays_draw_as_eager_calls(work: Callable[[], torch.Tensor]) -> None:
    work()  # what happens in the first call only
    graph, result = captured(work)
    torch.manual_seed(3)
    expected = [work().cpu() for _ in range(3)]
    torch.manual_seed(3)
    for wanted in expected:
        replayed(graph)
        torch.testing.assert_close(result.cpu(), wanted)
    assert not torch.equal(*expected[:2])


def test_memory_of_earlier_kernels_is_not_that_of_the_start() -> None:
    """Kernels of a replay that run before the first draw write into memory that the capture has freed since."""
    x = torch.ones(8, device=LAST_DEVICE)

    def work() -> torch.Tensor:
        a, b, c = x * 2, x + 1, x - 1
        assert (a + b + c).numel() == 8
        del a, b, c
        return torch.rand(8, device=LAST_DEVICE)

    assert_replays_draw_as_eager_calls(work)


def test_attention_by_single_operators() -> None:
    q = torch.randn(1, 2, 4, 8, device=LAST_DEVICE)

    def work() -> torch.Tensor:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return functional.scaled_dot_product_attention(q, q, q, dropout_p=0.5)

    assert_replays_draw_as_eager_calls(work)


def test_replays_on_two_streams_draw_different_numbers() -> None:
    total = torch.zeros(100, device=LAST_DEVICE)

    def work() -> torch.Tensor:
        torch.openreg._sleep(30_000_000)
        return total.add_(torch.rand(100, device=LAST_DEVICE))

    graph, _ = captured(work)
    total.zero_()
    torch.manual_seed(3)
    expected = sum(torch.rand(100, device=LAST_DEVICE).cpu() for _ in range(2))
    torch.manual_seed(3)
    torch.accelerator.synchronize(LAST_DEVICE)
    for stream in (torch.Stream(LAST_DEVICE), torch.Stream(LAST_DEVICE)):
        with stream:
            graph.replay()
    torch.accelerator.synchronize(LAST_DEVICE)
    torch.testing.assert_close(total.cpu(), expected)


def test_probabilities_on_the_device_are_not_read_in_a_capture() -> None:
    p = torch.linspace(0, 1, 1000, device=LAST_DEVICE)
    torch.accelerator.synchronize(LAST_DEVICE)
    assert_replays_draw_as_eager_calls(lambda: torch.bernoulli(p))
    graph, drawn = captured(lambda: torch.bernoulli(p))
    p.copy_(torch.tensor([-1.0, 2.0]).repeat(500))  # eager mode refuses these
    replayed(graph)
    assert drawn.tolist() == [0.0, 1.0] * 500


@pytest.mark.needs("two devices")
def test_the_start_of_a_replay_is_on_the_device_that_draws() -> None:
    """Also if another device is current, as in a kernel that is called without a guard."""
    x, allocated = torch.zeros(4, device="openreg:1"), module.memory_allocated
    before = [allocated(index) for index in (0, 1)]
    with torch.Stream("openreg:1"):
        graph = torch.accelerator.Graph()
        graph.capture_begin()
        with module.device(0):
            x.uniform_()
        graph.capture_end()
    assert [allocated(index) > earlier for index, earlier in enumerate(before)] == [False, True]
