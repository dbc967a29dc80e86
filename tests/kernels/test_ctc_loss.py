"""The CTC loss and its gradient, compared with the CPU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from tests.offers import DEVICES

ctc_loss: Any = functional.ctc_loss  # its annotations do not allow lists of lengths
pytestmark = [
    pytest.mark.usefixtures("nothing_falls_back"),
    pytest.mark.skipif(
        "aten::_ctc_loss" not in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"),
        reason="this build has no kernels",
    ),
]
PADDED = torch.tensor([[1, 2, 2, 0], [3, 0, 0, 0], [5, 4, 1, 2]])
JOINED = torch.tensor([1, 2, 2, 3, 5, 4, 1, 2])
INPUT_LENGTHS, TARGET_LENGTHS = [9, 7, 8], [3, 1, 4]


def loss_and_gradient(device: str, targets: torch.Tensor, dtype: torch.dtype, tensors: bool, **options: Any) -> Any:
    scores = torch.randn(9, 3, 6, generator=torch.Generator().manual_seed(1)).to(dtype).to(device).requires_grad_()
    lengths = [torch.tensor(length) if tensors else length for length in (INPUT_LENGTHS, TARGET_LENGTHS)]
    loss = ctc_loss(scores.log_softmax(-1), targets.to(device), *lengths, **options)
    weights = torch.linspace(1, 2, loss.numel(), dtype=dtype).view(loss.shape).to(device)
    return [loss.cpu(), torch.autograd.grad(loss, scores, weights)[0].cpu()]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("tensors", [False, True], ids=["lengths of the host", "lengths in tensors"])
@pytest.mark.parametrize("targets", [PADDED, JOINED], ids=["padded", "joined"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_loss_and_gradient(dtype: torch.dtype, targets: torch.Tensor, tensors: bool, reduction: str) -> None:
    expected = loss_and_gradient("cpu", targets, dtype, tensors, reduction=reduction)
    torch.testing.assert_close(loss_and_gradient("openreg", targets, dtype, tensors, reduction=reduction), expected)


def test_lengths_on_the_device() -> None:
    log_probs = torch.randn(9, 3, 6).log_softmax(-1)
    lengths = [torch.tensor(INPUT_LENGTHS), torch.tensor(TARGET_LENGTHS)]
    expected = ctc_loss(log_probs, PADDED, *lengths)
    on_device = [length.to("openreg") for length in lengths]
    actual = ctc_loss(log_probs.to("openreg"), PADDED.to("openreg"), *on_device)
    torch.testing.assert_close(actual.cpu(), expected)


def test_a_target_that_does_not_fit() -> None:
    """Ten labels in nine steps: the loss is infinite, or zero with zero_infinity; the gradient is the CPU's."""
    for zero_infinity in (False, True):
        results = []
        for device in ("cpu", "openreg"):
            scores = torch.zeros(9, 1, 6, device=device, requires_grad=True)
            targets = torch.ones(1, 10, dtype=torch.int64, device=device)
            loss = ctc_loss(scores.log_softmax(-1), targets, [9], [10], zero_infinity=zero_infinity)
            loss.backward()
            results.append([loss.detach().cpu(), scores.grad.cpu()])
        torch.testing.assert_close(results[1], results[0], equal_nan=True)
        assert results[1][0].item() == (0.0 if zero_infinity else float("inf"))


@pytest.mark.parametrize(
    ("targets", "lengths", "why"),
    [
        (PADDED, ([10, 7, 8], TARGET_LENGTHS), "Expected input_lengths to have value at most 9, but got value 10"),
        (PADDED, ([9, 7], TARGET_LENGTHS), "input_lengths must be of size batch_size"),
        (PADDED, (INPUT_LENGTHS, [3, 1, 5]), "Expected tensor to have size at least 5 at dimension 1"),
    ],
)
def test_what_is_refused_is_what_the_cpu_refuses(targets: torch.Tensor, lengths: Any, why: str) -> None:
    messages = []
    for device in ("cpu", "openreg"):
        log_probs = torch.zeros(9, 3, 6, device=device).log_softmax(-1)
        with pytest.raises(RuntimeError, match=why) as raised:
            ctc_loss(log_probs, targets.to(device), *lengths)
        messages.append(str(raised.value).splitlines()[0])
    assert messages[0] == messages[1]


def test_devices_that_differ() -> None:
    log_probs = torch.zeros(9, 3, 6, device="openreg").log_softmax(-1)
    for other in DEVICES[1:]:
        with pytest.raises(RuntimeError, match=f"got targets is on {other}, different from other tensors on openreg:0"):
            torch._ctc_loss(log_probs, PADDED.to(other), INPUT_LENGTHS, TARGET_LENGTHS)
    with pytest.raises(RuntimeError, match=r"expected log_probs of 3 dimensions, but got shape \[2\]"):
        torch._ctc_loss(torch.ones(2, device="openreg"), PADDED.to("openreg"), INPUT_LENGTHS, TARGET_LENGTHS)


@pytest.mark.parametrize(
    ("targets", "lengths", "label"),
    [
        (torch.tensor([[1, 10**8], [2, 3]]), [2, 2], "sample 0 has the label 100000000"),
        (torch.tensor([[1, 2], [2, -3]]), [2, 2], "sample 1 has the label -3"),
        (torch.tensor([1, 2, 4]), [1, 2], "sample 1 has the label 4"),
    ],
)
def test_a_label_that_is_no_class_is_refused(targets: torch.Tensor, lengths: list[int], label: str) -> None:
    """The CPU reads out of bounds: it returns some number, or the process crashes."""
    log_probs = torch.zeros(5, 2, 4, device="openreg", requires_grad=True)
    with pytest.raises(RuntimeError, match=f"ctc_loss: {label}, and log_probs has 4 classes: give labels of 0 to 3"):
        ctc_loss(log_probs, targets.to("openreg"), [5, 5], lengths)
    assert torch.ones(2, device="openreg").sum().item() == 2


def test_what_stands_behind_a_target_is_no_label() -> None:
    targets = torch.tensor([[1, -100], [2, 3]])
    losses = [
        ctc_loss(torch.zeros(5, 2, 4, device=device).log_softmax(2), targets.to(device), [5, 5], [1, 2])
        for device in ("cpu", "openreg")
    ]
    torch.testing.assert_close(losses[1].cpu(), losses[0])


def test_what_the_derivative_is_given_has_the_sizes_of_the_forward() -> None:
    """The CPU's writes outside of a smaller tensor, and the process crashes."""
    log_probs, targets = torch.zeros(5, 2, 4, device="openreg"), torch.tensor([[1, 2], [2, 3]], device="openreg")
    loss, alpha = torch.ops.aten._ctc_loss(log_probs, targets, [5, 5], [2, 2])
    for saved in (alpha[:1], alpha[:, :1], alpha[..., :1]):
        with pytest.raises(RuntimeError, match=r"_ctc_loss_backward: .* log_alpha of shape \[2, 5, 5\], but got"):
            torch.ops.aten._ctc_loss_backward(loss, log_probs, targets, [5, 5], [2, 2], loss, saved, 0)


def test_the_derivative_refuses_what_would_be_read_out_of_bounds() -> None:
    log_probs, targets = torch.zeros(5, 2, 4, device="openreg"), torch.tensor([[1, 2], [2, 3]], device="openreg")
    loss, alpha = torch.ops.aten._ctc_loss(log_probs, targets, [5, 5], [2, 2])
    for blank in (-1, 4, 1_000_000):
        with pytest.raises(RuntimeError, match=rf"^_ctc_loss_backward: expected a blank of 0 to 3, but got {blank}"):
            torch.ops.aten._ctc_loss_backward(loss, log_probs, targets, [5, 5], [2, 2], loss, alpha, blank)
    for steps, lengths in (([5, 6], [2, 2]), ([5, -1], [2, 2]), ([5], [2, 2]), ([5, 5], [2])):
        with pytest.raises(RuntimeError, match=r"expected lengths of 2 sequences, of 0 to 5 steps, but got"):
            torch.ops.aten._ctc_loss_backward(loss, log_probs, targets, steps, lengths, loss, alpha, 0)


@pytest.mark.parametrize("labels", [[1], [1, 2, 3, 1], [[1, 2]], [[1, 2], [2, 3]]])
def test_the_derivative_needs_all_labels_of_the_lengths(labels: list[int]) -> None:
    log_probs = torch.zeros(5, 2, 4, device="openreg")
    full = torch.tensor([1, 2, 3, 1, 2, 3], device="openreg")
    loss, alpha = torch.ops.aten._ctc_loss(log_probs, full, [5, 5], [3, 3])
    few = torch.tensor(labels, device="openreg")
    with pytest.raises(RuntimeError, match=r"targets of shape \[.*\] do not have the labels of lengths \[3, 3\]"):
        torch.ops.aten._ctc_loss_backward(loss, log_probs, few, [5, 5], [3, 3], loss, alpha, 0)
