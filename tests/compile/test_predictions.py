"""What PyTorch predicts of each result, against the result: size, strides, dtype and device.

`torch.compile` and `torch.export` plan with predictions ("fake tensors"), and generate code that reads a result as it
was predicted. Where the CPU and CUDA differ, PyTorch predicts of every device but the CPU what CUDA does. A mode of
PyTorch compares each operator that an entry of its database calls, forward and backward.

One entry in twenty is chosen by OPENREG_OPINFO, a number; `all` chooses all of them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import pytest
import torch
from torch._subclasses.fake_utils import CrossRefFakeMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput
from torch.utils import _pytree as pytree

from tests.offers import LAST_DEVICE
from tests.opinfo import exceptions
from tests.opinfo.compare import ON_CPU, Comparison

SAMPLES = 60
SHARE = 20
EXCEPTIONS = exceptions.read()
OTHERWISE = {
    "native_batch_norm": "in evaluation, there are no statistics, as on the CPU; CUDA has them, and nothing reads them",
    "_native_batch_norm_legit": "the same",
    "max_unpool2d": "PyTorch predicts no channels last, of the CPU either, whose result has it",
    "_ctc_loss_backward": "PyTorch has no prediction, and calls the kernel with lengths of 0",
    "_scaled_dot_product_fused_attention_overrideable_backward": "a mask that requires no gradient gets none",
}
# The fallback returns what the CPU does, which is predicted for the CPU alone.
pytestmark = [pytest.mark.needs("host kernels"), pytest.mark.filterwarnings("ignore")]


class Predictions(CrossRefFakeMode):
    """Compares the operators that tensors of the device take part in. Which results share memory is not compared."""

    def __init__(self) -> None:
        super().__init__(lambda operator: operator._opname in OTHERWISE, check_aliasing=False)
        self.seen = 0

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Every operator below autograd comes here."""
        leaves = pytree.tree_leaves((args, kwargs))
        if any(isinstance(leaf, torch.Tensor) and leaf.device.type == "openreg" for leaf in leaves):
            self.seen += 1
            return super().__torch_dispatch__(func, types, args, kwargs)
        return func(*args, **(kwargs or {}))


class Predicted(Comparison):
    """Compares what runs on the device with predictions. Some entries have hundreds of samples, so not all run."""

    def __init__(self, op: OpInfo) -> None:
        super().__init__(op, LAST_DEVICE, torch.float32)
        self.predictions = Predictions()

    def _samples(self, *, requires_grad: bool = False) -> Iterable[SampleInput]:
        return islice(super()._samples(requires_grad=requires_grad), SAMPLES)

    def _call(self, sample: SampleInput) -> Any:
        with self._mode(sample):
            return super()._call(sample)

    def _gradients(self, sample: SampleInput, outputs: list[torch.Tensor], weights: list[torch.Tensor]) -> Any:
        with self._mode(sample):
            return super()._gradients(sample, outputs, weights)

    def _mode(self, sample: SampleInput) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext() if sample.name == ON_CPU else self.predictions


def _chosen() -> list[OpInfo]:
    entries = [
        op
        for op in op_db
        if torch.float32 in op.dtypes and exceptions.excused(EXCEPTIONS, op.full_name, "forward", "float32") is None
    ]
    wanted = os.environ.get("OPENREG_OPINFO", "0")
    return entries if wanted == "all" else entries[int(wanted) % SHARE :: SHARE]


@pytest.mark.parametrize("op", _chosen(), ids=lambda op: op.full_name)
def test_an_entry(op: OpInfo) -> None:
    comparison = Predicted(op)
    comparison.forward()
    if op.supports_autograd and exceptions.excused(EXCEPTIONS, op.full_name, "backward", "float32") is None:
        comparison.backward()
    if not comparison.compared:
        pytest.skip("there is no sample that the CPU supports")
    if not comparison.predictions.seen:
        pytest.skip("its samples call no operator with a tensor of the device")


def test_a_wrong_prediction_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode still compares: of an operator whose real result is another one than its prediction."""
    x = torch.ones(2, 3, device=LAST_DEVICE)
    normalize = torch.ops.aten.native_batch_norm.default
    arguments = (x, None, None, torch.zeros(3, device=LAST_DEVICE), torch.ones(3, device=LAST_DEVICE), False, 0.1, 1e-5)
    with Predictions():
        normalize(*arguments)
    monkeypatch.delitem(OTHERWISE, "native_batch_norm")
    message = r"aten\.native_batch_norm\.default.*output\[1\]: Shapes torch\.Size\(\[0\]\) and torch\.Size\(\[3\]\)"
    with pytest.raises(RuntimeError, match=message), Predictions():
        normalize(*arguments)
