from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

from tests.aten.layouts import LAYOUTS, to_device, values


@pytest.fixture(autouse=True)
def fresh_policy() -> Iterator[None]:
    torch.openreg.set_fallback_policy("all")
    torch.openreg.reset_fallback_stats()
    yield
    torch.openreg.set_fallback_policy("all")


def check(function: object, *tensors: torch.Tensor) -> None:
    """The function gives on the device what it gives on the CPU: values, dtypes, strides, and there."""
    assert callable(function)
    expected, actual = function(*tensors), function(*(to_device(t) for t in tensors))
    many = isinstance(expected, tuple | list)
    for e, a in zip(expected if many else [expected], actual if many else [actual], strict=True):
        assert a.device == torch.device("openreg:0")
        assert a.stride() == e.stride()
        torch.testing.assert_close(a.cpu(), e)


def test_the_result_is_on_the_device_of_the_tensor_and_not_of_the_number() -> None:
    x = torch.arange(3.0)
    check(lambda t: 1 - t, x)
    check(lambda t: 3 // (t + 1), x)
    check(lambda t: torch.sub(torch.tensor(1.0), t), x)
    assert (1 - x.to("openreg:1")).device == torch.device("openreg:1")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str) -> None:
    x = LAYOUTS[layout](torch.float32)
    check(lambda t: t * 2 + 1, x)
    check(lambda t: torch.clamp(t, -3, 3), x)
    check(torch.exp, x.clamp(-5, 5))


def test_in_place_returns_its_argument_and_writes_through_views() -> None:
    x = torch.arange(12.0).to("openreg")
    view = x.view(3, 4)[:, ::2]
    assert view.add_(100) is view
    assert x.tolist() == [100.0, 1.0, 102.0, 3.0, 104.0, 5.0, 106.0, 7.0, 108.0, 9.0, 110.0, 11.0]


def test_out_arguments() -> None:
    x = values((4, 5), torch.float32)
    out = torch.empty(5, 4, device="openreg").t()
    assert torch.add(x.to("openreg"), 1, out=out) is out
    assert out.stride() == (1, 4)
    torch.testing.assert_close(out.cpu(), x + 1)
    values_out, indices_out = torch.empty(0, device="openreg"), torch.empty(0, dtype=torch.int64, device="openreg")
    torch.sort(x.to("openreg"), dim=1, descending=True, out=(values_out, indices_out))
    torch.testing.assert_close(values_out.cpu(), x.sort(dim=1, descending=True).values)
    torch.testing.assert_close(indices_out.cpu(), x.sort(dim=1, descending=True).indices)


def test_an_output_that_grows_gets_the_strides_of_the_cpu() -> None:
    x = torch.arange(6.0).view(2, 3)
    for start in (0, 4):
        expected = torch.exp(x.t(), out=torch.zeros(4)[start:start])
        out = torch.zeros(4, device="openreg")[start:start]
        torch.exp(x.to("openreg").t(), out=out)
        assert (out.stride(), out.storage_offset()) == (expected.stride(), start)
        torch.testing.assert_close(out.cpu(), expected)


def test_a_device_that_is_asked_for_is_preferred_to_that_of_the_tensors() -> None:
    library = torch.library.Library("openreg_test_place", "DEF")
    library.define("place(Tensor x, Device device) -> Tensor")
    library.impl("place", lambda x, device: (x + 1).to(device), "CPU")
    x = torch.ones(2, device="openreg:0")
    assert torch.ops.openreg_test_place.place(x, "openreg:1").device == torch.device("openreg:1")


def test_lists_and_optional_tensors() -> None:
    a, b = values((2, 3), torch.float32), values((4, 3), torch.float32)
    check(lambda *t: torch.cat(t), a, b)
    check(lambda t: torch.split(t + 0, 1), a)
    check(lambda t: t[torch.tensor([1, 0]), 1:], a)
    check(lambda t, i: t[i], a, torch.tensor([1, 0, 1]))
    check(lambda t: torch.nn.functional.layer_norm(t, (3,)), a)
    device_tensors = [t.to("openreg") for t in (a.clone(), b.clone())]
    torch._foreach_mul_(device_tensors, 2.0)
    torch.testing.assert_close(device_tensors[0].cpu(), a * 2)
    torch.testing.assert_close(device_tensors[1].cpu(), b * 2)


def test_index_put_with_cpu_indices() -> None:
    x = torch.zeros(4, device="openreg")
    x[torch.tensor([0, 2])] = torch.tensor([5.0, 6.0], device="openreg")
    assert x.tolist() == [5.0, 0.0, 6.0, 0.0]
    x[torch.tensor([True, False, False, True], device="openreg")] = 1.0
    assert x.tolist() == [1.0, 0.0, 6.0, 1.0]


def test_a_tensor_that_is_passed_twice_stays_one() -> None:
    x = torch.arange(4.0).to("openreg")
    x.mul_(x)
    assert x.tolist() == [0.0, 1.0, 4.0, 9.0]
    x.add_(x)
    assert x.tolist() == [0.0, 2.0, 8.0, 18.0]


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
    with pytest.raises(RuntimeError, match=r"openreg:1 and an earlier one on openreg:0"):
        join([x, torch.ones(2, device="openreg:1")])
    with pytest.raises(RuntimeError, match=r"argument 'out' of aten::angle.out is on cpu"):
        torch.angle(x, out=torch.empty(2))


def test_an_overlapping_output_is_refused() -> None:
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        torch.zeros(1, device="openreg").expand(3).add_(1)


def test_an_output_that_overlaps_an_input_is_refused() -> None:
    x = torch.arange(5.0).to("openreg")
    for use in (
        lambda: torch.exp(x[:-1], out=x[1:]),
        lambda: torch.add(x[:-1], 1, out=x[1:]),
        lambda: x[1:].add_(x[:-1]),
    ):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor refer"):
            use()
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    torch.exp(x[:2], out=x[2:4])  # the same storage, but other elements
    torch.testing.assert_close(x.cpu(), torch.tensor([0.0, 1.0, 1.0, 2.718281828, 4.0]))
    x[1:].neg_()
    x.add_(x.view(5))
    torch.testing.assert_close(x.cpu(), torch.tensor([0.0, -2.0, -2.0, -5.436563656, -8.0]))


def test_an_operator_that_its_own_fallback_needs_is_refused() -> None:
    library = torch.library.Library("openreg_test_again", "DEF")
    library.define("again(Tensor x) -> Tensor")
    library.impl("again", lambda x: torch.ops.openreg_test_again.again(x.to("openreg")), "CPU")
    with pytest.raises(NotImplementedError, match="the CPU fallback needs openreg_test_again::again"):
        torch.ops.openreg_test_again.again(torch.ones(4, device="openreg"))
    assert (torch.ones(2, device="openreg") + 1).tolist() == [2.0, 2.0]  # the thread can go on


@pytest.mark.parametrize("loss", [torch.nn.functional.mse_loss, torch.nn.functional.smooth_l1_loss])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_losses_that_reduce_give_no_warning(loss: Callable[..., torch.Tensor], reduction: str) -> None:
    x, y = values((4, 3), torch.float32), values((4, 3), torch.float32).flip(0)
    device_x = x.to("openreg").requires_grad_()
    x.requires_grad_()
    expected, actual = loss(x, y, reduction=reduction), loss(device_x, y.to("openreg"), reduction=reduction)
    torch.testing.assert_close(actual.cpu(), expected)
    expected.sum().backward()
    actual.sum().backward()
    torch.testing.assert_close(device_x.grad.cpu(), x.grad)


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
    with pytest.raises(IndexError, match="out of range"):
        torch.index_select(x, 0, torch.tensor([7], device="openreg"))
    with pytest.raises(RuntimeError):
        x.add_(torch.ones(3, device="openreg"))
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


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


def test_a_norm_is_one_round_trip() -> None:
    x = torch.randn(3, 4, device="openreg")
    torch.openreg.reset_fallback_stats()
    torch.nn.functional.layer_norm(x, (4,))
    torch.nn.functional.group_norm(x, 2)
    assert torch.openreg.fallback_stats() == {"aten::native_layer_norm": 1, "aten::native_group_norm": 1}


def test_what_pytorch_computes_for_known_devices_only() -> None:
    x = torch.tensor([1 + 2j, -3j])
    assert x.to("openreg").conj_physical_().tolist() == x.conj().tolist()
    votes = torch.tensor([[3.0, 1.0, 3.0], [2.0, 5.0, 5.0]])
    out = (torch.empty(0, device="openreg"), torch.empty(0, dtype=torch.int64, device="openreg"))
    torch.mode(votes.to("openreg"), 1, out=out)
    assert [one.tolist() for one in out] == [one.tolist() for one in torch.mode(votes, 1)]


def test_the_policy_lists_what_may_fall_back() -> None:
    x = torch.ones(2, device="openreg")
    torch.openreg.set_fallback_policy("listed", ops=["aten::angle", "aten::logical_not.out"])
    assert torch.angle(x).shape == (2,)
    assert torch.logical_not(x).shape == (2,)
    with pytest.raises(
        NotImplementedError, match=r"aten::floor_divide has no kernel for openreg, and the fallback policy"
    ):
        x // 2


def test_the_policy_blocks_what_may_not() -> None:
    x = torch.ones(2, device="openreg")
    torch.openreg.set_fallback_policy("error", ops=["aten::logical_not"])
    assert torch.angle(x).shape == (2,)
    with pytest.raises(NotImplementedError, match=r"aten::logical_not.out"):
        torch.logical_not(x)
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


def test_backward_through_fallbacks() -> None:
    def loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x @ w).softmax(dim=1).log().mul(torch.arange(3.0, device=x.device)).sum()

    x, w = values((4, 5), torch.float32) / 10, values((5, 3), torch.float32) / 10
    device_x, device_w = x.to("openreg").requires_grad_(), w.to("openreg").requires_grad_()
    x.requires_grad_(), w.requires_grad_()
    loss(device_x, device_w).backward()
    loss(x, w).backward()
    torch.testing.assert_close(device_x.grad.cpu(), x.grad)
    torch.testing.assert_close(device_w.grad.cpu(), w.grad)


def test_mlp_trains_like_on_the_cpu() -> None:
    losses = []
    for device in ("cpu", "openreg"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2)).to(device)
        x, y = values((6, 8), torch.float32).to(device) / 20, torch.arange(6, device=device) % 2
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        steps = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            steps.append(loss.item())
        losses.append(steps)
    torch.testing.assert_close(losses[0], losses[1])
    assert losses[0][-1] < losses[0][0]
