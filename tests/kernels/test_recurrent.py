"""LSTM and GRU compared with the CPU: the modules, and the fused cells that they call on the device."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

from tests.layouts import to_device
from tests.offers import DEVICES, LAST_DEVICE

# These need the fused kernels: nothing may fall back. The CPU warns once per process that oneDNN has no projections.
pytestmark = [
    pytest.mark.needs("host kernels"),
    pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN"),
]

Module = Callable[..., Any]  # of torch.nn

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
# The CPU rounds every sum of a half type, the fused cell only what it returns.
TOLERANCES: dict[torch.dtype, dict[str, Any]] = {
    torch.bfloat16: {"rtol": 0.05, "atol": 0.05},
    torch.float16: {"rtol": 0.01, "atol": 0.01},
}

LAYERS: dict[str, tuple[Module, dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "lstm, no bias": (nn.LSTM, {"bias": False}),
    "lstm, two layers, both ways": (nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    "lstm, batch first": (nn.LSTM, {"batch_first": True}),
    "lstm, projected": (nn.LSTM, {"proj_size": 2}),
    "lstm, projected, both ways, no bias": (nn.LSTM, {"proj_size": 2, "bidirectional": True, "bias": False}),
    "lstm, dropout 0": (nn.LSTM, {"num_layers": 3, "dropout": 0.0}),
    "gru": (nn.GRU, {}),
    "gru, no bias": (nn.GRU, {"bias": False}),
    "gru, two layers, both ways": (nn.GRU, {"num_layers": 2, "bidirectional": True}),
    "gru, batch first": (nn.GRU, {"batch_first": True}),
}


def close(actual: Any, expected: Any, dtype: torch.dtype = torch.float32) -> None:
    torch.testing.assert_close(actual, expected, check_device=False, **TOLERANCES.get(dtype, {}))


def flat(nested: Any) -> list[Tensor]:
    """Flattens what a module returns: its output, and its state of one or two tensors."""
    if isinstance(nested, PackedSequence):
        return [nested.data]
    return [nested] if isinstance(nested, Tensor) else [tensor for part in nested for tensor in flat(part)]


def results(module: nn.Module, inputs: Any, device: str, seed: int = 0) -> list[Tensor]:
    """What the module returns, and the gradients of the inputs and of all parameters, on the CPU."""
    module = copy.deepcopy(module).to(device)
    inputs = [
        to_device(part.detach(), device).requires_grad_() if isinstance(part, Tensor) else part for part in inputs
    ]
    hx = [tensor for tensor in inputs[1:] if isinstance(tensor, Tensor)]
    outputs = flat(module(inputs[0], tuple(hx) if len(hx) > 1 else hx[0]) if hx else module(inputs[0]))
    generator = torch.Generator().manual_seed(seed)
    weights = [torch.randn(output.shape, generator=generator).to(output.dtype).to(device) for output in outputs]
    leaves = [part for part in inputs if isinstance(part, Tensor)] + list(module.parameters())
    assert all(output.device.type == torch.device(device).type for output in outputs)
    return [tensor.cpu() for tensor in [*outputs, *torch.autograd.grad(outputs, leaves, weights)]]


def same_as_on_the_cpu(module: nn.Module, *inputs: Any, dtype: torch.dtype = torch.float32) -> None:
    torch.openreg.reset_fallback_stats()
    actual = results(module, inputs, "openreg")
    assert torch.openreg.fallback_stats() == {}
    for one, other in zip(actual, results(module, inputs, "cpu"), strict=True):
        assert one.dtype == other.dtype
        close(one, other, dtype)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(3)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", LAYERS)
def test_layers_and_their_gradients(case: str, dtype: torch.dtype) -> None:
    kind, options = LAYERS[case]
    module = kind(3, 4, **options).to(dtype)
    same_as_on_the_cpu(module, torch.randn(5, 2, 3, dtype=dtype), dtype=dtype)


@pytest.mark.parametrize("case", LAYERS)
def test_a_sequence_without_a_batch(case: str) -> None:
    kind, options = LAYERS[case]
    same_as_on_the_cpu(kind(3, 4, **options), torch.randn(5, 3))


@pytest.mark.parametrize("case", LAYERS)
def test_a_given_state(case: str) -> None:
    kind, options = LAYERS[case]
    module = kind(3, 4, **options)
    states = module.num_layers * (2 if module.bidirectional else 1)
    batch = 5 if module.batch_first else 2
    hidden = torch.randn(states, batch, module.proj_size or 4)
    cell = [torch.randn(states, batch, 4)] if kind is nn.LSTM else []
    same_as_on_the_cpu(module, torch.randn(5, 2, 3), hidden, *cell)


@pytest.mark.parametrize("case", [case for case in LAYERS if "batch first" not in case])
def test_packed_sequences_of_several_lengths(case: str) -> None:
    kind, options = LAYERS[case]
    module = kind(3, 4, **options)
    padded = torch.randn(5, 3, 3)
    found = []
    for device in ("openreg", "cpu"):
        on_device, leaf = copy.deepcopy(module).to(device), padded.to(device).requires_grad_()
        packed = pack_padded_sequence(leaf, torch.tensor([2, 5, 3]), enforce_sorted=False)
        outputs = flat(on_device(packed))
        torch.stack([output.square().sum() for output in outputs]).sum().backward()
        assert leaf.grad is not None
        found.append([*outputs, leaf.grad, *(parameter.grad for parameter in on_device.parameters())])
    close(found[0], found[1])


@pytest.mark.parametrize("batch", [0, 1, 3])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_cells(kind: Module, bias: bool, batch: int) -> None:
    state = [torch.randn(batch, 4) for _ in range(2 if kind is nn.LSTMCell else 1)]
    same_as_on_the_cpu(kind(3, 4, bias=bias), torch.randn(batch, 3), *state)


def test_dropout_between_layers_is_seeded() -> None:
    module = nn.LSTM(3, 4, num_layers=2, dropout=0.5).to("openreg")
    steps = torch.randn(5, 2, 3, device="openreg")
    outputs = []
    for seed in (1, 1, 2):
        torch.openreg.manual_seed(seed)
        outputs.append(module(steps)[0])
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_a_second_derivative(kind: Module) -> None:
    """With create_graph PyTorch replaces the fused backward by a formula of differentiable operators."""
    has_a_second_derivative(kind(3, 4).double(), torch.randn(2, 3, dtype=torch.float64))


@pytest.mark.parametrize("case", [case for case in LAYERS if "batch first" not in case])
def test_a_second_derivative_of_a_layer(case: str) -> None:
    kind, options = LAYERS[case]
    has_a_second_derivative(kind(3, 4, **options).double(), torch.randn(5, 2, 3, dtype=torch.float64))


def has_a_second_derivative(module: nn.Module, x: Tensor) -> None:
    found = []
    for device in ("openreg", "cpu"):
        on_device, leaf = copy.deepcopy(module).to(device), x.to(device).requires_grad_()
        outputs = flat(on_device(leaf))
        (first,) = torch.autograd.grad([output.pow(3).sum() for output in outputs], leaf, create_graph=True)
        found.append(torch.autograd.grad(first.square().sum(), [leaf, *on_device.parameters()]))
    close(found[0], found[1])


def in_chunks(module: nn.LSTM, x: Tensor) -> Any:
    output, state = module(x[:2])
    return output.sum() + module(x[2:], state)[0].square().sum()


def from_a_state_of_the_input(module: nn.LSTM, x: Tensor) -> Any:
    state = x.mean(0, keepdim=True).tanh()
    return module(x, (state, state))[0].square().sum()


def with_tied_weights(module: nn.LSTM, x: Tensor) -> Any:
    module.weight_hh_l0, module.bias_hh_l0 = module.weight_ih_l0, module.bias_ih_l0
    return module(x)[0].square().sum()


def with_a_hook(module: nn.LSTM, x: Tensor) -> Any:
    module.weight_ih_l0.register_hook(lambda grad: grad * 2)
    return module(x)[0].square().sum()


@pytest.mark.parametrize("again", [False, True], ids=["plain", "create_graph"])
@pytest.mark.parametrize("loss", [in_chunks, from_a_state_of_the_input, with_tied_weights, with_a_hook])
def test_a_tensor_that_reaches_a_layer_by_two_paths(loss: Callable[..., Any], again: bool) -> None:
    module, x = nn.LSTM(3, 3).double(), torch.randn(4, 2, 3, dtype=torch.float64)
    found = []
    for device in ("openreg", "cpu"):
        on_device, leaf = copy.deepcopy(module).to(device), x.to(device).requires_grad_()
        value = loss(on_device, leaf)
        variables = [leaf, *on_device.parameters()]
        grads = torch.autograd.grad(value, variables, create_graph=again)
        if again:
            grads += torch.autograd.grad([grad.square().sum() for grad in grads], variables)
        found.append(grads)
    close(found[0], found[1])


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_gradients_that_no_kernel_can_read(kind: Module) -> None:
    module, x = kind(3, 4).double(), torch.randn(5, 2, 3, dtype=torch.float64)
    jacobians, zeros = [], []
    for device in ("openreg", "cpu"):
        on_device, there = copy.deepcopy(module).to(device), x.to(device)
        jacobians.append(torch.autograd.functional.jacobian(lambda x, run=on_device: run(x)[0], there, vectorize=True))
        output = on_device(there.requires_grad_())[0]
        nothing = torch._efficientzerotensor(output.shape, dtype=output.dtype, device=output.device)
        zeros.append(torch.autograd.grad(output, there, nothing))
    close(jacobians[0], jacobians[1])
    close(zeros[0], zeros[1])


# Forward mode imports its decompositions, which PyTorch compiles with torch.jit.
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
def test_no_tangent_of_a_gradient_is_lost() -> None:
    module = nn.LSTM(3, 4).to("openreg")
    x = torch.randn(5, 2, 3).to("openreg").requires_grad_()
    output = module(x)[0]
    with torch.autograd.forward_ad.dual_level():
        given = torch.autograd.forward_ad.make_dual(torch.ones_like(output), torch.ones_like(output))
        with pytest.raises(NotImplementedError, match="Trying to use forward AD with"):
            torch.autograd.grad(output, x, given)


def test_the_gradients_of_two_biases_are_two_tensors() -> None:
    module = nn.LSTM(3, 4).to("openreg")
    grads = torch.autograd.grad(module(torch.randn(5, 2, 3).to("openreg"))[0].sum(), list(module.parameters()))
    expected = [grad.cpu() / 2 for grad in grads]
    torch._foreach_mul_(grads, 0.5)
    close([grad.cpu() for grad in grads], expected)


def cells_of(module: nn.Module, *inputs: Any) -> int:
    """How many LSTM cells a forward calls: none if whole layers are computed."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        module(*inputs)
    return sum(event.name == "aten::_thnn_fused_lstm_cell" for event in profile.events())


class TestWholeLayers:
    """The kernels that compute all steps of an LSTM layer, and the calls that they leave to the cells."""

    module = nn.LSTM(3, 4, num_layers=2)
    steps = torch.randn(5, 2, 3)

    def results(self, device: str, which: list[str], frozen: str) -> list[Tensor | None]:
        module = copy.deepcopy(self.module).to(device)
        module.get_parameter("weight_hh_l0").requires_grad_("weight_hh_l0" not in frozen)
        module.get_parameter("bias_ih_l1").requires_grad_("bias_ih_l1" not in frozen)
        leaf = self.steps.detach().to(device).requires_grad_("input" not in frozen)
        output, (hy, cy) = module(leaf)
        loss = sum({"output": output, "hy": hy, "cy": cy}[name].pow(2).sum() for name in which)
        assert isinstance(loss, Tensor)
        loss.backward()
        return [output, hy, cy, leaf.grad, *(parameter.grad for parameter in module.parameters())]

    @pytest.mark.parametrize("frozen", ["", "input", "weight_hh_l0", "bias_ih_l1", "input weight_hh_l0 bias_ih_l1"])
    @pytest.mark.parametrize("which", [["output"], ["hy"], ["cy"], ["output", "cy"]], ids=" ".join)
    def test_a_loss_of_some_results_and_frozen_tensors(self, which: list[str], frozen: str) -> None:
        actual, expected = (self.results(device, which, frozen) for device in ("openreg", "cpu"))
        assert [grad is None for grad in actual] == [grad is None for grad in expected]
        assert sum(grad is None for grad in actual) == len(frozen.split())
        close([one for one in actual if one is not None], [one for one in expected if one is not None])

    def test_they_replace_the_cells(self) -> None:
        module, steps = copy.deepcopy(self.module).to("openreg"), self.steps.to("openreg")
        assert cells_of(module, steps) == 0
        assert cells_of(module.double(), steps.double()) == 0
        with torch.inference_mode():
            assert cells_of(module, steps.double()) == 0
            expected = copy.deepcopy(self.module).double()(self.steps.double())[0]
            close(module(steps.double())[0], expected)

    def test_what_they_leave_to_the_cells(self) -> None:
        steps = self.steps.to("openreg")
        assert cells_of(copy.deepcopy(self.module).half().to("openreg"), steps.half()) == 10
        assert cells_of(nn.LSTM(3, 4, proj_size=2).to("openreg"), steps) == 5
        with torch.autocast("openreg"):
            assert cells_of(copy.deepcopy(self.module).to("openreg"), steps) >= 10
        packed = pack_padded_sequence(steps, torch.tensor([5, 3]))
        assert cells_of(copy.deepcopy(self.module).to("openreg"), packed) == 10

    def test_any_strides(self) -> None:
        wide = torch.randn(3, 2, 10).permute(2, 1, 0)[::2]
        assert not wide.is_contiguous()
        module = nn.LSTM(3, 4, bidirectional=True)
        for name, parameter in module.named_parameters():
            if "weight" in name:
                parameter.data = parameter.data.t().contiguous().t()
        state = torch.randn(1, 1, 4).expand(2, 2, 4)
        same_as_on_the_cpu(module, wide, state, state)

    def test_a_result_that_the_program_changes(self) -> None:
        """The backward reads the cell states, and not the tensor that the program got."""
        gradients = []
        for device in ("openreg", "cpu"):
            module, leaf = copy.deepcopy(self.module).to(device), self.steps.to(device).requires_grad_()
            output, (hy, cy) = module(leaf)
            loss = output.sum() + hy.sum()
            cy.detach().zero_()
            hy.detach().zero_()
            loss.backward()
            gradients.append(leaf.grad)
        close(gradients[0], gradients[1])

    def test_gradients_by_finite_differences(self) -> None:
        module = nn.LSTM(2, 3, num_layers=2, bidirectional=True).double().to("openreg")
        state = [torch.randn(4, 2, 3, dtype=torch.float64).to("openreg").requires_grad_() for _ in range(2)]
        x = torch.randn(3, 2, 2, dtype=torch.float64).to("openreg").requires_grad_()
        assert torch.autograd.gradcheck(lambda x, *state: tuple(flat(module(x, state))), (x, *state))
        assert torch.autograd.gradgradcheck(lambda x: module(x, tuple(state))[0], (x,))

    def test_arguments_that_do_not_fit_get_pytorch_s_errors(self) -> None:
        module, steps = copy.deepcopy(self.module).to("openreg"), self.steps.to("openreg")
        parameters: list[Tensor] = list(module.parameters())
        state = [torch.zeros(2, 2, 4, device="openreg")] * 2
        options = (True, 2, 0.0, False, False, False)
        close(torch.lstm(steps, state, parameters, *options)[0], self.module(self.steps)[0])
        places = "tensors are not at the same device"
        for message, wrong in (
            ("cannot be multiplied", (steps[:, :, :2], state, parameters)),
            ("Expected more hidden states in stacked_rnn", (steps, [state[0][:1], state[1]], parameters)),
            ("cannot be multiplied", (steps, state, [parameters[1], *parameters[1:]])),
            ("got an incorrect number of RNN parameters", (steps, state, parameters[:-1])),
            ("lstm expects two hidden states", (steps, state[:1], parameters)),
            (f"Input and hidden {places}", (steps.cpu(), state, parameters)),
            (f"Input and parameter {places}", (steps, state, [parameters[0].cpu(), *parameters[1:]])),
            ("expected m1 and m2 to have the same dtype", (steps, state, [parameters[0].double(), *parameters[1:]])),
        ):
            with pytest.raises(RuntimeError, match=message):
                torch.lstm(*wrong, *options)


@pytest.mark.parametrize("kind", [nn.LSTMCell, nn.GRUCell])
def test_gradients_by_finite_differences(kind: Module) -> None:
    module = kind(2, 3).double().to("openreg")
    x = torch.randn(2, 2, dtype=torch.float64).to("openreg").requires_grad_()
    assert torch.autograd.gradcheck(lambda leaf: tuple(flat(module(leaf))), (x,))


def lstm_arguments(dtype: torch.dtype = torch.float64, device: str = "openreg") -> list[Tensor]:
    """Input gates, hidden gates, cx and two biases, for a batch of 2 and 3 hidden units."""
    return [torch.randn(size, dtype=dtype).to(device) for size in ((2, 12), (2, 12), (2, 3), (12,), (12,))]


def gru_arguments(dtype: torch.dtype = torch.float64, device: str = "openreg") -> list[Tensor]:
    return [torch.randn(size, dtype=dtype).to(device) for size in ((2, 9), (2, 9), (2, 3), (9,), (9,))]


CELLS: dict[str, tuple[Callable[..., Any], Callable[..., list[Tensor]]]] = {
    "LSTM": (torch.ops.aten._thnn_fused_lstm_cell, lstm_arguments),
    "GRU": (torch.ops.aten._thnn_fused_gru_cell, gru_arguments),
}


@pytest.mark.parametrize("only", ["hy", "cy"])
def test_a_loss_of_one_output_alone(only: str) -> None:
    arguments = [tensor.requires_grad_() for tensor in lstm_arguments()]
    chosen = dict(zip(("hy", "cy"), torch.ops.aten._thnn_fused_lstm_cell(*arguments), strict=False))[only]
    actual = torch.autograd.grad(chosen.pow(2).sum(), arguments)

    leaves = [tensor.detach().cpu().requires_grad_() for tensor in arguments]
    gates = (leaves[0] + leaves[1] + leaves[3] + leaves[4]).chunk(4, 1)
    cy = gates[1].sigmoid() * leaves[2] + gates[0].sigmoid() * gates[2].tanh()
    expected = cy if only == "cy" else gates[3].sigmoid() * cy.tanh()
    close(list(actual), list(torch.autograd.grad(expected.pow(2).sum(), leaves, allow_unused=True)))


def test_no_gradient_gives_none() -> None:
    cx = torch.ones(2, 3, device="openreg")
    backward = torch.ops.aten._thnn_fused_lstm_cell_backward_impl
    assert backward(None, None, cx, cx, torch.ones(2, 12, device="openreg"), True) == (None, None, None)


@pytest.mark.parametrize("cell", CELLS)
def test_any_strides(cell: str) -> None:
    function, arguments = CELLS[cell]
    dense = arguments()
    strided = [
        tensor.t().contiguous().t() if tensor.dim() == 2 else tensor.repeat_interleave(2)[::2] for tensor in dense
    ]
    assert not any(tensor.is_contiguous() for tensor in strided)
    close(function(*strided), function(*dense))
    grads = [
        torch.autograd.grad(
            function(*(tensor.requires_grad_() for tensor in tensors))[0],
            tensors,
            torch.ones(1, 1, dtype=torch.float64, device="openreg").expand(2, 3),
        )
        for tensors in (strided, dense)
    ]
    close(grads[0], grads[1])


@pytest.mark.parametrize("cell", CELLS)
def test_one_bias_or_other_sizes_are_refused(cell: str) -> None:
    function, arguments = CELLS[cell]
    tensors = arguments()
    name = f"openreg: the {cell} cell"
    columns = tensors[0].shape[1]
    with pytest.raises(RuntimeError, match=f"{name} takes two biases or none, got one"):
        function(*tensors[:4])
    with pytest.raises(RuntimeError, match=rf"{name} expects a state of sizes \[batch, hidden\], got \[3\]"):
        function(*tensors[:2], tensors[2][0])
    for position, wrong, message in (
        (0, tensors[0][:1], rf"input_gates of sizes \[2, {columns}\], Double on openreg:0, got sizes \[1, {columns}\]"),
        (1, tensors[1][:, 1:], rf"hidden_gates of sizes \[2, {columns}\], .* got sizes \[2, {columns - 1}\]"),
        (3, tensors[3][1:], rf"input_bias of sizes \[{columns}\], .* got sizes \[{columns - 1}\]"),
        (4, tensors[4].float(), rf"hidden_bias of sizes \[{columns}\], Double on openreg:0, .* Float on openreg:0"),
        (0, tensors[0].cpu(), r"input_gates .* Double on openreg:0, got .* Double on cpu"),
        *((1, tensors[1].to(other), f"hidden_gates .* on openreg:0, got .* on {other}") for other in DEVICES[1:]),
    ):
        with pytest.raises(RuntimeError, match=f"{name} expects {message}"):
            function(*tensors[:position], wrong, *tensors[position + 1 :])
    with pytest.raises(RuntimeError, match=f"{name} takes floating point tensors, got Int"):
        function(*(tensor.int() for tensor in tensors))


def test_wrong_arguments_of_the_backwards_are_refused() -> None:
    aten = torch.ops.aten
    state, workspace = torch.ones(2, 3, device="openreg"), torch.ones(2, 12, device="openreg")
    name = "openreg: the backward of the LSTM cell expects"
    with pytest.raises(RuntimeError, match=rf"{name} a gradient of sizes \[2, 3\], .* got sizes \[1, 3\]"):
        aten._thnn_fused_lstm_cell_backward_impl(state[:1], None, state, state, workspace, True)
    with pytest.raises(RuntimeError, match=rf"{name} a gradient of sizes \[2, 3\], .* got sizes \[2, 3\], Double"):
        aten._thnn_fused_lstm_cell_backward_impl(None, state.double(), state, state, workspace, True)
    with pytest.raises(RuntimeError, match=f"{name} cy of sizes"):
        aten._thnn_fused_lstm_cell_backward_impl(state, None, state, state[:1], workspace, True)
    with pytest.raises(RuntimeError, match=f"{name} workspace of sizes"):
        aten._thnn_fused_lstm_cell_backward_impl(state, None, state, state, workspace[:, 1:], True)
    with pytest.raises(RuntimeError, match=rf"{name} a state of sizes \[batch, hidden\], got \[3\]"):
        aten._thnn_fused_lstm_cell_backward_impl(state, None, state[0], state, workspace, True)
    name = "openreg: the backward of the GRU cell expects"
    with pytest.raises(RuntimeError, match=rf"{name} a gradient of sizes \[batch, hidden\], got \[3\]"):
        aten._thnn_fused_gru_cell_backward(state[0], workspace, True)
    with pytest.raises(RuntimeError, match=rf"{name} workspace of sizes \[2, 15\], .* got sizes \[2, 12\]"):
        aten._thnn_fused_gru_cell_backward(state, workspace, True)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_on_the_second_device_and_a_stream_of_its_own(kind: Module) -> None:
    module = kind(3, 4)
    steps = torch.randn(5, 2, 3)
    expected = module(steps)[0]
    stream = torch.Stream(LAST_DEVICE)
    with stream:
        output = module.to(LAST_DEVICE)(steps.to(LAST_DEVICE))[0]
        assert output.device == torch.device(LAST_DEVICE)
        output.sum().backward()
    stream.synchronize()
    close(output, expected)
    assert all(parameter.grad is not None for parameter in module.parameters())


def test_extreme_gates_do_not_overflow() -> None:
    for value in (1e4, -1e4):
        hy, cy, _ = torch.ops.aten._thnn_fused_lstm_cell(
            *(torch.full(size, value, device="openreg") for size in ((1, 4), (1, 4), (1, 1)))
        )
        gate = 1.0 if value > 0 else 0.0
        assert cy.item() == gate * value + gate * 1.0
        assert hy.item() == gate


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell])
def test_compiled(kind: Module) -> None:
    module = kind(3, 4).to("openreg")
    x = torch.randn(5, 2, 3, device="openreg") if kind in (nn.LSTM, nn.GRU) else torch.randn(2, 3, device="openreg")
    compiled = torch.compile(module, backend="aot_eager")
    found = []
    for call in (compiled, module):
        outputs = flat(call(x))
        found.append([*outputs, *torch.autograd.grad([output.sum() for output in outputs], module.parameters())])
    close(found[0], found[1])


def test_a_cell_state_that_is_negated_when_it_is_read() -> None:
    lstm = nn.LSTM(3, 5)
    x, hx, cx = torch.randn(4, 2, 3), torch.randn(1, 2, 5), torch.randn(1, 2, 5)

    def gradients(device: str) -> list[Tensor]:
        module = copy.deepcopy(lstm).to(device)
        leaves = [tensor.to(device).requires_grad_() for tensor in (x, hx, cx)]
        output, (_, last) = module(leaves[0], (leaves[1], torch._neg_view(leaves[2])))
        loss = output.sin().sum() + last.cos().sum()
        return [grad.cpu() for grad in torch.autograd.grad(loss, [*leaves, *module.parameters()])]

    torch.testing.assert_close(gradients("openreg"), gradients("cpu"))
