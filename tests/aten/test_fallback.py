from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from tests import offers
from tests.conftest import RunProcess
from tests.layouts import LAYOUTS, to_device, values
from tests.offers import DEVICES, LAST_DEVICE


@pytest.fixture(autouse=True)
def fresh_policy() -> Iterator[None]:
    torch.openreg.set_fallback_policy("all")
    torch.openreg.reset_fallback_stats()
    yield
    torch.openreg.set_fallback_policy("all")


def check(function: object, *tensors: torch.Tensor) -> None:
    """Checks that the function falls back, and returns the CPU's values, dtypes and strides on the device."""
    assert callable(function)
    device_tensors = [to_device(t) for t in tensors]
    torch.openreg.reset_fallback_stats()
    expected, actual = function(*tensors), function(*device_tensors)
    assert torch.openreg.fallback_stats()
    many = isinstance(expected, tuple | list)
    for e, a in zip(expected if many else [expected], actual if many else [actual], strict=True):
        assert a.device == torch.device("openreg:0")
        assert a.stride() == e.stride()
        torch.testing.assert_close(a.cpu(), e)


def test_the_result_is_on_the_device_of_the_tensor_and_not_of_the_number() -> None:
    x = torch.arange(3.0)
    check(lambda t: torch._add_relu(torch.tensor(3.0), t), x)
    check(lambda t: torch._add_relu(torch.tensor(7), t, alpha=-4), x)
    assert torch._add_relu(torch.tensor(3.0), x.to(LAST_DEVICE)).device == torch.device(LAST_DEVICE)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    x = LAYOUTS[layout](torch.float32)
    check(lambda t: torch._add_relu(t, 2), x)
    check(torch.frexp, x)
    check(torch.angle, x.clamp(-5, 5))


def test_in_place_returns_its_argument_and_writes_through_views() -> None:
    x = torch.arange(12.0).to("openreg")
    view = x.view(3, 4)[:, ::2]
    assert torch._add_relu_(view, torch.tensor(-4.0)) is view
    assert x.tolist() == [0.0, 1.0, 0.0, 3.0, 0.0, 5.0, 2.0, 7.0, 4.0, 9.0, 6.0, 11.0]
    assert torch.openreg.fallback_stats() == {"aten::_add_relu_.Tensor": 1}


def test_out_arguments() -> None:
    x = values((4, 5), torch.float32)
    out = torch.empty(5, 4, device="openreg").t()
    assert torch.angle(x.to("openreg"), out=out) is out
    assert out.stride() == (1, 4)
    torch.testing.assert_close(out.cpu(), x.angle())
    mantissa, exponent = torch.empty(0, device="openreg"), torch.empty(0, dtype=torch.int32, device="openreg")
    torch.frexp(x.to("openreg"), out=(mantissa, exponent))
    torch.testing.assert_close(mantissa.cpu(), x.frexp().mantissa)
    torch.testing.assert_close(exponent.cpu(), x.frexp().exponent)
    assert set(torch.openreg.fallback_stats()) == {"aten::angle.out", "aten::frexp.Tensor_out"}


def test_an_output_that_grows_gets_the_strides_of_the_cpu() -> None:
    x = torch.arange(6.0).view(2, 3)
    for start in (0, 4):
        expected = torch.angle(x.t(), out=torch.zeros(4)[start:start])
        out = torch.zeros(4, device="openreg")[start:start]
        torch.angle(x.to("openreg").t(), out=out)
        assert (out.stride(), out.storage_offset()) == (expected.stride(), start)
        torch.testing.assert_close(out.cpu(), expected)


@pytest.mark.needs("two devices")
def test_a_device_that_is_asked_for_is_preferred_to_that_of_the_tensors() -> None:
    library = torch.library.Library("openreg_test_place", "DEF")
    library.define("place(Tensor x, Device device) -> Tensor")
    library.impl("place", lambda x, device: (x + 1).to(device), "CPU")
    x = torch.ones(2, device="openreg:0")
    assert torch.ops.openreg_test_place.place(x, "openreg:1").device == torch.device("openreg:1")


def test_lists_and_optional_tensors() -> None:
    library = torch.library.Library("openreg_test_lists", "DEF")

    def on_cpu(tensors: list[torch.Tensor | None]) -> list[torch.Tensor]:
        present = [tensor for tensor in tensors if tensor is not None]
        assert {tensor.device.type for tensor in present} == {"cpu"}
        return present

    library.define("join(Tensor[] tensors) -> Tensor")
    library.define("pick(Tensor x, Tensor?[] indices) -> Tensor")
    library.define("double_(Tensor(a!)[] tensors) -> ()")
    library.impl("join", lambda tensors: torch.cat(on_cpu(tensors)), "CPU")
    library.impl("pick", lambda x, indices: x[:, on_cpu([x, *indices])[-1]], "CPU")
    library.impl("double_", lambda tensors: [tensor.mul_(2) for tensor in on_cpu(tensors)] and None, "CPU")
    operators = torch.ops.openreg_test_lists
    a, b = values((2, 3), torch.float32), values((4, 3), torch.float32)
    check(lambda *t: operators.join(t), a, b)
    check(lambda t, i: operators.pick(t, [None, i]), a, torch.tensor([1, 0, 1]))
    check(lambda t: torch.bincount(torch.tensor([0, 2, 2]).to(t.device)), a)  # without weights
    device_tensors = [t.to("openreg") for t in (a, b)]
    operators.double_(device_tensors)
    torch.testing.assert_close(device_tensors[0].cpu(), a * 2)
    torch.testing.assert_close(device_tensors[1].cpu(), b * 2)


@pytest.mark.parametrize(
    ("view", "kept"),
    [
        (lambda x: x, True),
        (lambda x: x.transpose(1, 3), True),
        (lambda x: x.to(memory_format=torch.channels_last), True),
        (lambda x: x[:, ::2, 1:], True),
        (lambda x: x[:1].expand(5, 8, 6, 4), True),
        (lambda x: x[:, :, ::5, ::3], False),  # it skips too much of the storage
        (lambda x: x[:0], True),
        (lambda x: x[0, 0, 0, 0], True),
    ],
)
def test_the_kernel_of_the_cpu_sees_the_layout(view: Callable[[torch.Tensor], torch.Tensor], kept: bool) -> None:
    library = torch.library.Library("openreg_test_layout", "DEF")
    library.define("seen(Tensor x) -> (Tensor, Tensor)")
    library.impl("seen", lambda x: (torch.tensor(x.stride()), x.clone()), "CPU")
    x = view(values((2, 8, 6, 4), torch.float32))
    on_device = view(values((2, 8, 6, 4), torch.float32).to("openreg"))
    strides, same = torch.ops.openreg_test_layout.seen(on_device)
    assert torch.equal(same.cpu(), x)
    assert tuple(strides.tolist()) == (x.stride() if kept else x.contiguous().stride())


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("layer", [torch.nn.BatchNorm2d, torch.nn.InstanceNorm2d])
def test_running_statistics(layer: type[torch.nn.Module], training: bool) -> None:
    x = values((3, 5, 4, 4), torch.float32)
    expected = layer(5, track_running_stats=True).train(training)
    actual = layer(5, track_running_stats=True).train(training).to("openreg")
    for _ in range(2):
        torch.testing.assert_close(actual(x.to("openreg")).cpu(), expected(x))
    for name, buffer in expected.named_buffers():
        torch.testing.assert_close(actual.get_buffer(name).cpu(), buffer)
    assert training == bool(expected.running_mean.count_nonzero())


def test_running_statistics_of_operators_that_do_not_say_so() -> None:
    x = values((3, 5, 4), torch.float32)
    out = [torch.empty(0) for _ in range(3)]
    for call in (
        lambda x, mean, var: torch.batch_norm_update_stats(x, mean, var, 0.25),
        lambda x, mean, var: torch.native_batch_norm(x, None, None, mean, var, True, 0.25, 1e-5),
        lambda x, mean, var: torch.native_batch_norm(
            x, None, None, mean, var, True, 0.25, 1e-5, out=tuple(each.to(x.device) for each in out)
        ),
    ):
        expected, actual = (torch.zeros(5), torch.ones(5)), (torch.zeros(5).to("openreg"), torch.ones(5).to("openreg"))
        call(x, *expected)
        call(x.to("openreg"), *actual)
        torch.testing.assert_close(tuple(each.cpu() for each in actual), expected)
        assert expected[0].count_nonzero() == 5
    assert len(torch.batch_norm_update_stats(x.to("openreg"), None, None, 0.25)) == 2


def test_whether_tensors_share_memory() -> None:
    x = torch.ones(4, device="openreg")
    assert x.is_set_to(x.detach())
    assert not x.is_set_to(x.clone())
    assert not x.is_set_to(x[:2])


def test_a_tensor_that_is_passed_twice_stays_one() -> None:
    x = torch.arange(1.0, 5.0).to("openreg")
    torch._add_relu_(x, x)
    assert x.tolist() == [2.0, 4.0, 6.0, 8.0]
    assert torch.openreg.fallback_stats() == {"aten::_add_relu_.Tensor": 1}


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "hfft", "ihfft", "fft2", "fftn", "hfft2", "hfftn"])
def test_fft(name: str) -> None:
    x = values((4, 6), torch.float32)
    function = getattr(torch.fft, name)
    if name in {"ifft", "hfft", "hfft2", "hfftn"}:
        x = torch.complex(x, x.flip(1))
    torch.testing.assert_close(function(x.to("openreg")).cpu(), function(x))


def test_fft_backward() -> None:
    x = values((8,), torch.float64)
    device_x = x.to("openreg").requires_grad_()
    x.requires_grad_()
    torch.fft.ihfft(device_x).abs().square().sum().backward()
    torch.fft.ihfft(x).abs().square().sum().backward()
    torch.testing.assert_close(device_x.grad.cpu(), x.grad)


def test_mixed_devices_are_refused() -> None:
    x = torch.ones(2, device="openreg:0")
    library = torch.library.Library("openreg_test_join", "DEF")
    library.define("join(Tensor[] tensors) -> Tensor")
    library.impl("join", lambda tensors: torch.cat(tensors), "CPU")
    join = torch.ops.openreg_test_join.join
    with pytest.raises(RuntimeError, match=r"argument 'tensors' of .*::join is on cpu and another one on openreg:0"):
        join([x, torch.ones(2)])
    for other in DEVICES[1:]:
        with pytest.raises(RuntimeError, match=f"{other} and an earlier one on openreg:0"):
            join([x, torch.ones(2, device=other)])
    with pytest.raises(RuntimeError, match=r"argument 'out' of aten::angle.out is on cpu"):
        torch.angle(x, out=torch.empty(2))


def test_an_overlapping_output_is_refused() -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch._add_relu_(torch.zeros(1, device="openreg").expand(3), 2)


def test_an_output_that_overlaps_an_input_is_refused() -> None:
    x = torch.arange(5.0).to("openreg")
    for use in (
        lambda: torch.angle(x[:-1], out=x[1:]),
        lambda: torch.mvlgamma(x[:-1], 1, out=x[1:]),
        lambda: torch._add_relu_(x[1:], x[:-1]),
    ):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer"):
            use()
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    torch.angle(-x[3:], out=x[:2])  # the same storage, but other elements
    torch.testing.assert_close(x.cpu(), torch.tensor([torch.pi, torch.pi, 2.0, 3.0, 4.0]))
    torch._add_relu_(x, x.view(5), alpha=-1)
    assert x.tolist() == [0.0, 0.0, 0.0, 0.0, 0.0]


def test_an_operator_that_its_own_fallback_needs_is_refused() -> None:
    library = torch.library.Library("openreg_test_again", "DEF")
    library.define("again(Tensor x) -> Tensor")
    library.impl("again", lambda x: torch.ops.openreg_test_again.again(x.to("openreg")), "CPU")
    with pytest.raises(NotImplementedError, match="the CPU fallback needs openreg_test_again::again"):
        torch.ops.openreg_test_again.again(torch.ones(4, device="openreg"))
    assert (torch.ones(2, device="openreg") + 1).tolist() == [2.0, 2.0]  # the thread can go on


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_a_loss_and_its_derivative(reduction: str) -> None:
    x, classes = values((4, 3), torch.float32), torch.tensor([2, 0, 1, 2])
    device_x = x.to("openreg").requires_grad_()
    x.requires_grad_()
    expected = torch.nn.functional.multi_margin_loss(x, classes, reduction=reduction)
    actual = torch.nn.functional.multi_margin_loss(device_x, classes.to("openreg"), reduction=reduction)
    torch.testing.assert_close(actual.cpu(), expected)
    expected.sum().backward()
    actual.sum().backward()
    torch.testing.assert_close(device_x.grad.cpu(), x.grad)
    stats = torch.openreg.fallback_stats()
    if offers.has_host_kernels():
        assert stats == {"aten::multi_margin_loss": 1, "aten::multi_margin_loss_backward": 1}


def test_no_kernel_anywhere() -> None:
    with pytest.raises(NotImplementedError, match=r"_cudnn_init_dropout_state has no kernel for openreg, and none for"):
        torch.ops.aten._cudnn_init_dropout_state(0.5, True, 1, dtype=torch.uint8, device="openreg")


def test_a_view_that_only_the_cpu_can_make_is_refused() -> None:
    library = torch.library.Library("openreg_test_view", "DEF")
    library.define("half(Tensor(a) x) -> Tensor(a)")
    library.impl("half", lambda x: x[: len(x) // 2], "CPU")
    with pytest.raises(NotImplementedError, match="returns a view of its argument"):
        torch.ops.openreg_test_view.half(torch.ones(4, device="openreg"))


def test_random_operators_without_a_generator_are_refused() -> None:
    library = torch.library.Library("openreg_test_random", "DEF")
    library.define("noise(Tensor x) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
    library.impl("noise", lambda x: torch.rand_like(x), "CPU")
    with pytest.raises(NotImplementedError, match="draws random numbers but takes no generator"):
        torch.ops.openreg_test_random.noise(torch.ones(4, device="openreg"))


def test_custom_operators_of_the_cpu_fall_back_too() -> None:
    library = torch.library.Library("openreg_test_custom", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    x = torch.ones(2, device="openreg")
    torch.openreg.reset_fallback_stats()
    assert torch.ops.openreg_test_custom.twice(x).tolist() == [2.0, 2.0]
    assert torch.openreg.fallback_stats() == {"openreg_test_custom::twice": 1}


def test_an_error_of_the_cpu_kernel_changes_nothing() -> None:
    x = torch.arange(4.0).to("openreg")
    numbers = torch.tensor([-1, 0, 1], device="openreg")
    with pytest.raises(RuntimeError, match="only supports 1-d non-negative integral inputs"):
        torch.bincount(numbers)
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type Long"):
        torch._add_relu_(numbers, 2.5)
    assert numbers.tolist() == [-1, 0, 1]
    with pytest.raises(RuntimeError, match="must match the size of tensor b"):
        x.add_(torch.ones(3, device="openreg"))
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.needs("host kernels")
def test_statistics_name_what_fell_back() -> None:
    x = torch.ones(2, device="openreg")
    torch.openreg.reset_fallback_stats()
    torch.angle(x)
    torch.angle(x)
    x.abs()
    x.view(2, 1)
    x.cpu()
    stats = torch.openreg.fallback_stats()
    assert stats.pop("aten::abs.out", 1) == 1  # only where the build has no kernels
    assert stats == {"aten::angle": 2}
    torch.openreg.reset_fallback_stats()
    assert torch.openreg.fallback_stats() == {}


def test_a_composite_kernel_that_works_on_known_devices_only_is_replaced() -> None:
    x = torch.tensor([1 + 2j, -3j])
    on_device = x.to("openreg")
    composite = torch.library.get_kernel("aten::conj_physical_", "CPU")
    with pytest.raises(RuntimeError, match="DispatchStub: missing kernel for openreg"):
        composite.call_boxed(torch._C.DispatchKeySet(torch._C.DispatchKey.PrivateUse1), on_device)
    torch.openreg.reset_fallback_stats()
    assert on_device.conj_physical_() is on_device
    assert torch.openreg.fallback_stats() == {"aten::conj_physical_": 1}
    assert on_device.tolist() == x.conj().tolist()
    view = on_device[1:]
    view.conj_physical_()
    assert on_device.tolist() == [1 - 2j, -3j]
    assert torch.ones(2, device="openreg").conj_physical_().tolist() == [1.0, 1.0]


def test_the_policy_lists_what_may_fall_back() -> None:
    x = torch.ones(2, device="openreg")
    torch.openreg.set_fallback_policy("listed", ops=["aten::angle", "aten::frexp.Tensor_out"])
    assert torch.angle(x).shape == (2,)
    assert torch.frexp(x).mantissa.shape == (2,)
    with pytest.raises(NotImplementedError, match=r"aten::histc has no kernel for openreg, and the fallback policy"):
        torch.histc(x, 2)


@pytest.mark.needs("host kernels")
def test_the_policy_blocks_what_may_not() -> None:
    x = torch.ones(2, device="openreg")
    torch.openreg.set_fallback_policy("error", ops=["aten::frexp"])
    assert torch.angle(x).shape == (2,)
    with pytest.raises(NotImplementedError, match=r"aten::frexp.Tensor_out"):
        torch.frexp(x)
    torch.openreg.set_fallback_policy("error")
    with pytest.raises(NotImplementedError, match=r"aten::angle"):
        torch.angle(x)


def test_bad_policies() -> None:
    with pytest.raises(ValueError, match="a fallback policy is 'all', 'listed' or 'error', got 'some'"):
        torch.openreg.set_fallback_policy("some")
    with pytest.raises(ValueError, match="no operator is named 'aten::addd'"):
        torch.openreg.set_fallback_policy("listed", ops=["aten::addd"])
    with pytest.raises(ValueError, match="takes no list of operators"):
        torch.openreg.set_fallback_policy("all", ops=["aten::add"])
    with pytest.raises(
        TypeError, match=r"ops is a list of names, got the name 'aten::add' alone: give \['aten::add'\]"
    ):
        torch.openreg.set_fallback_policy("listed", "aten::add")


def test_a_list_of_no_operators() -> None:
    x = torch.ones(3, device="openreg")
    torch.openreg.set_fallback_policy("error", [])  # none of these may
    assert torch.angle(x).tolist() == [0.0] * 3
    torch.openreg.set_fallback_policy("listed", [])  # these alone may
    with pytest.raises(NotImplementedError, match=r"aten::angle"):
        torch.angle(x)


def test_backward_through_fallbacks() -> None:
    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        spectrum: torch.Tensor = torch.fft.rfft(torch.cdist(x @ w, w))
        return spectrum.abs().std()

    x, w = values((4, 5), torch.float32) / 10, values((5, 3), torch.float32) / 10
    device_x, device_w = x.to("openreg").requires_grad_(), w.to("openreg").requires_grad_()
    x.requires_grad_(), w.requires_grad_()
    loss(device_x, device_w).backward()
    fell_back = {"aten::_cdist_forward", "aten::_cdist_backward", "aten::_fft_r2c", "aten::_fft_c2c"}
    assert fell_back <= torch.openreg.fallback_stats().keys()
    loss(x, w).backward()
    torch.testing.assert_close(device_x.grad.cpu(), x.grad)
    torch.testing.assert_close(device_w.grad.cpu(), w.grad)


COMPOSITE_IN_NAME: dict[str, Callable[[str], object]] = {
    "choose_qparams_optimized": lambda device: torch.choose_qparams_optimized(
        torch.arange(10.0, device=device), 10, 200, 0.16, 8
    ),
    "_rowwise_prune": lambda device: torch._rowwise_prune(
        torch.ones(3, 2, device=device), torch.tensor([True, False, True], device=device), torch.int32
    ),
    "_sobol_engine_initialize_state_": lambda device: torch._sobol_engine_initialize_state_(
        torch.zeros(3, 30, dtype=torch.long, device=device), 3
    ),
    "_reshape_from_tensor": lambda device: torch._reshape_from_tensor(
        torch.arange(6.0, device=device), torch.tensor([2, 3], device=device)
    ),
    "kaiser_window": lambda device: torch.kaiser_window(5, False, 3.0, device=device),
    "glu_jvp": lambda device: torch.ops.aten.glu_jvp(
        torch.ones(2, device=device), torch.arange(4.0, device=device), torch.ones(4, device=device), 0
    ),
}


@pytest.mark.parametrize("call", COMPOSITE_IN_NAME.values(), ids=COMPOSITE_IN_NAME)
def test_composite_in_name_only(call: Callable[[str], object]) -> None:
    """Each ended in a stub without a kernel, or read device memory as host memory, which crashes the process."""
    torch.testing.assert_close(call("openreg"), call("cpu"), check_device=False)


def test_packed_weights_are_refused() -> None:
    for call in (torch.fbgemm_linear_quantize_weight, torch.fbgemm_pack_gemm_matrix_fp16):
        with pytest.raises(NotImplementedError, match="packs weights for the CPU, and takes tensors of the CPU alone"):
            call(torch.ones(4, 4, device="openreg"))


def test_a_solve_across_devices_is_refused_by_name() -> None:
    with pytest.raises(RuntimeError, match=r"argument 'B' of aten::_linalg_solve_ex is on cpu and another one on"):
        torch.linalg.solve(torch.eye(2, device="openreg"), torch.ones(2, 2))
    x = (torch.eye(2, device="openreg") * 2).requires_grad_()
    torch.linalg.solve(x, torch.ones(2, device="openreg")).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[-0.25, -0.25], [-0.25, -0.25]]


def test_the_first_fallback_warns_once(run_process: RunProcess) -> None:
    program = """
        import warnings
        import torch
        warnings.simplefilter("always")
        x = torch.ones(2).to("openreg")
        with warnings.catch_warnings(record=True) as caught:
            x.frexp(), x.histc(3), x.frexp()
        print(*[warning.message for warning in caught], sep="\\n")
        """
    once = run_process(program)
    assert once.stdout.count("\n") == 1
    assert once.stdout.startswith("openreg runs aten::frexp.Tensor_out on the CPU, by copies")
    assert "torch.openreg.fallback_stats() lists all of them" in once.stdout
    assert "OPENREG_FALLBACK_WARNING=off silences" in once.stdout
    assert run_process(program, OPENREG_FALLBACK_WARNING="off").stdout == "\n"
    assert run_process(program, OPENREG_FALLBACK_WARNING="once").stdout == once.stdout
    wrong = run_process(program, status=1, OPENREG_FALLBACK_WARNING="1")
    assert "ValueError: openreg: OPENREG_FALLBACK_WARNING is 'once' or 'off', got '1'" in wrong.stderr
