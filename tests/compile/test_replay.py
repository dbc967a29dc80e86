"""`mode="reduce-overhead"`: compiled graphs that are captured and replayed compute what launches one by one do."""

from __future__ import annotations

import copy
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.layouts import to_device
from tests.offers import LAST_DEVICE

pytestmark = [pytest.mark.usefixtures("inductor"), pytest.mark.needs("graphs")]
MODE = "reduce-overhead"


@pytest.fixture(autouse=True)
def no_skips() -> None:
    """Forgets the graphs that earlier tests did not capture."""
    torch._dynamo.utils.counters.clear()


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Each capture that a test makes."""
    # Not above: Inductor warns when it is imported, and what warns while tests are collected is an error.
    from torch_openreg.compile import replay

    made: list[Any] = []

    class Counted(replay._Captured):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self.replays = 0
            made.append(self)

        def replay(self, inputs: list[Any]) -> list[Any]:
            self.replays += 1
            return super().replay(inputs)

    monkeypatch.setattr(replay, "_Captured", Counted)
    yield made
    made.clear()


def skips() -> int:
    return int(torch._dynamo.utils.counters["inductor"]["cudagraph_skips"])


def chain(x: Tensor, weight: Tensor) -> Tensor:
    return ((x @ weight).relu() + 3).sin() * 2


def test_new_values_in_each_call(captured: list[Any]) -> None:
    compiled = torch.compile(chain, mode=MODE, fullgraph=True)
    weight = torch.randn(8, 8)
    on_device = weight.to(LAST_DEVICE)
    for _ in range(5):
        x = torch.randn(4, 8)
        torch.testing.assert_close(compiled(x.to(LAST_DEVICE), on_device).cpu(), chain(x, weight))
    assert [each.replays for each in captured] == [4]
    assert skips() == 0


def test_a_result_that_the_program_keeps_is_not_overwritten(captured: list[Any]) -> None:
    compiled = torch.compile(chain, mode=MODE, fullgraph=True)
    weight = torch.randn(8, 8)
    inputs = [torch.randn(4, 8) for _ in range(6)]
    kept = [compiled(x.to(LAST_DEVICE), weight.to(LAST_DEVICE)) for x in inputs]
    views = [result[1:] for result in kept]
    del kept
    for x, view in zip(inputs, views, strict=True):
        torch.testing.assert_close(view.cpu(), chain(x, weight)[1:])
    # The second call was captured and replayed. The third found its result in use.
    assert [each.replays for each in captured] == [1, 3]


def test_the_storage_of_a_result_is_not_overwritten(captured: list[Any]) -> None:
    """A program may hold it without a tensor; it is the same object of Python's in each place."""
    compiled = torch.compile(lambda x: x * 2, mode=MODE, fullgraph=True)
    storages = [compiled(torch.full((4,), float(value), device=LAST_DEVICE)).untyped_storage() for value in range(5)]
    read = [torch.empty(0, device=LAST_DEVICE).set_(storage, 0, (4,)) for storage in storages]
    assert [each.tolist() for each in read] == [[2.0 * value] * 4 for value in range(5)]
    assert [each.replays for each in captured] == [1, 2]


def test_a_result_may_be_the_next_input_and_be_changed_in_place() -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, mode=MODE, fullgraph=True)
    x = torch.ones(5, device=LAST_DEVICE)
    for _ in range(6):
        x = compiled(x)
        x += 1
    assert x.tolist() == [2.0**6 * 3 - 2] * 5


def test_memory_that_another_stream_reads_is_not_overwritten() -> None:
    compiled = torch.compile(lambda x: x * 2, mode=MODE, fullgraph=True)
    side, seen = torch.Stream(LAST_DEVICE), []
    with torch.openreg.device(LAST_DEVICE):
        inputs = [torch.full((1000,), float(value), device=LAST_DEVICE) for value in range(6)]
        for x in inputs:
            result = compiled(x)
            side.wait_stream(torch.openreg.current_stream())
            with side:
                torch.openreg._sleep(20_000_000)
                seen.append(result + 0)
            result.record_stream(side)
            del result
        side.synchronize()
    assert [value.cpu().unique().tolist() for value in seen] == [[2.0 * value] for value in range(6)]


@pytest.mark.parametrize("set_to_none", [True, False])
def test_training_like_the_cpu(set_to_none: bool, captured: list[Any]) -> None:
    reference = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.BatchNorm1d(16), nn.Linear(16, 1))
    model = copy.deepcopy(reference).to(LAST_DEVICE)
    compiled = torch.compile(model, mode=MODE)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1, momentum=0.9) for each in (reference, model)]
    losses: list[list[Tensor]] = [[], []]
    for _ in range(8):
        x = torch.randn(6, 8)
        for each, call, data in ((0, reference, x), (1, compiled, x.to(LAST_DEVICE))):
            optimizers[each].zero_grad(set_to_none=set_to_none)
            loss = call(data).square().mean()
            loss.backward()
            optimizers[each].step()
            losses[each].append(loss)
    torch.testing.assert_close(torch.stack(losses[1]).cpu(), torch.stack(losses[0]), rtol=1e-4, atol=1e-5)
    for (name, value), expected in zip(model.state_dict().items(), reference.state_dict().values(), strict=True):
        torch.testing.assert_close(value.cpu(), expected, rtol=1e-4, atol=1e-5, msg=name)
    # Of the forward graph and the backward graph; again, where the program kept what the first capture would overwrite.
    assert 2 <= len(captured) <= 4
    assert sum(each.replays for each in captured) >= 8


def test_two_forward_passes_before_the_backward_pass() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    on_device = copy.deepcopy(model).to(LAST_DEVICE)
    compiled = torch.compile(on_device, mode=MODE)
    for _ in range(5):
        first, second = torch.randn(3, 4), torch.randn(3, 4)
        (model(first) * model(second)).sum().backward()
        (compiled(first.to(LAST_DEVICE)) * compiled(second.to(LAST_DEVICE))).sum().backward()
    for parameter, expected in zip(on_device.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad.cpu(), expected.grad, rtol=1e-4, atol=1e-5)


def test_parameters_that_are_replaced(captured: list[Any]) -> None:
    layer = nn.Linear(4, 4, bias=False)
    on_device = copy.deepcopy(layer).to(LAST_DEVICE).requires_grad_(False)
    compiled = torch.compile(on_device, mode=MODE)
    x = torch.randn(2, 4)
    kept = []
    for value in range(8):
        layer.weight.data = torch.full((4, 4), float(value))
        on_device.weight.data = layer.weight.data.to(LAST_DEVICE)
        kept.append(on_device.weight.data)  # so that no address comes twice
        torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), layer(x))
    assert [each.replays > 0 for each in captured][-1]


def test_dropout_drops_something_else_in_each_replay() -> None:
    compiled = torch.compile(lambda x: nn.functional.dropout(x, 0.5), mode=MODE, fullgraph=True)
    ones = torch.ones(2000, device=LAST_DEVICE)
    torch.manual_seed(5)
    first = [compiled(ones) for _ in range(5)]
    torch.manual_seed(5)
    second = [compiled(ones) for _ in range(5)]
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert not any(torch.equal(a, b) for a, b in itertools.pairwise(first))


def test_results_that_are_inputs_views_numbers_and_nothing() -> None:
    def several(x: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, int, None]:
        y = x + weight
        return x, y.t(), y[1:], weight.view(-1), x.shape[0], None

    compiled = torch.compile(several, mode=MODE, fullgraph=True)
    weight = torch.randn(3, 3)
    on_device = nn.Parameter(weight.to(LAST_DEVICE), requires_grad=False)
    for _ in range(4):
        x = torch.randn(3, 3)
        given = x.to(LAST_DEVICE)
        results = compiled(given, on_device)
        for result, expected in zip(results, several(x, weight), strict=True):
            if isinstance(expected, Tensor):
                torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)
                assert result.stride() == expected.stride()
            else:
                assert result == expected
        assert results[0] is given
        assert results[3].data_ptr() == on_device.data_ptr()


@pytest.mark.parametrize("make", [
    lambda: torch.randn(3, 1).expand(3, 4), lambda: torch.randn(4, 3).t(), lambda: torch.randn(0, 4),
    lambda: torch.randn(()), lambda: torch.randn(7)[::2], lambda: torch.arange(6) > 2, lambda: torch.arange(6),
    lambda: torch.randn(5, dtype=torch.bfloat16), lambda: torch.randn(5, dtype=torch.float16),
])  # fmt: skip
def test_layouts_and_dtypes(make: Callable[[], Tensor]) -> None:
    compiled = torch.compile(lambda x: (x + x, ~x if x.dtype == torch.bool else -x), mode=MODE, fullgraph=True)
    for _ in range(4):
        x = make()
        for result, expected in zip(compiled(to_device(x, LAST_DEVICE)), compiled(x), strict=True):
            torch.testing.assert_close(result.cpu(), expected)


def test_inputs_that_begin_inside_their_memory() -> None:
    compiled = torch.compile(lambda x: x * 2, mode=MODE, fullgraph=True)
    for first in (2, 2, 3, 2):
        x = torch.randn(9)
        torch.testing.assert_close(compiled(x.to(LAST_DEVICE)[first : first + 4]).cpu(), x[first : first + 4] * 2)


@pytest.mark.filterwarnings("ignore:Torchinductor does not support code generation for complex operators")
@pytest.mark.parametrize("change", [
    lambda x: x[:, :3].conj(), lambda x: x.conj(), lambda x: torch._neg_view(x[:, :3]), lambda x: x[:, :3],
])  # fmt: skip
def test_lazily_conjugated_and_negated_inputs(change: Callable[[Tensor], Tensor], captured: list[Any]) -> None:
    """Inputs with gaps are copied byte by byte."""
    compiled = torch.compile(lambda x: x * 2, mode=MODE, fullgraph=True)
    for value in range(4):
        x = torch.complex(torch.arange(32.0).view(4, 8) + value, torch.ones(4, 8))
        torch.testing.assert_close(compiled(change(x.to(LAST_DEVICE))).cpu(), change(x).clone() * 2)
    assert [each.replays for each in captured] == [3]


def test_a_capture_for_each_shape_and_stream(captured: list[Any]) -> None:
    compiled = torch.compile(lambda x: x.sin() + x.shape[0], mode=MODE, fullgraph=True, dynamic=True)
    side = torch.Stream(LAST_DEVICE)
    with torch.openreg.device(LAST_DEVICE):
        for size in (3, 5, 3, 5, 3, 5):
            x = torch.randn(size)
            torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), x.sin() + size)
        assert len(captured) == 2
        for _ in range(3):
            with side:
                result = compiled(x.to(LAST_DEVICE))
                side.synchronize()
                torch.testing.assert_close(result.cpu(), x.sin() + 5)
        assert len(captured) == 3


def test_threads_share_a_compiled_function() -> None:
    compiled = torch.compile(lambda x: (x * 2).sin() + 1, mode=MODE, fullgraph=True)
    wrong: list[float] = []

    def call(value: float) -> None:
        with torch.openreg.device(LAST_DEVICE):
            for _ in range(30):
                x = torch.full((50,), value, device=LAST_DEVICE)
                difference = (compiled(x).cpu() - (x.cpu() * 2).sin() - 1).abs().max().item()
                if not difference <= 1e-6:  # a NaN is wrong, too
                    wrong.append(difference)

    # A capture forbids other threads to wait for the device, so both kinds of call are made before.
    for _ in range(3):
        compiled(torch.ones(50, device=LAST_DEVICE))
    threads = [threading.Thread(target=call, args=(float(value),)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_inside_a_capture_of_the_program() -> None:
    compiled = torch.compile(lambda x: (x * 2).sin(), mode=MODE, fullgraph=True)
    x = torch.randn(10, device=LAST_DEVICE)
    for _ in range(3):
        compiled(x)
    graph = torch.accelerator.Graph()
    with torch.openreg.device(LAST_DEVICE), torch.Stream(LAST_DEVICE), graph:
        result = compiled(x)
    x.fill_(1)
    with torch.openreg.device(LAST_DEVICE):
        graph.replay()
    torch.testing.assert_close(result.cpu(), torch.full((10,), 2.0).sin())


@pytest.mark.needs("two devices")
@pytest.mark.parametrize("current", ["openreg:0", "openreg:1"])
def test_a_capture_of_the_program_concerns_its_own_device(current: str, captured: list[Any]) -> None:
    """What counts is the stream of the compiled graph's device, whichever device is current."""
    compiled = torch.compile(lambda x: (x * 2).sin(), mode=MODE, fullgraph=True)
    inputs = [torch.randn(10, device=f"openreg:{index}") for index in range(2)]
    graph = torch.accelerator.Graph()
    with torch.Stream("openreg:1"):
        for _ in range(3):
            for x in inputs:
                compiled(x)
        assert [each.replays for each in captured] == [2, 2]
        graph.capture_begin()
        with torch.openreg.device(current):
            elsewhere, here = (compiled(x) for x in inputs)
        graph.capture_end()
    assert [each.replays for each in captured] == [3, 2]
    torch.testing.assert_close(elsewhere.cpu(), (inputs[0].cpu() * 2).sin())
    inputs[1].fill_(1)
    torch.openreg.synchronize("openreg:1")
    graph.replay()
    torch.openreg.synchronize("openreg:1")
    torch.testing.assert_close(here.cpu(), torch.full((10,), 2.0).sin())


def test_inference_mode_and_training_take_turns() -> None:
    layer = nn.Linear(4, 2)
    on_device = copy.deepcopy(layer).to(LAST_DEVICE)
    compiled = torch.compile(on_device, mode=MODE)
    for _ in range(4):
        x = torch.randn(3, 4)
        with torch.inference_mode():
            torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), layer(x))
        compiled(x.to(LAST_DEVICE)).sum().backward()
        layer(x).sum().backward()
    torch.testing.assert_close(on_device.weight.grad.cpu(), layer.weight.grad)


@pytest.mark.needs("two devices")
def test_two_devices_are_not_captured() -> None:
    compiled = torch.compile(lambda a, b: (a + 1).to(b.device) + b, mode=MODE, fullgraph=True)
    a, b = torch.ones(2, device="openreg:0"), torch.ones(2, device="openreg:1")
    for _ in range(3):
        assert compiled(a, b).tolist() == [3.0, 3.0]
    assert skips() == 1


def test_inputs_that_are_changed(captured: list[Any]) -> None:
    def change(x: Tensor) -> Tensor:
        x.add_(1)
        return x * 2

    compiled = torch.compile(change, mode=MODE, fullgraph=True)
    x = torch.zeros(3, device=LAST_DEVICE)
    for value in range(1, 5):
        assert compiled(x).tolist() == [2.0 * value] * 3
        assert x.tolist() == [float(value)] * 3
    assert [each.replays for each in captured] == [3]


def test_a_result_changed_in_place_before_its_gradient() -> None:
    compiled = torch.compile(lambda x: (x * 2).sin(), mode=MODE, fullgraph=True)
    for _ in range(4):
        x = torch.randn(5)
        on_device = x.to(LAST_DEVICE).requires_grad_()
        x.requires_grad_()
        for data, call in ((x, lambda x: (x * 2).sin()), (on_device, compiled)):
            result = call(data)
            result += data
            result.square().sum().backward()
        torch.testing.assert_close(on_device.grad.cpu(), x.grad)


def test_what_a_capture_refuses_is_launched(captured: list[Any]) -> None:
    torch.openreg.set_fallback_policy("all")
    compiled = torch.compile(lambda x: torch.linalg.eigvalsh(x @ x.t()).sum() * 2, mode=MODE)
    for _ in range(4):
        x = torch.randn(3, 3)
        expected = (x @ x.t()).trace() * 2
        torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), expected, rtol=1e-4, atol=1e-4)
    assert captured == []
    assert skips() == 1


def test_graphs_are_required(captured: list[Any]) -> None:
    torch.openreg.set_fallback_policy("all")
    options: dict[str, Any] = {"triton.cudagraphs": True, "triton.cudagraph_or_error": True}
    compiled = torch.compile(lambda x: torch.geqrf(x)[0].sum(), options=options)
    compiled(torch.eye(2, device=LAST_DEVICE))
    with pytest.raises(RuntimeError, match=r"openreg: aten::.*falls back to the CPU"):
        compiled(torch.eye(2, device=LAST_DEVICE))


def test_the_limit_of_captures(captured: list[Any]) -> None:
    compiled = torch.compile(lambda x: x + x.shape[0], mode=MODE, dynamic=True, fullgraph=True)
    with torch._inductor.config.patch("triton.cudagraph_unexpected_rerecord_limit", 2):
        for size in (3, 4, 5, 6) * 3:
            assert compiled(torch.zeros(size, device=LAST_DEVICE)).tolist() == [float(size)] * size
    assert len(captured) == 2


def test_numbers_that_never_come_back_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_openreg.compile import replay

    made: list[Any] = []

    class Listed(replay.ReplayedGraph):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(replay, "ReplayedGraph", Listed)
    monkeypatch.setattr(replay, "_KEPT_KINDS", 4)
    compiled = torch.compile(lambda x, number: x + number, mode=MODE, dynamic=True, fullgraph=True)
    x = torch.ones(4, device=LAST_DEVICE)
    with torch._inductor.config.patch("triton.cudagraph_unexpected_rerecord_limit", 2):
        for number in (*range(2, 20), 18, 19, *range(20, 40)):
            assert compiled(x, number).tolist() == [1.0 + number] * 4
    (graph,) = made
    # Two kinds were captured, and the four before the last capture are remembered.
    assert (len(graph._captured), len(graph._seen)) == (2, 4)


def test_moved_weights_after_the_last_capture(captured: list[Any]) -> None:
    layer = nn.Linear(2, 2, bias=False, device=LAST_DEVICE).requires_grad_(False)
    with torch._inductor.config.patch("triton.cudagraph_unexpected_rerecord_limit", 1):
        compiled = torch.compile(layer, mode=MODE)
        weights = [torch.full((2, 2), float(value), device=LAST_DEVICE) for value in range(8)]
        for value, weight in enumerate(weights):
            layer.weight.data = weight
            assert compiled(torch.ones(2, device=LAST_DEVICE)).tolist() == [2.0 * value] * 2
    assert [each.replays for each in captured] == [1]


def test_a_graph_in_the_cache_is_replayed_by_another_process(tmp_path: Any) -> None:
    program = (
        "import torch, torch_openreg\n"
        "from torch._dynamo.utils import counters\n"
        "from torch_openreg.compile import replay\n"
        "made = []\n"
        "original = replay._Captured.replay\n"
        "replay._Captured.replay = lambda self, inputs: made.append(1) or original(self, inputs)\n"
        "call = torch.compile(lambda x: (x * 2).sin(), mode='reduce-overhead')\n"
        f"print([round(call(torch.full((2,), float(i), device='{LAST_DEVICE}'))[0].item(), 3) for i in range(3)])\n"
        "hits = counters['inductor']['fxgraph_cache_hit'] + counters['aot_autograd']['autograd_cache_hit']\n"
        "print(len(made), hits > 0)\n"
    )
    for is_cached in (False, True):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                              env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})  # fmt: skip
        assert done.stdout == f"[0.0, 0.909, -0.757]\n2 {is_cached}\n", done.stderr


def test_streams_of_the_program_are_not_captured(captured: list[Any]) -> None:
    """A capture is on a stream of its own, and the code names the one that was current while it was traced."""
    side = torch.Stream(LAST_DEVICE)

    def on_two_streams(x: Tensor) -> Tensor:
        y = x.cos() * 2
        side.wait_stream(torch.openreg.current_stream(LAST_DEVICE))
        with side:
            z = y.sin()
        torch.openreg.current_stream(LAST_DEVICE).wait_stream(side)
        return z + 1

    compiled = torch.compile(on_two_streams, mode=MODE, fullgraph=True)
    with torch.openreg.device(LAST_DEVICE):
        for _ in range(4):
            x = torch.randn(300, 300)
            torch.testing.assert_close(compiled(x.to(LAST_DEVICE)).cpu(), (x.cos() * 2).sin() + 1)
    assert captured == []
    assert skips() > 0


def test_an_operator_that_says_so_is_not_captured(captured: list[Any]) -> None:
    calls = 0

    @torch.library.custom_op("openreg_tests::counts", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
    def counts(x: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return x + calls

    counts.register_fake(torch.empty_like)
    compiled = torch.compile(lambda x: counts(x * 2) * 1.0, mode=MODE, fullgraph=True)
    assert [compiled(torch.zeros(2, device=LAST_DEVICE))[0].item() for _ in range(5)] == [1, 2, 3, 4, 5]
    assert captured == []


def test_sizes_that_change_are_not_captured_on_request(captured: list[Any]) -> None:
    options: dict[str, Any] = {"triton.cudagraphs": True, "triton.cudagraph_skip_dynamic_graphs": True}
    compiled = torch.compile(lambda x: x * 2, dynamic=True, fullgraph=True, options=options)
    for _ in range(3):
        for size in (3, 4, 5):
            assert compiled(torch.ones(size, device=LAST_DEVICE)).tolist() == [2.0] * size
    assert captured == []


@pytest.mark.parametrize(
    "resize", [lambda y: y.resize_(5000), lambda y: y.untyped_storage().resize_(0)], ids=["larger", "nothing"]
)
def test_a_result_that_the_program_has_resized(resize: Callable[[Tensor], object]) -> None:
    compiled = torch.compile(lambda x: x * 2 + 1, mode=MODE, fullgraph=True)
    for _ in range(3):
        compiled(torch.ones(4, device=LAST_DEVICE))
    resize(compiled(torch.ones(4, device=LAST_DEVICE)))
    for value in range(5):
        assert compiled(torch.full((4,), float(value), device=LAST_DEVICE)).tolist() == [2.0 * value + 1] * 4


def test_a_view_of_an_input_that_is_written_lies_in_its_storage() -> None:
    """The same address, in another storage and at another offset."""
    from torch_openreg.compile.replay import ReplayedGraph

    def call(inputs: list[Any]) -> list[Tensor]:
        (x,) = inputs
        inputs.clear()
        return [x.mul_(2)[1:]]

    graph = ReplayedGraph(call, torch.device(LAST_DEVICE).index, (), (0,))
    whole = torch.ones(8, device=LAST_DEVICE)
    with torch.openreg.device(LAST_DEVICE):
        for _ in range(3):
            assert graph([whole[4:]])[0].storage_offset() == 5
        elsewhere = torch.from_dlpack(whole[4:])
        assert (elsewhere.data_ptr(), elsewhere.storage_offset()) == (whole[4:].data_ptr(), 0)
        (result,) = graph([elsewhere])
        assert (result.tolist(), result.storage_offset()) == ([16.0] * 3, 1)
