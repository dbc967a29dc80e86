"""`make_graphed_callables`: parts of a program that replay forward and backward, against the CPU."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from tests.conftest import RunProcess
from tests.graph.capture import module as openreg
from tests.graph.test_memory import reserved
from tests.offers import DEVICES, LAST_DEVICE

pytestmark = [pytest.mark.needs("graphs", "kernels"), pytest.mark.usefixtures("seeded")]
make = openreg.make_graphed_callables


@pytest.fixture
def seeded() -> None:
    """The same random numbers in each run."""
    torch.manual_seed(0)


def here(*shape: int, **options: Any) -> Tensor:
    return torch.randn(*shape, device=LAST_DEVICE, **options)


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Linear(16, 6), nn.LayerNorm(6))


def assert_like(model: nn.Module, reference: nn.Module) -> None:
    for (name, value), wanted in zip(model.state_dict().items(), reference.state_dict().values(), strict=True):
        torch.testing.assert_close(value.cpu(), wanted, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("device", DEVICES)
def test_a_module_has_the_results_and_gradients_of_the_cpu(device: str) -> None:
    reference = network()
    model = copy.deepcopy(reference).to(device)
    assert make(model, (torch.zeros(5, 6, device=device, requires_grad=True),)) is model
    for _ in range(3):
        x = torch.randn(5, 6)
        on_device, x = x.to(device).requires_grad_(), x.requires_grad_()
        weight = torch.randn(5, 6)
        result, expected = model(on_device), reference(x)
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
        result.backward(weight.to(device))
        expected.backward(weight)
        torch.testing.assert_close(on_device.grad.cpu(), x.grad, rtol=1e-4, atol=1e-5)
        for own, other in zip(model.parameters(), reference.parameters(), strict=True):  # they add up
            torch.testing.assert_close(own.grad.cpu(), other.grad, rtol=1e-4, atol=1e-5)
    assert_like(model, reference)


@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_training_matches_the_cpu_step_by_step(optimizer: Any, set_to_none: bool) -> None:
    reference = network()
    model = copy.deepcopy(reference).to(LAST_DEVICE)
    make(model, (here(5, 6),))
    updates = [optimizer(each.parameters(), lr=0.01) for each in (model, reference)]
    for _ in range(12):
        x = torch.randn(5, 6)
        losses = []
        for each, update, data in zip((model, reference), updates, (x.to(LAST_DEVICE), x), strict=True):
            update.zero_grad(set_to_none=set_to_none)
            loss = functional.mse_loss(each(data), data)
            loss.backward()
            update.step()
            losses.append(loss.detach().cpu())
        torch.testing.assert_close(*losses, rtol=1e-4, atol=1e-5)
    if optimizer is torch.optim.SGD:  # Adam turns the smallest gradient into a step of full size
        assert_like(model, reference)


def test_making_them_changes_nothing() -> None:
    model = network().to(LAST_DEVICE)
    before = {name: value.cpu() for name, value in model.state_dict().items()}
    x = here(5, 6, requires_grad=True)
    sample = x.detach().cpu()
    state, host_state = openreg.get_rng_state(LAST_DEVICE), torch.get_rng_state()
    make(nn.Sequential(model, nn.Dropout(0.5)), (x,))
    assert torch.equal(openreg.get_rng_state(LAST_DEVICE), state)
    assert torch.equal(torch.get_rng_state(), host_state)
    assert all(torch.equal(value.cpu(), before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert x.grad is None
    assert torch.equal(x.detach().cpu(), sample)


def test_several_callables_share_a_pool_and_one_sample() -> None:
    """The samples are the same tensor. Each callable still has memory of its own for what it saves."""
    references = [nn.Sequential(nn.Linear(6, 6), nn.Tanh()) for _ in range(3)]
    models = tuple(copy.deepcopy(each).to(LAST_DEVICE) for each in references)
    sample = here(4, 6, requires_grad=True)
    pool = openreg.graph_pool_handle()
    graphed = make(models, ((sample,),) * 3, pool=pool)
    assert graphed == models
    graph = torch.accelerator.Graph(pool=pool)
    with torch.Stream(LAST_DEVICE), graph:
        sample.detach() * 2
    assert graph.pool() == pool
    for _ in range(3):
        x = torch.randn(4, 6)
        on_device = x.to(LAST_DEVICE).requires_grad_()
        x.requires_grad_()
        result, expected = on_device, x
        for each, reference in zip(graphed, references, strict=True):
            result, expected = each(result) * 2, reference(expected) * 2
        torch.testing.assert_close(result.cpu(), expected)
        result.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(on_device.grad.cpu(), x.grad, rtol=1e-4, atol=1e-5)
    for model, reference in zip(models, references, strict=True):
        for own, other in zip(model.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(own.grad.cpu(), other.grad, rtol=1e-4, atol=1e-5)


def test_calls_with_one_pool_end_each_others_calls() -> None:
    """The second captures where the first has freed what its forward pass saves."""
    layers = [nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh()) for _ in range(2)]
    models = [copy.deepcopy(each).to(LAST_DEVICE) for each in layers]
    pool, x = openreg.graph_pool_handle(), torch.randn(32, 64)
    for model in models:
        make(model, (torch.zeros(32, 64, device=LAST_DEVICE, requires_grad=True),), pool=pool)
    for first, second in (models, reversed(models)):
        late = second(first(x.to(LAST_DEVICE)))
        with pytest.raises(
            RuntimeError, match=r"Sequential comes too late.* with one pool overwrite each other's: make"
        ):
            late.sum().backward()
    for model, layer in zip(models, layers, strict=True):
        model.zero_grad()
        model(x.to(LAST_DEVICE)).sum().backward()
        layer(x).sum().backward()
        for own, other in zip(model.parameters(), layer.parameters(), strict=True):
            torch.testing.assert_close(own.grad.cpu(), other.grad, rtol=1e-4, atol=1e-4)


def test_a_function_with_nested_arguments_and_results() -> None:
    def work(x: Tensor, others: dict[str, Tensor]) -> dict[str, Any]:
        total = x @ others["weight"] + others["bias"]
        return {"total": total, "at": (total.argmax(1), None), "detached": total.detach() * 2}

    shapes = {"weight": (6, 3), "bias": (3,)}
    graphed = make(work, (here(4, 6), {name: here(*shape, requires_grad=True) for name, shape in shapes.items()}))
    for _ in range(2):
        x, others = torch.randn(4, 6), {name: torch.randn(*shape) for name, shape in shapes.items()}
        moved = {name: value.to(LAST_DEVICE).requires_grad_() for name, value in others.items()}
        for value in others.values():
            value.requires_grad_()
        result, expected = graphed(x.to(LAST_DEVICE), moved), work(x, others)
        assert list(result) == list(expected)
        assert result["at"][1] is None
        assert not result["at"][0].requires_grad
        assert not result["detached"].requires_grad
        assert torch.equal(result["at"][0].cpu(), expected["at"][0])
        torch.testing.assert_close(result["detached"].cpu(), expected["detached"])
        result["total"].sin().sum().backward()
        expected["total"].sin().sum().backward()
        for name, value in others.items():
            torch.testing.assert_close(moved[name].grad.cpu(), value.grad)


def test_results_and_gradients_belong_to_the_program() -> None:
    model = nn.Linear(3, 3).to(LAST_DEVICE)
    make(model, (here(2, 3),))
    inputs = [here(2, 3) for _ in range(3)]
    results, gradients = [], []
    for x in inputs:
        model.zero_grad()
        result = model(x)
        result.backward(torch.ones_like(result))
        assert model.weight.grad is not None
        results.append(result)
        gradients.append(model.weight.grad)
    for x, result, gradient in zip(inputs, results, gradients, strict=True):
        expected = functional.linear(x.cpu(), model.weight.cpu(), model.bias.cpu())
        torch.testing.assert_close(result.cpu(), expected)
        torch.testing.assert_close(gradient.cpu(), x.cpu().sum(0).expand(3, 3))
    with torch.no_grad():
        results[0].zero_()
        torch.testing.assert_close(model(inputs[1]).cpu(), results[1].cpu())


def test_dropout_draws_anew_and_can_be_repeated() -> None:
    model = nn.Dropout(0.5)
    make(model, (torch.ones(1000, device=LAST_DEVICE, requires_grad=True),))

    def draws() -> list[Tensor]:
        torch.manual_seed(3)
        x = torch.ones(1000, device=LAST_DEVICE, requires_grad=True)
        results: list[Tensor] = []
        for _ in range(2):
            x.grad = None
            result = model(x)
            result.sum().backward()
            assert x.grad is not None
            assert torch.equal(x.grad, result.detach())  # the mask of this call
            results.append(result.detach().cpu())
        return results

    first, second = draws(), draws()
    assert not torch.equal(*first)
    assert all(map(torch.equal, first, second))
    torch.manual_seed(3)
    assert torch.equal(functional.dropout(torch.ones(1000, device=LAST_DEVICE), 0.5).cpu(), first[0])


def test_a_module_runs_as_before_in_the_other_mode() -> None:
    for training in (True, False):
        model = network().to(LAST_DEVICE).train(training)
        reference = copy.deepcopy(model).cpu()
        make(model, (here(5, 6),))
        for mode in (not training, training):
            x = torch.randn(3 if mode is not training else 5, 6)
            assert model.train(mode) is model
            torch.testing.assert_close(model(x.to(LAST_DEVICE)).cpu(), reference.train(mode)(x), rtol=1e-4, atol=1e-5)
        assert_like(model, reference)


def test_hooks_that_are_registered_later_are_called() -> None:
    model = nn.Linear(3, 2).to(LAST_DEVICE)
    make(model, (here(4, 3),))
    seen = []
    model.register_forward_hook(lambda _, args, result: seen.append((args[0].shape, result.shape)))
    model(here(4, 3))
    assert seen == [((4, 3), (4, 2))]


def test_new_weights_that_are_copied_are_used() -> None:
    reference, model = nn.Linear(3, 2), nn.Linear(3, 2).to(LAST_DEVICE)
    make(model, (here(4, 3),))
    model.load_state_dict(reference.state_dict())
    x = torch.randn(4, 3)
    torch.testing.assert_close(model(x.to(LAST_DEVICE)).cpu(), reference(x))


def test_without_gradients() -> None:
    model = network().to(LAST_DEVICE).eval()
    assert isinstance(model, nn.Sequential)
    with torch.no_grad():
        make(model, (here(5, 6),))
    x = torch.randn(5, 6)
    with pytest.raises(ValueError, match=r"'0\.weight' of Sequential requires a gradient, and got none.*no_grad"):
        model(x.to(LAST_DEVICE))
    with torch.no_grad():
        result = model(x.to(LAST_DEVICE))
    assert not result.requires_grad
    torch.testing.assert_close(result.cpu(), nn.Sequential(*model)(x.to(LAST_DEVICE)).cpu())


def test_inference_mode() -> None:
    model = nn.Linear(3, 2).to(LAST_DEVICE)
    make(model, (here(4, 3),))
    with torch.inference_mode():
        with pytest.raises(RuntimeError, match=r"in torch\.inference_mode\(\).*make it in torch\.no_grad\(\)"):
            make(nn.Linear(3, 2).to(LAST_DEVICE), (here(4, 3),))
        x = here(4, 3)
        result = model(x)
        assert result.is_inference()
        torch.testing.assert_close(result.cpu(), functional.linear(x, model.weight, model.bias).cpu())


def test_the_memory_of_the_graphs_ends_with_them() -> None:
    model = nn.Sequential(nn.Linear(512, 4096), nn.Tanh(), nn.Linear(4096, 512)).to(LAST_DEVICE)
    before = reserved()
    make(model, (here(1024, 512),))
    model(here(1024, 512)).sum().backward()
    model.zero_grad()
    assert reserved() - before > 2 * 1024 * 4096 * 4  # what the layers save for the backward pass
    del model.forward
    assert reserved() == before


def test_autocast_without_its_cache() -> None:
    model = nn.Linear(3, 2).to(LAST_DEVICE)
    with torch.autocast("openreg", torch.bfloat16, cache_enabled=False):
        make(model, (here(4, 3),))
    x = here(4, 3)
    for _ in range(2):
        result = model(x)
        assert result.dtype == torch.bfloat16
        torch.testing.assert_close(result.float().cpu(), functional.linear(x, model.weight, model.bias).cpu(),
                                   rtol=2e-2, atol=2e-2)  # fmt: skip
        model.zero_grad()
        result.sum().backward()
        torch.testing.assert_close(model.weight.grad.cpu(), x.cpu().sum(0).expand(2, 3), rtol=2e-2, atol=2e-2)
        with torch.no_grad():
            model.weight.mul_(2)  # cast again in each replay


def test_an_unused_input_and_a_result_without_use() -> None:
    def work(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, x * 3

    samples = here(3, requires_grad=True), here(3, requires_grad=True)
    graphed = make(work, samples, allow_unused_input=True)
    x, y = here(3, requires_grad=True), here(3, requires_grad=True)
    graphed(x, y)[1].sum().backward()
    assert x.grad.cpu().tolist() == [3.0] * 3
    assert y.grad is None
    graphed(x, y)[0].sum().backward()
    assert x.grad.cpu().tolist() == [5.0] * 3


def test_a_call_beside_a_capture_on_another_stream() -> None:
    graphed = make(torch.sin, (here(3),))
    x, y = torch.randn(3), here(3)
    on_device = x.to(LAST_DEVICE)
    graph = torch.accelerator.Graph()
    before = torch.accelerator.current_stream(LAST_DEVICE)
    with torch.Stream(LAST_DEVICE) as stream:
        graph.capture_begin()
        doubled = y * 2
        with before:
            result = graphed(on_device)
            other = make(torch.cos, (on_device,))
        with stream:
            graph.capture_end()
    torch.testing.assert_close(result.cpu(), x.sin())
    torch.testing.assert_close(other(on_device).cpu(), x.cos())
    graph.replay()
    torch.accelerator.synchronize(LAST_DEVICE)
    torch.testing.assert_close(doubled.cpu(), y.cpu() * 2)


def doubled_slowly(x: Tensor) -> Tensor:
    shared = x + 0  # freed in the graph, and so used by the next one in the pool
    openreg._sleep(50_000_000)
    return shared * 2


def numbers(*values: float) -> list[Tensor]:
    made = [torch.full((3,), float(value), device=LAST_DEVICE, requires_grad=True) for value in values]
    torch.accelerator.synchronize(LAST_DEVICE)
    return made


def test_calls_on_two_streams_do_not_use_the_memory_at_the_same_time() -> None:
    graphed = make(doubled_slowly, (here(3, requires_grad=True),))
    results = []
    for x in numbers(1, 10):
        with torch.Stream(LAST_DEVICE):
            results.append(graphed(x))
    torch.accelerator.synchronize(LAST_DEVICE)
    assert [each.tolist() for each in results] == [[2] * 3, [20] * 3]
    x, y = numbers(1, 2)
    with torch.Stream(LAST_DEVICE):
        graphed(x).backward(y)
    with torch.Stream(LAST_DEVICE):
        result = graphed(y)
        result.backward(x)
    torch.accelerator.synchronize(LAST_DEVICE)
    assert (x.grad.tolist(), y.grad.tolist()) == ([4] * 3, [2] * 3)


def test_callables_with_one_pool_do_not_use_its_memory_at_the_same_time() -> None:
    pool, results = openreg.graph_pool_handle(), []
    # The first and the last are captured on one stream of 32, so that the last uses what the first has freed.
    first, *_, last = (make(doubled_slowly, (here(3),), num_warmup_iters=0, pool=pool) for _ in range(33))
    for call, x in zip((first, last), numbers(1, 10), strict=True):
        with torch.Stream(LAST_DEVICE):
            results.append(call(x.detach()))
    torch.accelerator.synchronize(LAST_DEVICE)
    assert [each.tolist() for each in results] == [[2] * 3, [20] * 3]


def test_a_call_after_one_on_a_stream_that_is_captured_now() -> None:
    graphed = make(torch.sin, (here(3),))
    x, stream = here(3), torch.Stream(LAST_DEVICE)
    torch.accelerator.synchronize(LAST_DEVICE)
    with stream:
        graphed(x)
    before = torch.accelerator.current_stream(LAST_DEVICE)
    graph = torch.accelerator.Graph(capture_error_mode="thread_local")
    with stream, graph:
        doubled = x * 2
        with before:
            result = graphed(x)
    torch.testing.assert_close(result.cpu(), x.cpu().sin())
    graph.replay()
    torch.accelerator.synchronize(LAST_DEVICE)
    torch.testing.assert_close(doubled.cpu(), x.cpu() * 2)


def test_streams_of_the_program() -> None:
    model = nn.Linear(3, 3).to(LAST_DEVICE)
    with torch.Stream(LAST_DEVICE) as stream:
        make(model, (here(2, 3),))
        x = here(2, 3)
        model(x).sum().backward()
        stream.synchronize()
    torch.testing.assert_close(model.weight.grad.cpu(), x.cpu().sum(0).expand(3, 3))


# What cannot be made.


class Part(nn.Module):
    """A module with a buffer."""

    scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, device=LAST_DEVICE))
        self.register_buffer("scale", torch.ones(3, device=LAST_DEVICE))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight * self.scale


def test_what_is_no_callable_or_no_tuple() -> None:
    with pytest.raises(TypeError, match=r"takes a module or function with a tuple of arguments, .*got list with tuple"):
        make([torch.sin], (here(3),))
    with pytest.raises(TypeError, match="or a tuple of each, got builtin_function_or_method with Tensor"):
        make(torch.sin, here(3))
    with pytest.raises(ValueError, match="got 2 callables, of which 1 are different, and 2 tuples of arguments"):
        make((torch.sin, torch.sin), ((here(3),), (here(3),)))
    with pytest.raises(ValueError, match="got 2 callables, of which 2 are different, and 1 tuples of arguments"):
        make((torch.sin, torch.cos), ((here(3),),))
    with pytest.raises(TypeError, match=r"sample argument 1 of add is of type int.*bind it with functools\.partial"):
        make(torch.add, (here(3), 1))


@pytest.mark.parametrize("device", ["cpu", *DEVICES[:-1]])
def test_a_tensor_on_another_device(device: str) -> None:
    message = f"argument 1 of add is on {device}, and .* captures on one device, here {LAST_DEVICE}: move it with to"
    with pytest.raises(ValueError, match=message):
        make(torch.add, (here(3), torch.ones(3, device=device)))
    model = Part()
    model.scale = model.scale.to(device)
    with pytest.raises(ValueError, match=f"buffer 'scale' of Part is on {device}"):
        make(model, (here(3),))


def test_autocast_with_its_cache() -> None:
    with (
        torch.autocast("openreg", torch.bfloat16),
        pytest.raises(RuntimeError, match=r"autocast caches its casts.*cache_enabled=False"),
    ):
        make(Part(), (here(3),))


@pytest.mark.parametrize(
    "register",
    [
        lambda module: module.register_forward_pre_hook(lambda *_: None),
        lambda module: module.register_forward_hook(lambda *_: None),
        lambda module: module.register_full_backward_hook(lambda *_: None),
        lambda module: module.register_full_backward_pre_hook(lambda *_: None),
    ],
)
def test_a_module_with_hooks(register: Callable[[nn.Module], object]) -> None:
    model = Part()
    register(model)
    with pytest.raises(ValueError, match=r"Part has hooks \(1\).*register them after make_graphed_callables\(\)"):
        make(model, (here(3),))


def test_a_buffer_that_requires_a_gradient() -> None:
    model = Part()
    model.scale.requires_grad_()
    with pytest.raises(ValueError, match=r"buffer 'scale' of Part requires a gradient.*requires_grad_\(False\)"):
        make(model, (here(3),))


@pytest.mark.parametrize("warm_ups", [0, 3])
def test_work_that_a_graph_does_not_have(warm_ups: int) -> None:
    outside = here(3, requires_grad=True)
    x = here(3, requires_grad=True)

    def refused(work: Callable[..., object], *samples: Tensor) -> None:
        make(work, samples, num_warmup_iters=warm_ups)

    def work(x: Tensor, y: Tensor) -> Tensor:
        return x * 2

    with pytest.raises(ValueError, match=r"argument 1 of work requires a gradient, and has no influence.*_input=True"):
        refused(work, x, here(3, requires_grad=True))
    with pytest.raises(ValueError, match=r"argument 0 of argmax requires a gradient, and has no influence"):
        refused(torch.argmax, x)
    for reads in (lambda x: x * outside.exp(), lambda x: (x * 2, outside)):
        with pytest.raises(ValueError, match=rf"<lambda> reads a tensor, float32\[3\] on {LAST_DEVICE}, that requires"):
            refused(reads, x)
    with pytest.raises(TypeError, match=r"a result of <lambda> is of type int, and a replay computes tensors"):
        refused(lambda x: (x, 3), x)
    with pytest.raises((TypeError, RuntimeError), match=r"is float32.* on cpu, and a replay|a copy to the CPU without"):
        refused(lambda x: x.detach().cpu(), x)
    with pytest.raises(ValueError, match=r"<lambda> changes argument 0 in place.*return the new value instead"):
        refused(lambda x: x.add_(1), here(3))
    with pytest.raises(RuntimeError, match=r"one element is read.*while a graph is captured"):
        refused(lambda x: x * x.sum().item(), x)
    torch.testing.assert_close(make(torch.sin, (x,))(x).cpu(), x.cpu().sin())  # the device works


def test_a_capture_of_the_program() -> None:
    x = here(3)
    graphed = make(torch.sin, (x,))
    graph = torch.accelerator.Graph()
    with torch.Stream(LAST_DEVICE), graph:
        with pytest.raises(RuntimeError, match="sin replays a graph, and is called on a stream that another graph cap"):
            graphed(x)
        with pytest.raises(RuntimeError, match=r"make_graphed_callables\(\) is called on a stream that a graph captu"):
            make(torch.cos, (x,))
        result = x * 2
    graph.replay()
    torch.accelerator.synchronize(LAST_DEVICE)
    torch.testing.assert_close(result.cpu(), x.cpu() * 2)
    with torch.Stream(LAST_DEVICE):
        late = make(torch.sin, (here(3, requires_grad=True),))(here(3, requires_grad=True)).sum()
        refused = pytest.raises(RuntimeError, match="sin replays a graph, and is called on a stream that another gr")
        with torch.accelerator.Graph(), refused:
            late.backward()


def test_a_capture_in_a_process_that_has_used_the_device_for_nothing_else(run_process: RunProcess) -> None:
    ended = run_process(
        """
        import torch
        answers = [torch.openreg.is_current_stream_capturing()]
        graph = torch.accelerator.Graph()
        with torch.Stream("openreg"):
            graph.capture_begin()  # `with graph:` would start the driver in Python, too
            answers.append(torch.openreg.is_current_stream_capturing())
            graph.capture_end()
        print(answers)
        """
    )
    assert (ended.stdout, ended.stderr) == ("[False, True]\n", "")


# What cannot be called.


def test_other_arguments_than_the_samples() -> None:
    graphed = make(torch.add, (here(2, 3), here(2, 3)))
    x = here(2, 3)
    with pytest.raises(TypeError, match="add was captured with 2 tensors in positional arguments, got 1 and the key"):
        graphed(x)
    with pytest.raises(TypeError, match=r"got 2 and the keywords \['alpha'\]: pass the arguments in the form of the"):
        graphed(x, x, alpha=2)
    with pytest.raises(ValueError, match="argument 1 of add is of type int, and its sample was float32"):
        graphed(x, 1)
    was = rf"its sample was float32\[2, 3\] on {LAST_DEVICE}: a graph replays what was captured"
    for other, given in (
        (here(3), rf"float32\[3\] on {LAST_DEVICE}"),
        (x.double(), rf"float64\[2, 3\] on {LAST_DEVICE}"),
        (x.cpu(), r"float32\[2, 3\] on cpu"),
    ):
        with pytest.raises(ValueError, match=f"argument 0 of add is {given}, and {was}"):
            graphed(other, x)
    trained = here(2, 3, requires_grad=True)
    with pytest.raises(
        ValueError, match=r"argument 1 of add requires a gradient, and got none when .* sample that requires one"
    ):
        graphed(x, trained)
    with torch.no_grad():
        torch.testing.assert_close(graphed(x, trained).cpu(), x.cpu() + trained.cpu())
    torch.testing.assert_close(graphed(x.t().contiguous().t(), x).cpu(), x.cpu() * 2)  # other strides


def test_parameters_that_are_moved_or_thawed() -> None:
    model = Part()
    model.weight.requires_grad_(False)
    make(model, (here(3),))
    model.weight.requires_grad_()
    with pytest.raises(ValueError, match="parameter 'weight' of Part requires a gradient, and got none when the graph"):
        model(here(3))
    model.weight.requires_grad_(False)
    x = here(3)
    torch.testing.assert_close(model(x), x)
    model.weight.data = here(3)
    with pytest.raises(RuntimeError, match=r"parameter 'weight' of Part is no longer where it was.*load_state_dict\("):
        model(x)


def test_parameters_and_modules_that_are_replaced() -> None:
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Sequential(nn.Linear(2, 2))).to(LAST_DEVICE)
    make(model, (here(1, 2),))
    kept = model[0].weight
    model[0].load_state_dict({"weight": torch.full((2, 2), 5.0, device=LAST_DEVICE)}, assign=True)
    with pytest.raises(RuntimeError, match=r"parameter '0.weight' of Sequential is another one than when the graph"):
        model(here(1, 2))
    model[0].weight = kept
    model(here(1, 2))
    model[1][0] = nn.Linear(2, 2).to(LAST_DEVICE)
    with pytest.raises(RuntimeError, match=r"module '1.0' of Sequential is another one than when the graph"):
        model(here(1, 2))


class Counts(nn.Module):
    """Counts its calls, and keeps its last argument."""

    calls: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros((), device=LAST_DEVICE))
        self.register_buffer("last", torch.zeros(2, device=LAST_DEVICE))


def test_a_buffer_that_the_forward_pass_replaces() -> None:
    class Replaces(Counts):
        def forward(self, x: Tensor) -> Tensor:
            self.calls, self.last = self.calls + 1, x
            return x * self.calls

    model = Replaces()
    with pytest.raises(ValueError, match=r"Replaces replaces buffer 'calls' in its forward pass.*add_\(\) or copy_\("):
        make(model, (here(2),))
    assert (model.calls.item(), model.last.tolist()) == (0, [0, 0])


def test_buffers_when_a_warm_up_raises() -> None:
    class Raises(Counts):
        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.last = x
            raise KeyError("a mistake of the program")

    model = Raises()
    with pytest.raises(KeyError, match="a mistake of the program"):
        make(model, (here(2),))
    assert (model.calls.item(), model.last.tolist()) == (0, [0, 0])


def test_buffers_are_restored_before_the_program_goes_on_after_an_error() -> None:
    class Raises(Counts):
        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            openreg._sleep(200_000_000)
            raise KeyError("a mistake of the program")

    model = Raises()
    with pytest.raises(KeyError):
        make(model, (here(2),))
    model.calls.fill_(7)
    torch.accelerator.synchronize(LAST_DEVICE)
    assert model.calls.item() == 7


def test_a_buffer_that_overlaps_itself() -> None:
    class Scales(Counts):
        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return x * self.scale

    model = Scales()
    model.register_buffer("scale", torch.full((1,), 3.0, device=LAST_DEVICE).expand(4))
    make(model, (here(4),))
    assert model(torch.ones(4, device=LAST_DEVICE)).tolist() == [3] * 4
    assert model.calls.item() == 1


def test_a_part_of_a_module_in_the_other_mode() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5)).to(LAST_DEVICE)
    make(model, (here(4, 8),))
    x = here(4, 8)
    assert not torch.equal(model(x), model(x))
    model[1].eval()
    assert torch.equal(model(x), model(x))


def test_each_backward_pass_before_the_next_forward_pass() -> None:
    model = Part()
    make(model, (here(3),))
    first, second = model(here(3)), model(here(3))
    message = "the backward pass of Part comes too late, or a second time: another replay has overwritten what the for"
    with pytest.raises(RuntimeError, match=message):
        first.sum().backward()
    second.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=message):
        second.sum().backward()


def test_what_the_backward_pass_reads_is_not_changed_before() -> None:
    class Biased(Part):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.ones(3, device=LAST_DEVICE))

        def forward(self, x: Tensor) -> Tensor:
            return (x * self.weight + self.bias) * self.scale

    model = Biased()
    make(model, (here(3, requires_grad=True),))
    for name in ("parameter 'weight'", "buffer 'scale'"):
        result = model(here(3, requires_grad=True))
        with torch.no_grad():
            getattr(model, name.split("'")[1]).mul_(2)
        with pytest.raises(RuntimeError, match=f"{name} of Biased was changed in place between the forward and the ba"):
            result.sum().backward()
    x = here(3, requires_grad=True)
    result = model(x)
    with torch.no_grad():
        model.bias.mul_(10)  # the backward pass does not read it
    result.sum().backward()
    assert x.grad.tolist() == [4] * 3


def test_checkpoints_compute_again_in_the_graph_alone() -> None:
    class Checkpointed(Part):
        def forward(self, x: Tensor) -> Tensor:
            runs.append(openreg.is_current_stream_capturing())
            return (x * self.weight * self.scale).exp()

    runs: list[bool] = []
    inner = Checkpointed()

    def work(x: Tensor) -> Tensor:
        result: Tensor = checkpoint(inner, x * 2, use_reentrant=False, preserve_rng_state=False)
        return result

    inner.weight.requires_grad_(False)
    graphed = make(work, (here(3, requires_grad=True),), num_warmup_iters=1)
    assert runs == [False, False, True, True]
    x = here(3, requires_grad=True)
    graphed(x).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), 2 * (2 * x.detach().cpu()).exp())


def test_a_call_that_raises_halfway_ends_the_call_before() -> None:
    graphed = make(torch.mul, tuple(numbers(1, 1)))
    result = graphed(*numbers(2, 3))
    x, gone = numbers(100, 100)
    gone.untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match="has no memory"):
        graphed(x, gone)
    with pytest.raises(RuntimeError, match="comes too late"):
        result.sum().backward()
    x, y = numbers(2, 3)
    graphed(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([3] * 3, [2] * 3)


def test_a_replay_of_an_earlier_callable_ends_the_calls_after_it() -> None:
    x = here(3, requires_grad=True)
    parts = make((Part(), Part()), ((x,), (x,)))
    late = parts[1](parts[0](x))
    parts[0](x)
    with pytest.raises(RuntimeError, match="comes too late"):
        late.sum().backward()
    result = parts[0](x)
    parts[1](x)  # captured later: it overwrites nothing of the first
    result.sum().backward()
    torch.testing.assert_close(parts[0].weight.grad.cpu(), x.detach().cpu())


def test_no_second_derivative() -> None:
    x = here(3, requires_grad=True)
    result = make(torch.sin, (x,))(x).sum()
    with pytest.raises(RuntimeError, match="sin replays graphs, and its gradients cannot be differentiated again"):
        torch.autograd.grad(result, x, create_graph=True)


def test_copies_are_refused() -> None:
    model = make(Part(), (here(3),))
    for copied in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"Part replays graphs of this process.*or save its state_dict\(\)"):
            copied(model)
    state = copy.deepcopy(model.state_dict())
    del model.forward  # the class's again
    assert torch.equal(copy.deepcopy(model).weight, state["weight"])


@pytest.mark.parametrize("launch", ["auto", "async", "inline"])
def test_every_launch_mode(run_process: RunProcess, launch: str) -> None:
    ended = run_process(
        """
        import copy, torch
        torch.manual_seed(0)
        reference = torch.nn.Sequential(torch.nn.Linear(50, 50), torch.nn.Tanh(), torch.nn.Linear(50, 1))
        model = copy.deepcopy(reference).to("openreg")
        torch.openreg.make_graphed_callables(model, (torch.zeros(64, 50, device="openreg"),))
        updates = [torch.optim.SGD(each.parameters(), lr=0.05) for each in (reference, model)]
        for _ in range(40):
            x = torch.randn(64, 50)
            for each, update, data in zip((reference, model), updates, (x, x.to("openreg"))):
                update.zero_grad()
                (each(data) - data.sum(1, keepdim=True)).square().mean().backward()
                update.step()
        pairs = zip(reference.parameters(), model.parameters())
        print(all(torch.allclose(a, b.cpu(), rtol=1e-3, atol=1e-4) for a, b in pairs))
        """,
        OPENREG_LAUNCH=launch,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == "True\n"


def test_what_other_threads_queue_meanwhile_runs_and_is_not_captured() -> None:
    """The streams of a program come from a pool, and a capture on one of them would record what others queue there."""
    y, streams = torch.zeros(1, device=LAST_DEVICE), [torch.Stream(LAST_DEVICE) for _ in range(32)]

    def add() -> None:
        for stream in streams:
            with stream:
                y.add_(1)
            stream.synchronize()

    def work(x: Tensor) -> Tensor:
        if openreg.is_current_stream_capturing():
            thread = threading.Thread(target=add)
            thread.start()
            thread.join()
        return x + 1

    graphed = make(work, (here(3),), num_warmup_iters=1)
    assert y.item() == len(streams)
    assert torch.equal(graphed(torch.ones(3, device=LAST_DEVICE)).cpu(), torch.full((3,), 2.0))
    assert y.item() == len(streams)
