"""Tensors: copies, views, in place, out=, files."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Iterator

import pytest
import torch

DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.uint8,
    torch.bool,
    torch.complex64,
)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("length", [0, 1, 1000, 100_000])
def test_there_and_back(dtype: torch.dtype, length: int) -> None:
    """Small ones travel with the message, large ones in shared memory."""
    host = torch.randint(0, 2, (length, 2)).to(dtype)
    assert torch.equal(host.to("remote").cpu(), host)
    assert torch.equal(host.t().to("remote").cpu(), host.t())


def test_copies_convert_and_broadcast() -> None:
    """A copy casts, broadcasts and keeps strides, at either end."""
    device = torch.zeros(2, 3, device="remote").t()
    device.copy_(torch.arange(3).reshape(3, 1))
    assert device.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert device.stride() == (1, 3)
    assert device.to("cpu", torch.int32).tolist() == device.to(torch.int32).tolist()
    values = torch.tensor([1 + 2j, 3 - 4j])
    there = values.to("remote")
    assert torch.equal(there.conj().cpu(), values.conj())
    assert torch.equal((there.conj() * there).cpu(), values.conj() * values)
    assert torch.equal(there.conj().imag.cpu(), values.conj().imag)


def test_it_prints() -> None:
    """Tensors print as on any device."""
    assert repr(torch.arange(3.0, device="remote")) == "tensor([0., 1., 2.], device='remote:0')"
    assert repr(torch.empty(0, device="remote")) == "tensor([], device='remote:0')"


def test_views_share_storage() -> None:
    """A write through one view is visible through all others."""
    base = torch.zeros(3, 4, device="remote")
    for view, value in (
        (base[1], 1.0),
        (base.t()[2], 2.0),
        (base.view(12)[::5], 3.0),
        (base.unfold(0, 2, 2)[0, 3], 4.0),
    ):
        assert view.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()
        view.fill_(value)
    expected = torch.zeros(3, 4)
    expected[1], expected.t()[2], expected.view(12)[::5], expected.unfold(0, 2, 2)[0, 3] = 1.0, 2.0, 3.0, 4.0
    assert torch.equal(base.cpu(), expected)
    assert base.view(torch.int32).untyped_storage().data_ptr() == base.data_ptr()
    assert torch.view_as_real(torch.zeros(2, dtype=torch.complex64, device="remote")).add_(1).tolist() == [
        [1, 1],
        [1, 1],
    ]


def test_in_place_on_itself() -> None:
    """A tensor that is passed as two arguments stays one tensor."""
    x = torch.arange(3.0, device="remote")
    assert x.add_(x).mul_(x).tolist() == [0, 4, 16]
    x[x > 3] = -1
    x[torch.tensor([0])] = 7  # indices of the host
    assert x.tolist() == [7, -1, -1]


def test_out_is_resized_and_kept() -> None:
    """A result goes where out= says, which is resized if necessary, also for dynamic sizes."""
    x, out = torch.arange(6.0, device="remote"), torch.empty(6, device="remote")
    address = out.data_ptr()
    assert torch.mul(x, 2, out=out) is out
    assert (out.data_ptr(), out.tolist()) == (address, [0, 2, 4, 6, 8, 10])
    out = torch.empty(0, device="remote")
    assert torch.add(x, 1, out=out).tolist() == [1, 2, 3, 4, 5, 6]
    found = torch.empty(0, dtype=torch.int64, device="remote")
    assert torch.nonzero(x > 3, out=found).tolist() == [[4], [5]]
    assert found.shape == (2, 1)
    values, indices = torch.empty(0, device="remote"), torch.empty(0, dtype=torch.int64, device="remote")
    torch.sort(x, descending=True, out=(values, indices))
    assert (values.tolist(), indices.tolist()) == ([5, 4, 3, 2, 1, 0], [5, 4, 3, 2, 1, 0])
    # PyTorch's meta function returns a tensor other than out= here.
    half = torch.tensor([0.5, 2.0], dtype=torch.float16)
    into = torch.empty(2, dtype=torch.float16, device="remote")
    remote = half.to("remote")
    backward = torch.ops.aten.smooth_l1_loss_backward
    assert backward(remote, remote, 0 * remote, 1, 1.0, grad_input=into) is into
    assert torch.equal(into.cpu(), backward(half, half, 0 * half, 1, 1.0))


@pytest.fixture
def default_dtype() -> Iterator[None]:
    """Restores the default dtype."""
    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("default_dtype")
def test_the_default_dtype_is_the_hosts() -> None:
    """Results of integers have it, and its precision, also in calls that were made before with another."""
    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        x = torch.arange(1, 9, device="remote")
        for result, expected in ((x / 3, x.cpu() / 3), (x.log(), x.cpu().log()), (x * 0.1, x.cpu() * 0.1)):
            assert torch.equal(result.cpu(), expected)
            assert result.dtype == expected.dtype == dtype


NUMBERS = {
    "fmod": lambda x: torch.fmod(x, 0.1),
    "xlogy": lambda x: torch.xlogy(0.1, x),
    "xlogy of it": lambda x: torch.xlogy(x, 0.1),
    "copysign": lambda x: torch.copysign(x, -0.1),
    "where": lambda x: torch.where(x > 0, x, 0.1),
    "an integer": lambda x: torch.fmod(x, 3),
    "no other tensor": lambda x: torch.where(x > 0, 0.1, 3),
}


@pytest.mark.parametrize("shape", [(), (3,)], ids=["no dimension", "a dimension"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_are_exact(what: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """A number beside tensors has the precision of the result, and does not change its dtype."""
    x = torch.full(shape, 7).to(dtype)
    result, expected = NUMBERS[what](x.to("remote")), NUMBERS[what](x)
    assert torch.equal(result.cpu(), expected)
    assert result.dtype == expected.dtype


def test_resize_keeps_what_was_there() -> None:
    """The values stay, also when the storage has to grow."""
    x = torch.arange(4.0, device="remote")
    x.resize_(2, 4)[1].fill_(9)
    assert x.tolist() == [[0, 1, 2, 3], [9, 9, 9, 9]]
    assert x.resize_(3).tolist() == [0, 1, 2]


@pytest.mark.compiled
def test_views_see_a_storage_that_grows() -> None:
    """The storage moves under all of its views."""
    x = torch.arange(2.0, device="remote")
    view = x[:1]
    x.resize_(4).fill_(5)
    assert view.tolist() == [5]
    storage = x.untyped_storage()
    storage.resize_(4)
    assert (storage.nbytes(), view.tolist()) == (4, [5])


@pytest.mark.compiled
def test_files_and_copies() -> None:
    """torch.save, torch.load, pickle and deepcopy keep device, values and sharing."""
    x = torch.arange(6.0, device="remote:1").reshape(2, 3)
    file = io.BytesIO()
    torch.save({"x": x, "row": x[1], "model": torch.nn.Linear(2, 2).to("remote").state_dict()}, file)
    for place, device in ((None, "remote:1"), ("cpu", "cpu"), ("remote:0", "remote:0")):
        file.seek(0)
        loaded = torch.load(file, map_location=place)
        assert str(loaded["x"].device) == device
        loaded["row"].fill_(7)
        assert loaded["x"].tolist() == [[0, 1, 2], [7, 7, 7]]
    assert torch.equal(copy.deepcopy(x).cpu(), x.cpu())
    assert torch.equal(pickle.loads(pickle.dumps(x)).cpu(), x.cpu())
    assert torch.UntypedStorage(8, device="remote").nbytes() == 8


@pytest.mark.compiled
def test_pinned_memory() -> None:
    """Pinned tensors report it; a data loader creates them."""
    pinned = torch.arange(3.0).pin_memory()
    assert pinned.is_pinned()
    assert pinned[1:].is_pinned()
    assert not torch.arange(3.0).is_pinned()
    assert pinned.to("remote", non_blocking=True).tolist() == [0, 1, 2]
    (batch,) = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(2)), 2, pin_memory=True)
    assert batch[0].is_pinned()


@pytest.mark.compiled
def test_two_devices() -> None:
    """Tensors of two devices can be copied to each other, but not mixed in an operator."""
    first, second = torch.ones(2, device="remote:0"), torch.full((2,), 2.0, device="remote:1")
    assert (first + second.to(first.device)).tolist() == [3, 3]
    with pytest.raises(
        RuntimeError, match=r"same device, but aten.add.Tensor was given tensors on remote:0 and remote:1"
    ):
        first + second
    with torch.remote.device(1):
        assert torch.zeros(1, device="remote").device.index == torch.remote.current_device() == 1
    assert torch.remote.current_device() == 0
    with pytest.raises(ValueError, match="remote:7 does not exist, there are 2 devices"):
        torch.remote.set_device(7)


def test_the_host_is_another_device() -> None:
    """CPU tensors are not accepted with device tensors, except single values."""
    x = torch.ones(2, device="remote")
    with pytest.raises(RuntimeError, match="was given tensors on cpu and remote:0: move them"):
        x + torch.ones(2)
    assert (x + torch.tensor(2.0)).tolist() == [3, 3]
    for device, pinned, said in (
        ("remote", True, "only CPU tensors can be pinned"),
        ("remote:9", None, "9 does not exist"),
    ):
        with pytest.raises((ValueError, RuntimeError), match=said):
            torch.empty(2, device=device, pin_memory=pinned)


def test_memory_is_given_back() -> None:
    """Memory that no tensor uses any more is freed, and an allocation that does not fit raises."""
    before = torch.remote.memory_allocated()
    x = torch.ones(1000, device="remote")
    assert torch.remote.memory_allocated() - before == 4000
    del x
    torch.zeros(1, device="remote")
    assert torch.remote.memory_allocated() - before <= 512
    with pytest.raises(torch.OutOfMemoryError, match="remote:0 has no room for 4503599627370496 bytes"):
        torch.empty(1 << 50, device="remote")


def test_layouts_that_are_not_there() -> None:
    """Unsupported layouts raise an error that says so."""
    with pytest.raises(NotImplementedError, match=r"has the layout torch.sparse_coo; tensors here are strided"):
        torch.ones(2, device="remote").to_sparse()


def test_pinned_memory_is_not_kept() -> None:
    """There is no cache, so emptying it is not an error, whether memory can be pinned or not."""
    assert torch.ones(1, device="remote").item() == 1  # PyTorch does nothing before the device is used
    torch.accelerator.empty_host_cache()


def test_large_masks_of_the_host_are_not_taken_for_each_other() -> None:
    """Their bytes are not in the call, and the size of the result depends on them."""
    x = torch.arange(20_000.0, device="remote")
    for count in (3, 5, 0):
        mask = torch.arange(20_000) < count
        assert x[mask].tolist() == list(range(count))
