"""Replays compute what the captured operators would compute, against eager mode and the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.graph.capture import captured, captured_over_both, replayed
from tests.offers import DEVICES, LAST_DEVICE

pytestmark = pytest.mark.needs("graphs", "kernels")


def network() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 36, 5),
        nn.LayerNorm(5),
    )


def inputs(count: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randn(4, 3, 6, 6, generator=generator) for _ in range(count)]


def test_inference_matches_the_cpu_for_every_input() -> None:
    reference, model = network().eval(), network().eval().to(LAST_DEVICE)
    static = torch.empty(4, 3, 6, 6, device=LAST_DEVICE)
    with torch.no_grad():
        graph, output = captured(lambda: model(static))
        for batch in inputs(3):
            static.copy_(batch)
            replayed(graph)
            torch.testing.assert_close(output.cpu(), reference(batch))


@pytest.mark.parametrize("optimizer", ["manual", "sgd", "adam"])
def test_training_matches_the_cpu_step_by_step(optimizer: str) -> None:
    """Forward, backward and update in one graph: weights and buffers after each of several replays."""

    def make(device: str) -> tuple[nn.Module, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]]:
        model = network().to(device)
        if optimizer == "sgd":
            update: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        elif optimizer == "adam":
            update = torch.optim.Adam(model.parameters(), lr=0.01, capturable=device != "cpu")

        def step(batch: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            model.zero_grad(set_to_none=True)
            loss = nn.functional.mse_loss(model(batch), target)
            loss.backward()
            if optimizer != "manual":
                update.step()
            else:
                with torch.no_grad():
                    for parameter in model.parameters():
                        assert parameter.grad is not None
                        parameter.sub_(parameter.grad, alpha=0.1)
            return loss.detach()

        return model, step

    target = torch.linspace(-1, 1, 20).reshape(4, 5)
    batches = inputs(6)
    reference, reference_step = make("cpu")
    model, step = make(LAST_DEVICE)
    static, static_target = batches[0].to(LAST_DEVICE), target.to(LAST_DEVICE)
    stream = torch.Stream(device=LAST_DEVICE)
    with stream:  # the optimizer creates its state in its first steps, which a graph must not repeat
        for batch in batches[:2]:
            static.copy_(batch)
            step(static, static_target)
            reference_step(batch, target)
    graph, loss = captured(lambda: step(static, static_target), stream=stream)
    for batch in batches[2:]:
        static.copy_(batch)
        replayed(graph)
        expected = reference_step(batch, target)
        torch.testing.assert_close(loss.cpu(), expected, rtol=1e-4, atol=1e-5)
    for (name, value), (_, wanted) in zip(model.state_dict().items(), reference.state_dict().items(), strict=True):
        torch.testing.assert_close(value.cpu(), wanted, rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.complex64])
def test_dtypes_strides_and_views(dtype: torch.dtype) -> None:
    source = torch.arange(48).reshape(6, 8).to(dtype)
    static = torch.zeros_like(source, device=LAST_DEVICE)

    def work(x: torch.Tensor) -> list[torch.Tensor]:
        return [x.t()[::2] + x.t()[1::2], x[:, 3:5] * 2, x.expand(2, 6, 8).sum(0), x[1:1].clone(), x[2, 3] + 1]

    graph, results = captured(lambda: work(static))
    static.copy_(source)
    replayed(graph)
    for result, expected in zip(results, work(source), strict=True):
        torch.testing.assert_close(result.cpu(), expected)


def test_nothing_runs_before_the_first_replay() -> None:
    x = torch.zeros(4, device=LAST_DEVICE)
    graph, _ = captured(lambda: x.add_(1))
    torch.accelerator.synchronize()
    assert x.cpu().tolist() == [0.0] * 4
    for _ in range(3):
        graph.replay()
    assert x.cpu().tolist() == [3.0] * 4


def test_a_replay_runs_in_the_order_of_the_stream_that_it_is_launched_on() -> None:
    x = torch.zeros(1 << 12, device=LAST_DEVICE)
    graph, _ = captured(lambda: x.mul_(2).add_(1))
    for stream in (torch.Stream(device=LAST_DEVICE), torch.accelerator.current_stream(LAST_DEVICE)):
        with stream:
            x.fill_(3)
            graph.replay()
            x.mul_(10)
            graph.replay()
            stream.synchronize()
        assert x.cpu().unique().tolist() == [141.0]


@pytest.mark.needs("two devices")
def test_a_graph_belongs_to_the_device_that_was_captured() -> None:
    results = []
    for device in DEVICES:
        x = torch.full((5,), 2.0, device=device)
        graph = torch.accelerator.Graph()
        with torch.Stream(device=device), graph:
            y = x * 3
        results.append((graph, x, y))
    for graph, x, y in results:
        x.fill_(4)
        torch.accelerator.synchronize(x.device)
        graph.replay()  # whatever the current device is
        torch.accelerator.synchronize(x.device)
        assert y.cpu().tolist() == [12.0] * 5


@pytest.mark.needs("two devices", "queue")
def test_a_device_waits_for_a_graph_of_another_that_uses_it() -> None:
    stream = torch.Stream(device="openreg:0")
    x, result = (torch.full((1000,), value, device="openreg:1") for value in (2.0, 0.0))
    torch.accelerator.synchronize(1)

    def work() -> torch.Tensor:
        torch.openreg._sleep(200_000_000)
        return result.copy_(x * 3)

    graph, _ = captured_over_both(work, stream=stream)
    with stream:
        graph.replay()
    torch.accelerator.synchronize(1)
    assert result.tolist() == [6.0] * 1000  # read on a stream that does not wait for the graph's


@pytest.mark.needs("two devices", "queue")
def test_memory_is_not_freed_before_a_graph_of_another_device_has_used_it() -> None:
    stream = torch.Stream(device="openreg:0")
    held = [torch.zeros(4 << 20, device="openreg:1")]  # a segment of its own
    torch.accelerator.synchronize(1)

    def work() -> None:
        torch.openreg._sleep(200_000_000)
        held[0].add_(1)

    graph, _ = captured_over_both(work, stream=stream)
    with stream:
        graph.replay()
    reserved = torch.accelerator.memory_reserved(1)
    held.clear()
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved(1) <= reserved - (16 << 20)
    assert stream.query()


def test_pinned_copies_are_captured_in_both_directions() -> None:
    source, result = torch.arange(6.0).pin_memory(), torch.zeros(6).pin_memory()

    def work() -> torch.Tensor:
        on_device = source.to(LAST_DEVICE, non_blocking=True)
        result.copy_(on_device + 1, non_blocking=True)
        return on_device

    graph, kept = captured(work)
    for scale in (1.0, 5.0):
        source.copy_(torch.arange(6.0) * scale)
        replayed(graph)
        assert result.tolist() == [value * scale + 1 for value in range(6)]
    assert kept.cpu().tolist() == source.tolist()


def test_a_kernel_error_of_a_replay_reaches_the_next_wait() -> None:
    """The arguments are values on the device, which only a replay reads."""
    index = torch.zeros(3, dtype=torch.long, device=LAST_DEVICE)
    table = torch.arange(4.0, device=LAST_DEVICE)
    graph, rows = captured(lambda: table.index_select(0, index))
    replayed(graph)
    assert rows.cpu().tolist() == [0.0] * 3
    index.fill_(9)
    torch.accelerator.synchronize()
    with pytest.raises((IndexError, RuntimeError), match=r"index out of range|out of bounds"):
        replayed(graph)
    index.fill_(2)
    replayed(graph)
    assert rows.cpu().tolist() == [2.0] * 3


def test_work_of_forked_streams_is_captured() -> None:
    x = torch.ones(1 << 10, device=LAST_DEVICE)
    main, side = torch.Stream(device=LAST_DEVICE), torch.Stream(device=LAST_DEVICE)

    def work() -> tuple[torch.Tensor, torch.Tensor]:
        a = x * 2
        side.wait_stream(main)
        with side:
            b = a + 10
        c = a * a
        main.wait_stream(side)
        return b, b + c

    graph, (b, total) = captured(work, stream=main)
    for value in (1.0, 3.0):
        x.fill_(value)
        replayed(graph)
        assert b.cpu().unique().tolist() == [value * 2 + 10]
        assert total.cpu().unique().tolist() == [value * 2 + 10 + (value * 2) ** 2]
    with side:  # joined only until the capture ended
        assert (x + 1).cpu().unique().tolist() == [4.0]


@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda x, h, i: x + h, id="mixed floats"),
        pytest.param(lambda x, h, i: x * i, id="integers"),
        pytest.param(lambda x, h, i: torch.maximum(x, i), id="maximum"),
        pytest.param(
            lambda x, h, i: torch.sin(x, out=torch.empty_like(x, dtype=torch.float64)), id="out of another dtype"
        ),
        pytest.param(lambda x, h, i: i.clamp(min=2.5), id="a number of another kind"),
        pytest.param(lambda x, h, i: i.sqrt(), id="from integers"),
    ],
)
def test_operands_that_are_converted_are_converted_again(work: Callable[..., torch.Tensor]) -> None:
    shapes = [torch.empty(3, dtype=dtype, device=LAST_DEVICE) for dtype in (torch.float32, torch.bfloat16, torch.int64)]
    for tensor in shapes:
        tensor.fill_(1)
    graph, output = captured(lambda: work(*shapes))
    for value in (4, 9, 16):
        for tensor in shapes:
            tensor.fill_(value)
        replayed(graph)
        torch.testing.assert_close(output.cpu(), work(*(tensor.cpu() for tensor in shapes)))
