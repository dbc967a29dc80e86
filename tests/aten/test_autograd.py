"""Autograd on the device: what moving a module preserves, and every kind of derivative, compared with the CPU."""

from __future__ import annotations

import copy
import io
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad, gradcheck, gradgradcheck
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

with warnings.catch_warnings(action="ignore"):  # PyTorch's own warning, at the first use of forward mode
    import torch._decomp.decompositions_for_jvp

from tests import offers
from tests.conftest import RunProcess
from tests.offers import DEVICES, LAST_DEVICE

compatible = torch._has_compatible_shallow_copy_type
COUNT = torch.accelerator.device_count()


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    torch.openreg.reset_fallback_stats()
    yield
    assert "aten::_efficientzerotensor" not in torch.openreg.fallback_stats()


class Tied(nn.Module):
    """Two layers that share one weight, and a buffer."""

    steps: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        self.steps += 1
        result: Tensor = self.second(self.first(x).tanh())
        return result


def train(model: nn.Module, optimizer: torch.optim.Optimizer, device: str, steps: int = 4) -> list[float]:
    """Losses of a few steps, on data that is the same everywhere."""
    x = torch.linspace(-1, 1, 24).view(6, 4).to(device)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - x.cos()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# Identity of tensors


TWO_DEVICES = pytest.param(("openreg:0", "openreg:1"), marks=pytest.mark.needs("two devices"))


@pytest.mark.parametrize("way", [("cpu", "openreg"), ("openreg", "cpu"), TWO_DEVICES, ("cpu", "cpu")])
def test_moving_a_module_keeps_its_parameters(way: tuple[str, str]) -> None:
    source, target = way
    model = Tied().to(source)
    train(model, torch.optim.SGD(model.parameters()), source, steps=1)
    before = list(model.parameters())
    gradients = [parameter.grad for parameter in before]
    values = [tensor.detach().cpu().clone() for tensor in (*before, *gradients) if tensor is not None]
    model.to(target)
    after = list(model.parameters())
    assert [id(parameter) for parameter in after] == [id(parameter) for parameter in before]
    assert all(parameter.grad is gradient for parameter, gradient in zip(after, gradients, strict=True))
    assert model.first.weight is model.second.weight
    moved = [tensor for tensor in (*after, *gradients) if tensor is not None]
    assert {tensor.device for tensor in (*moved, model.steps)} == {torch.ones(1, device=target).device}
    assert all(torch.equal(tensor.cpu(), value) for tensor, value in zip(moved, values, strict=True))
    assert all(isinstance(parameter, nn.Parameter) and parameter.is_leaf for parameter in after)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop])
def test_optimizer_made_before_the_move(optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    losses = []
    start = Tied()
    for device in ("cpu", "openreg"):
        model = copy.deepcopy(start)
        made_before = optimizer(model.parameters(), lr=0.1)
        losses.append(train(model.to(device), made_before, device))
    assert losses[0][-1] < losses[0][0]
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-6)


def test_moving_there_and_back_between_steps() -> None:
    start = Tied()
    alone, moved = copy.deepcopy(start), copy.deepcopy(start)
    expected = train(alone, torch.optim.SGD(alone.parameters(), lr=0.1), "cpu", steps=4)
    optimizer = torch.optim.SGD(moved.parameters(), lr=0.1)
    way = ("openreg:0", "cpu", LAST_DEVICE, "openreg:0")
    losses = [train(moved.to(device), optimizer, device, steps=1)[0] for device in way]
    torch.testing.assert_close(losses, expected)


def test_weights_of_a_recurrent_layer_stay_one_object() -> None:
    lstm, x = nn.LSTM(3, 2), torch.randn(5, 1, 3)
    expected = lstm(x)[0].detach()
    lstm.to("openreg")
    assert all(flat is parameter for flat, parameter in zip(lstm._flat_weights, lstm.parameters(), strict=True))
    torch.testing.assert_close(lstm(x.to("openreg"))[0].cpu(), expected)


def test_tied_model_through_a_file_and_a_copy() -> None:
    model = Tied().to("openreg")
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (copy.deepcopy(model), torch.load(file, weights_only=False)):
        assert other.first.weight is other.second.weight
        assert torch.equal(other.first.weight.cpu(), model.first.weight.cpu())
    fresh = Tied()
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh.first.weight, model.first.weight.cpu())


@pytest.mark.parametrize("flag", ["swap_module_params_on_conversion", "overwrite_module_params_on_conversion"])
def test_other_ways_to_convert_parameters(flag: str) -> None:
    getattr(torch.__future__, f"set_{flag}")(True)
    try:
        layer = nn.Linear(2, 2)
        weight, values = layer.weight, layer.weight.detach().clone()
        layer.to("openreg")
        assert (layer.weight is weight) == flag.startswith("swap")
        assert torch.equal(layer.weight.cpu(), values)
    finally:
        getattr(torch.__future__, f"set_{flag}")(False)


def test_data_takes_memory_sizes_and_device() -> None:
    parameter = nn.Parameter(torch.ones(2))
    view, source = parameter.detach(), torch.arange(6.0, device="openreg").view(2, 3).t()
    parameter.data = source
    assert (parameter.data_ptr(), parameter.stride(), parameter.shape) == (source.data_ptr(), (1, 3), (3, 2))
    assert parameter.is_leaf
    assert parameter.requires_grad
    assert view.tolist() == [1.0, 1.0]  # the old memory
    (parameter * parameter).sum().backward()
    assert parameter.grad is not None
    assert parameter.grad.tolist() == (2 * source).tolist()
    parameter.grad = None
    parameter.data = torch.ones(3)
    (parameter * 3).sum().backward()
    assert parameter.grad.tolist() == [3.0, 3.0, 3.0]


def test_data_of_half_the_dtype() -> None:
    layer = nn.Linear(2, 2)
    weight = layer.weight
    layer.to("openreg", torch.bfloat16)
    assert layer.weight is weight
    assert weight.dtype == torch.bfloat16
    with pytest.raises(RuntimeError, match="must be floating point or complex"):
        weight.data = torch.ones(2, dtype=torch.int64, device="openreg")


def test_hooks_stay_on_a_moved_parameter() -> None:
    layer, seen = nn.Linear(2, 1), []
    layer.weight.register_hook(lambda gradient: seen.append(("gradient", gradient.device.type)))
    layer.weight.register_post_accumulate_grad_hook(lambda parameter: seen.append(("grad", parameter.grad.device.type)))
    for device in ("cpu", "openreg"):
        layer.to(device).zero_grad()
        layer(torch.ones(1, 2, device=device)).sum().backward()
    assert seen == [("gradient", "cpu"), ("grad", "cpu"), ("gradient", "openreg"), ("grad", "openreg")]


class Nobody(TorchDispatchMode):
    """Fails on every operator call that reaches Python."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"asked for {func}")


def test_conjugate_and_negative_bits_move_along() -> None:
    values = torch.tensor([1 + 2j, 3 - 1j])
    for make in (lambda t: t.conj(), lambda t: t.conj().imag):
        target, source = torch.zeros(2), make(values.to("openreg"))
        with Nobody():
            target.data = source
        assert (target.is_conj(), target.is_neg()) == (source.is_conj(), source.is_neg())
        assert torch.equal(target.cpu(), make(values))


class Wrapper(Tensor):
    """A tensor that reports the device but keeps its values elsewhere."""

    @staticmethod
    def __new__(cls, inner: Tensor) -> Wrapper:
        return Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=torch.device("openreg"))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        raise AssertionError(f"asked for {func}")


# Tensors that are not just sizes and strides over a storage.
OTHER_KINDS: dict[str, Callable[[], Tensor]] = {
    "sparse": lambda: torch.eye(2).to_sparse(),
    "compressed": lambda: torch.eye(2).to_sparse_csr(),
    "mkldnn": lambda: torch.ones(2, 2).to_mkldnn(),
    "quantized": lambda: torch._empty_affine_quantized([2, 2], scale=1.0, zero_point=0, dtype=torch.quint8),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(1)]),
    "wrapper": lambda: Wrapper(torch.ones(2, 2)),
    "meta": lambda: torch.ones(2, 2, device="meta"),
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
@pytest.mark.filterwarnings(
    "ignore:Sparse CSR tensor support is in beta state",
    "ignore:torch.quantize_per_tensor",
    "ignore:The PyTorch API of nested tensors is in prototype stage",
)
def test_other_kinds_of_tensors_are_refused(kind: str) -> None:
    other, plain = OTHER_KINDS[kind](), torch.ones(2, 2, device="openreg")
    assert not compatible(plain, other)
    assert not compatible(other, plain)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        plain.data = other
    assert plain.tolist() == [[1, 1], [1, 1]]


def test_a_mode_is_not_asked() -> None:
    source, target = torch.ones(2, device="openreg"), torch.zeros(3)
    with Nobody():
        target.data = source
    assert target.tolist() == [1.0, 1.0]


def test_moving_in_inference_mode() -> None:
    layer = nn.Linear(2, 1)
    weight = layer.weight
    with torch.inference_mode():
        assert compatible(weight, torch.ones(2, device="openreg"))
        layer.to("openreg")
    with torch.inference_mode():
        other = nn.Linear(2, 1)
        inference_weight = other.weight
        other.to("openreg")
        assert other.weight is inference_weight
        assert other(torch.ones(1, 2, device="openreg")).device.type == "openreg"


def test_undefined_and_same_kinds_as_pytorch_says() -> None:
    assert compatible(torch.ones(1, device="openreg:0"), torch.ones(1, device=LAST_DEVICE))
    assert compatible(torch.ones(1), torch.ones(1))
    assert compatible(torch.ones(1), torch.ones(1, device="openreg"))


# Zeros without memory


def test_zero_tensor_has_no_memory() -> None:
    zeros = torch._efficientzerotensor((2, 3), dtype=torch.bfloat16, device=LAST_DEVICE)
    assert zeros._is_zerotensor()
    assert (zeros.data_ptr(), zeros.untyped_storage().nbytes()) == (0, 12)
    assert (zeros.device, zeros.dtype, zeros.stride()) == (torch.device(LAST_DEVICE), torch.bfloat16, (3, 1))
    with torch.openreg.device(LAST_DEVICE):
        assert torch._efficientzerotensor((2,), device="openreg").device == torch.device(LAST_DEVICE)
    with pytest.raises(RuntimeError, match="invalid python storage"):
        zeros.untyped_storage().resize_(64)
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch._efficientzerotensor((-1,), device="openreg")
    with pytest.raises(RuntimeError, match=f"valid indices are 0 to {COUNT - 1}"):
        torch._efficientzerotensor((1,), device=f"openreg:{COUNT}")
    with pytest.raises(RuntimeError, match="ZeroTensors are immutable"):
        zeros.add_(1)


USES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "plus": lambda zeros, x: zeros + x,
    "times": lambda zeros, x: zeros * x,
    "over": lambda zeros, x: zeros / x,
    "matrix": lambda zeros, x: zeros.view(1, 2) @ x.view(2, 1),
    "sum": lambda zeros, x: zeros.sum() + x,
    "view": lambda zeros, x: zeros[1:] - x,
    "copy": lambda zeros, x: x.clone().copy_(zeros),
    "clone": lambda zeros, x: zeros.clone().add_(x),
    "host": lambda zeros, x: zeros.cpu() + x.cpu(),
    "conj": lambda zeros, x: zeros.to(torch.complex64).conj() + x,
    "cat": lambda zeros, x: torch.cat([zeros, x]),
    "where": lambda zeros, x: torch.where(x > 1, zeros, x),
}


@pytest.mark.parametrize("use", USES)
def test_zero_tensor_in_an_operator(use: str) -> None:
    x = torch.tensor([1.0, 2.0])
    expected = USES[use](torch._efficientzerotensor((2,)), x)
    result = USES[use](torch._efficientzerotensor((2,), device="openreg"), x.to("openreg"))
    assert torch.equal(result.cpu(), expected.cpu())
    assert result._is_zerotensor() == expected._is_zerotensor()


def test_absent_tangent_meets_infinity() -> None:
    tangents = []
    for device in ("cpu", "openreg"):
        x, y = torch.tensor([torch.inf, 2.0], device=device), torch.full((2,), 3.0, device=device)
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, torch.ones_like(x))
            tangents.append([forward_ad.unpack_dual(f(dual, y)).tangent.tolist() for f in (torch.mul, torch.div)])
    assert tangents[0] == tangents[1]
    assert tangents[0][0] == [3.0, 3.0]


# Derivatives


def layer(x: Tensor) -> Any:
    return functional.softmax(x.sin() @ x.mT, -1).cumsum(0) * x.norm()


def convolved(x: Tensor) -> Tensor:
    return functional.conv1d(x.unsqueeze(0), x[:1, :2].expand(3, 1, 2) * 2, groups=3).tanh()


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "layer": layer,
    "indexed": lambda x: x[[0, 2, 2]].exp().prod(-1),
    "complex": lambda x: torch.view_as_complex(torch.stack([x, x.cos()], -1)).log().abs(),
    "in place": lambda x: x.clone().mul_(x).sigmoid_(),
    "views": lambda x: (x * x).t().reshape(-1).unfold(0, 3, 2).flip(0).diff().square(),
    "of one element": lambda x: x[1, 1].pow(3),
    "convolution": convolved,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_and_second_derivatives(name: str) -> None:
    values = torch.rand(3, 3, dtype=torch.float64) + 0.5
    results = []
    for device in ("cpu", "openreg"):
        x = values.to(device).requires_grad_()
        (first,) = torch.autograd.grad(FUNCTIONS[name](x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.square().sum(), x)
        assert first.device == second.device == x.device
        results.append([first.detach().cpu(), second.cpu()])
    torch.testing.assert_close(results[1], results[0])


def test_gradcheck_in_every_mode() -> None:
    x = (torch.rand(3, 3, dtype=torch.float64) + 0.5).to("openreg").requires_grad_()
    modes = {"check_forward_ad": True, "check_batched_grad": True, "check_batched_forward_grad": True}
    assert gradcheck(layer, (x,), **modes)
    assert gradgradcheck(layer, (x,), check_batched_grad=True, check_fwd_over_rev=True)
    z = torch.view_as_complex(x[:, :2].detach().contiguous()).requires_grad_()
    assert gradcheck(lambda z: z.exp() * z.conj(), (z,))


class Cube(torch.autograd.Function):
    """A function that is differentiable twice and supports forward mode."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * gradient

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * tangent


class ThroughTheHost(torch.autograd.Function):
    """A user's own function that computes on the CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.cpu().square().to(x.device)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return (2 * x.cpu() * gradient.cpu()).to(x.device)


def test_functions_written_in_python() -> None:
    x = torch.rand(4, dtype=torch.float64).to("openreg").requires_grad_()
    assert gradcheck(Cube.apply, (x,), check_forward_ad=True)
    assert gradgradcheck(Cube.apply, (x,))
    assert gradcheck(ThroughTheHost.apply, (x,))
    (gradient,) = torch.autograd.grad(ThroughTheHost.apply(x).square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        gradient.sum().backward()


def test_functions_written_in_cpp() -> None:
    x = torch.linspace(-2, 2, 6, dtype=torch.float64).view(2, 3).to("openreg").requires_grad_()
    assert gradcheck(lambda t: torch.ops.openreg.soft_cap(t, 2.0), (x,))
    assert gradgradcheck(torch.ops.openreg.swiglu, (x, x.detach().flip(0).requires_grad_()))


def test_hooks_run_in_the_order_of_the_cpu() -> None:
    orders = []
    for device in ("cpu", "openreg"):
        order: list[str] = []
        model = nn.Linear(2, 1).to(device)
        note = order.append
        model.register_forward_pre_hook(lambda *_, note=note: note("before forward"))
        model.register_forward_hook(lambda *_, note=note: note("after forward"))
        model.register_full_backward_pre_hook(lambda *_, note=note: note("before backward"))
        model.register_full_backward_hook(lambda *_, note=note: note("after backward"))
        model.weight.register_hook(lambda _, note=note: note("gradient"))
        model.weight.register_post_accumulate_grad_hook(lambda _, note=note: note("accumulated"))
        output = model(torch.ones(1, 2, device=device, requires_grad=True))
        output.grad_fn.register_prehook(lambda _, note=note: note("before node"))
        output.grad_fn.register_hook(lambda *_, note=note: note("after node"))
        output.sum().backward()
        orders.append(order)
    assert orders[0] == orders[1]
    assert len(orders[0]) == 8


def test_hooks_change_gradients() -> None:
    x = torch.ones(2, device="openreg", requires_grad=True)
    x.register_hook(lambda gradient: gradient * 2)
    y = x * 3
    y.retain_grad()
    torch.autograd.graph.register_multi_grad_hook((x, y), lambda gradients: seen.append(len(gradients)))
    seen: list[int] = []
    y.register_hook(lambda gradient: gradient + 1)
    y.sum().backward()
    assert (x.grad.tolist(), y.grad.tolist(), seen) == ([12.0, 12.0], [2.0, 2.0], [2])
    total = (x * 1).sum()
    total.register_hook(lambda gradient: gradient.cpu())
    with pytest.raises(RuntimeError, match="has changed the type of value"):
        total.backward()


def test_optimizer_step_inside_the_backward() -> None:
    results = []
    for device in ("cpu", "openreg"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1)).to(device)

        def step(parameter: Tensor) -> None:
            assert parameter.grad is not None
            with torch.no_grad():
                parameter.sub_(parameter.grad, alpha=0.1)
            parameter.grad = None

        for parameter in model.parameters():
            parameter.register_post_accumulate_grad_hook(step)
        for _ in range(3):
            model(torch.linspace(0, 1, 8, device=device).view(2, 4)).sum().backward()
        assert all(parameter.grad is None for parameter in model.parameters())
        results.append([parameter.detach().cpu() for parameter in model.parameters()])
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_checkpoint_restores_the_random_numbers(device: str, reentrant: bool) -> None:
    x = torch.ones(1000, device=device, requires_grad=True)

    def block(x: Tensor) -> Tensor:
        return functional.dropout(x, 0.3) * x

    def run(call: Callable[[Tensor], Tensor]) -> list[list[float]]:
        torch.manual_seed(7)
        output = call(x)
        between = torch.rand(3, device=device)
        x.grad = None  # the reentrant form supports only backward()
        output.sum().backward()
        gradient = x.grad
        assert gradient is not None
        return [t.tolist() for t in (output, between, gradient, torch.rand(3, device=device))]

    expected = run(block)
    assert run(lambda x: checkpoint(block, x, use_reentrant=reentrant)) == expected
    other = run(lambda x: checkpoint(block, x, use_reentrant=reentrant, preserve_rng_state=False))
    assert other[0] == expected[0]
    assert other[2] != expected[2]


def test_functional_transforms() -> None:
    def loss(weights: Tensor, x: Tensor) -> Tensor:
        return (weights @ x).tanh().square().sum()

    def transformed(device: str) -> list[Tensor]:
        weights, xs = torch.linspace(-1, 1, 6).view(2, 3).to(device), torch.linspace(0, 2, 12).view(4, 3).to(device)
        func = torch.func
        vector = xs[0]
        return [
            func.grad(loss)(weights, vector),
            func.vmap(func.grad(loss), (None, 0))(weights, xs),
            func.vmap(loss, (None, 0), chunk_size=2)(weights, xs),
            func.jvp(lambda x: loss(weights, x), (vector,), (xs[1],))[1],
            func.vjp(lambda x: loss(weights, x), vector)[1](torch.ones((), device=device))[0],
            func.jacrev(lambda x: weights @ x.sin())(vector),
            func.jacfwd(lambda x: weights @ x.sin())(vector),
            func.hessian(lambda x: loss(weights, x))(vector),
            func.vmap(func.hessian(lambda x: loss(weights, x)))(xs),
            func.functionalize(lambda x: x.clone().mul_(2))(vector),
        ]

    for there, here in zip(transformed("openreg"), transformed("cpu"), strict=True):
        assert there.device.type == "openreg"
        torch.testing.assert_close(there.cpu(), here)


def test_gradients_of_each_sample() -> None:
    model = nn.Linear(3, 1).to("openreg")
    parameters = dict(model.named_parameters())
    x, y = torch.rand(4, 3, device="openreg"), torch.rand(4, 1, device="openreg")

    def loss(parameters: Mapping[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        return functional.mse_loss(torch.func.functional_call(model, dict(parameters), (x,)), y)

    gradients = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(parameters, x, y)
    for i in range(4):
        model.zero_grad()
        loss(parameters, x[i], y[i]).backward()
        assert model.weight.grad is not None
        torch.testing.assert_close(gradients["weight"][i].cpu(), model.weight.grad.cpu())


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_random_numbers_under_vmap(randomness: str) -> None:
    x = torch.ones(4, 64, device="openreg")
    rows = torch.func.vmap(lambda row: row * torch.rand_like(row), randomness=randomness)(x).cpu()
    assert rows.min() >= 0
    assert (rows.unique(dim=0).shape[0] == 1) == (randomness == "same")


def test_anomaly_mode_names_the_forward() -> None:
    x = torch.zeros(2, device="openreg", requires_grad=True)
    with warnings.catch_warnings(record=True, action="always") as caught, torch.autograd.detect_anomaly():
        output = (x.sqrt() * 0).sum()
        with pytest.raises(RuntimeError, match="'SqrtBackward0' returned nan values in its 0th output"):
            output.backward()
    assert "Anomaly Detection has been enabled" in str(caught[0].message)
    assert str(caught[-1].message).startswith("Error detected in SqrtBackward0")
    assert "output = (x.sqrt() * 0).sum()" in str(caught[-1].message)


# Devices, streams and threads


@pytest.mark.needs("two devices")
def test_backward_over_two_devices() -> None:
    torch.manual_seed(0)
    halves = nn.Linear(4, 8), nn.Linear(8, 2)
    x = torch.rand(5, 4)
    halves[1](halves[0](x).tanh()).square().sum().backward()
    expected = [parameter.grad for half in halves for parameter in half.parameters()]
    for i, half in enumerate(halves):
        half.zero_grad()
        half.to(f"openreg:{i}")
    halves[1](halves[0](x.to("openreg:0")).tanh().to("openreg:1")).square().sum().backward()
    for half, device in zip(halves, ("openreg:0", "openreg:1"), strict=True):
        assert {str(p.grad.device) for p in half.parameters() if p.grad is not None} == {device}
    gradients = [p.grad.cpu() for half in halves for p in half.parameters() if p.grad is not None]
    torch.testing.assert_close(gradients, expected)


def test_backward_over_streams_waits_for_slow_kernels() -> None:
    class Slow(torch.autograd.Function):
        @staticmethod
        def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
            torch.openreg._sleep(50_000_000)
            return gradient * 2

    x = torch.arange(3.0, device="openreg", requires_grad=True)
    streams = [torch.Stream("openreg:0") for _ in range(3)]
    parts: list[Tensor] = []
    for stream in streams:
        stream.wait_stream(torch.accelerator.current_stream())
        with stream:
            parts.append(Slow.apply(x * len(parts)))
    for stream in streams:
        torch.accelerator.current_stream().wait_stream(stream)
    total = torch.stack(parts).sum()
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # one leaf, three streams
        total.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [6.0, 6.0, 6.0]


def test_backward_called_on_a_stream() -> None:
    side = torch.Stream("openreg:0")
    x = torch.ones(1000, device="openreg", requires_grad=True)
    torch.openreg.synchronize()
    with side:
        loss = (x * 3).square().sum()
        loss.backward()
        doubled = x.grad * 2
    side.synchronize()
    assert doubled.unique().tolist() == [36.0]


def test_many_threads_call_backward() -> None:
    shared = torch.ones(4, device="openreg:0", requires_grad=True)
    failures: list[BaseException] = []

    def work(i: int) -> None:
        try:
            device = DEVICES[i % len(DEVICES)]
            for step in range(1, 6):
                x = torch.full((4,), float(i), device=device, requires_grad=True)
                (x.square() * step).sum().backward()
                assert x.grad is not None
                assert x.grad.tolist() == [2.0 * i * step] * 4
                (gradient,) = torch.autograd.grad((shared.to(device) * i).sum(), shared)
                assert gradient.tolist() == [float(i)] * 4
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_backward_inside_a_backward() -> None:
    class Inner(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x.square()

        @staticmethod
        def backward(ctx: Any, gradient: Tensor) -> Tensor:
            with torch.enable_grad():
                x = ctx.saved_tensors[0].detach().requires_grad_()
                x.square().sum().backward()
            return x.grad * gradient  # type: ignore[no-any-return]

    x = torch.tensor([1.0, 3.0], device=LAST_DEVICE, requires_grad=True)
    y = x
    for _ in range(2):
        y = Inner.apply(y)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 108.0]


TRAINING = f"""
    import torch
    def train(device):
        torch.manual_seed(0)
        layers = torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4)
        model = torch.nn.Sequential(*layers)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        model.to(device)
        x = torch.linspace(-1, 1, 256).view(32, 8).to(device)
        for _ in range(10):
            optimizer.zero_grad()
            for part in x.chunk(4):
                ((model(part) - part[:, :4].sin()).square().sum() / 32).backward()
            optimizer.step()
        return [parameter.detach().cpu() for parameter in model.parameters()]
    torch.testing.assert_close(train("{LAST_DEVICE}"), train("cpu"), rtol=1e-4, atol=1e-5)
"""


@pytest.mark.needs("simulator")
@pytest.mark.parametrize("mode", ["auto", "async", "inline"])
def test_training_in_each_launch_mode(run_process: RunProcess, mode: str) -> None:
    result = run_process(TRAINING, OPENREG_LAUNCH=mode)
    assert result.returncode == 0, result.stderr


# Accumulation and memory


def test_accumulated_gradients_equal_those_of_the_whole_batch() -> None:
    model, x = nn.Linear(4, 2).to("openreg"), torch.rand(12, 4, device="openreg")
    model(x).square().sum().backward()
    assert model.weight.grad is not None
    whole = model.weight.grad.cpu()
    model.zero_grad(set_to_none=False)
    kept = model.weight.grad
    for part in x.split(3):
        model(part).square().sum().backward()
    assert model.weight.grad is kept  # added in place
    torch.testing.assert_close(kept.cpu(), whole)


def test_gradient_takes_the_strides_of_its_leaf() -> None:
    x = torch.empty_strided((2, 3), (1, 2), device="openreg").fill_(1).requires_grad_()
    (x @ torch.ones(3, 2, device="openreg")).sum().backward()
    assert x.grad is not None
    assert x.grad.stride() == (1, 2)


def test_graph_is_freed_once_and_kept_on_request() -> None:
    x = torch.ones(2, device="openreg", requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 4.0]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()


def test_saved_tensors_wait_on_the_host() -> None:
    x = torch.linspace(0, 1, 5, device="openreg", requires_grad=True)
    for pin in (False, True):
        with torch.autograd.graph.save_on_cpu(pin_memory=pin, device_type="openreg"):
            y = x.exp().sin()
        (gradient,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(gradient, x.exp().cos() * x.exp())
    packed: list[torch.device] = []

    def pack(tensor: Tensor) -> Tensor:
        packed.append(tensor.device)
        return tensor.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.to("openreg")):
        x.sin().sum().backward()
    assert packed == [x.device]


# Errors


def wrong_device(gradient: Tensor) -> Callable[[], None]:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: FunctionCtx, _: Tensor) -> Tensor:
            return gradient

    return lambda: Wrong.apply(torch.ones(2, device="openreg", requires_grad=True)).sum().backward()


def changed_in_place() -> None:
    y = torch.ones(2, device="openreg", requires_grad=True).exp()
    y.add_(1)
    y.sum().backward()


FAILURES: dict[str, tuple[Callable[[], Any], str]] = {
    "gradient of the CPU": (wrong_device(torch.ones(2)), "expected device openreg:0 but got cpu"),
    "gradient of another device": (
        lambda: wrong_device(torch.ones(2, device="openreg:1"))(),
        "expected device openreg:0 but got openreg:1",
    ),
    "backward with another device": (
        lambda: (torch.ones(2, device="openreg", requires_grad=True) * 1).backward(torch.ones(2)),
        "invalid gradient at index 0 - expected device openreg:0 but got cpu",
    ),
    "grad of another device": (
        lambda: setattr(torch.ones(2, device="openreg", requires_grad=True), "grad", torch.ones(2)),
        "attempting to assign a gradient with device type 'cpu' to a tensor with device type 'openreg'",
    ),
    "leaf in place": (
        lambda: torch.ones(2, device="openreg", requires_grad=True).add_(1),
        "a leaf Variable that requires grad is being used in an in-place operation",
    ),
    "saved and changed": (changed_in_place, r"\[openregFloatType \[2\]\], which is output 0 of Exp, is at version 1"),
    "index": (
        lambda: torch.ones(2, device=f"openreg:{COUNT}", requires_grad=True),
        f"device index {COUNT} was asked for, but the valid indices are 0 to {COUNT - 1}",
    ),
    "integers": (
        lambda: torch.ones(2, dtype=torch.int64, device="openreg", requires_grad=True),
        "Only Tensors of floating point and complex dtype can require gradients",
    ),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_errors_name_what_is_wrong(failure: str) -> None:
    call, message = FAILURES[failure]
    if "openreg:1" in message:
        offers.require("two devices")
    with pytest.raises(RuntimeError, match=message):
        call()


def test_error_inside_a_backward_reaches_the_caller() -> None:
    class Stop(torch.autograd.Function):
        @staticmethod
        def forward(ctx: FunctionCtx, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: FunctionCtx, _: Tensor) -> Tensor:
            raise ValueError("no gradient today")

    x = torch.ones(2, device=LAST_DEVICE, requires_grad=True)
    with pytest.raises(ValueError, match="no gradient today"):
        Stop.apply(x * 2).sum().backward()
    (x * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_products_of_vectors_with_an_absent_tangent(dtype: torch.dtype) -> None:
    def seen(device: str) -> list[Tensor]:
        x = torch.tensor([1.0, 2.0, 3.0], dtype=dtype, device=device)
        w = torch.tensor([torch.inf, 1.0, 2.0], dtype=dtype, device=device)
        found: list[Tensor] = []
        for product in (torch.dot, torch.vdot, torch.inner, torch.linalg.vecdot, torch.matmul):
            found += torch.func.jvp(lambda a, product=product: product(a, w), (x,), (x,))
        if not dtype.is_complex:
            found.append(torch.func.hessian(lambda a: (a @ a) * (a @ w.nan_to_num(posinf=5.0)))(x))
        return [each.cpu() for each in found]

    for here, there in zip(seen("openreg"), seen("cpu"), strict=True):
        torch.testing.assert_close(here, there, equal_nan=True)
