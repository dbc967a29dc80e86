"""Saving, loading, pickling and deep copies of device tensors, and the metadata that goes with them."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.conftest import RunProcess
from tests.offers import LAST_DEVICE
from torch_openreg import openreg

pytestmark = pytest.mark.usefixtures("first_device")
COUNT = torch.accelerator.device_count()
DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.uint16,
    torch.uint64,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.float8_e8m0fnu,
]
# PyTorch's legacy format, which pickle uses for storages, has no name for these, not even on the CPU.
ARCHIVE_ONLY = [torch.uint16, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu]
FORBIDDEN = (
    r"^openreg: {} has no kernel for openreg, and its argument '{}' forbids to be copied to the CPU "
    r"\(torch.openreg.forbid_fallback\): register a kernel, or pass a copy of the tensor$"
)
MODES: list[dict[str, Any]] = [{}, {"weights_only": False}, {"mmap": True}, {"legacy": True}]


@pytest.fixture
def round_trip(tmp_path: Path) -> Callable[..., Any]:
    names = itertools.count()  # A file that mmap=True still maps must not be written again.

    def save_and_load(value: object, *, legacy: bool = False, **options: Any) -> Any:
        file = tmp_path / f"{next(names)}.pt"
        torch.save(value, file, _use_new_zipfile_serialization=not legacy)
        return torch.load(file, **options)

    return save_and_load


# Files.


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_survives(round_trip: Callable[..., Any], dtype: torch.dtype, mode: dict[str, Any]) -> None:
    host = torch.tensor([0.0, 1.0, 2.0, 1.0]).to(dtype)
    if mode.get("legacy") and dtype in ARCHIVE_ONLY:
        for tensor in (host, host.to(LAST_DEVICE)):
            with pytest.raises(AttributeError, match="UntypedStorage' has no attribute 'dtype'"):
                round_trip(tensor, **mode)
        return
    loaded = round_trip(host.to(LAST_DEVICE), **mode)
    assert (loaded.dtype, loaded.device) == (dtype, torch.device(LAST_DEVICE))
    assert loaded.untyped_storage().tolist() == host.untyped_storage().tolist()


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.t(),
        lambda x: x[1:, ::2],
        lambda x: x[0, 1],
        lambda x: x[:0],
        lambda x: x[:1].expand(3, 4),
        lambda x: x.view(2, 3, 2).permute(2, 0, 1),
    ],
)
def test_views_keep_their_geometry(
    round_trip: Callable[..., Any], make: Callable[[torch.Tensor], torch.Tensor], mode: dict[str, Any]
) -> None:
    host = torch.arange(12.0).view(3, 4)
    expected, loaded = make(host), round_trip(make(host.to("openreg")), **mode)
    assert torch.equal(loaded.cpu(), expected)
    assert (loaded.stride(), loaded.storage_offset()) == (expected.stride(), expected.storage_offset())


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_tensors_that_shared_memory_share_it_again(round_trip: Callable[..., Any], mode: dict[str, Any]) -> None:
    x = torch.zeros(2, 2, device="openreg")
    loaded = round_trip({"x": x, "row": x[1], "parameter": torch.nn.Parameter(x)}, map_location=LAST_DEVICE, **mode)
    loaded["row"].fill_(3)
    assert loaded["x"].tolist() == loaded["parameter"].tolist() == [[0.0, 0.0], [3.0, 3.0]]
    assert type(loaded["parameter"]) is torch.nn.Parameter


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize(
    ("place", "device"),
    [
        (None, LAST_DEVICE),
        ("cpu", "cpu"),
        ("openreg", "openreg:0"),
        ("openreg:0", "openreg:0"),
        (torch.device("openreg", 0), "openreg:0"),
        (torch.device("openreg"), "openreg:0"),
        ({LAST_DEVICE: "openreg:0"}, "openreg:0"),
        ({LAST_DEVICE: "cpu"}, "cpu"),
        ({"cuda:0": "cpu"}, LAST_DEVICE),
        (lambda storage, tag: storage, "cpu"),
        (lambda storage, tag: storage.openreg(0), "openreg:0"),
        (lambda storage, tag: None, LAST_DEVICE),
    ],
)
def test_map_location(round_trip: Callable[..., Any], place: Any, device: str, mode: dict[str, Any]) -> None:
    loaded = round_trip(torch.arange(3.0, device=LAST_DEVICE), map_location=place, **mode)
    assert (loaded.tolist(), loaded.device) == ([0.0, 1.0, 2.0], torch.device(device))


def test_from_the_cpu_to_the_current_device(round_trip: Callable[..., Any]) -> None:
    openreg.set_device(LAST_DEVICE)
    assert round_trip(torch.ones(2), map_location="openreg").device == torch.device(LAST_DEVICE)
    assert openreg.current_device() == COUNT - 1
    assert round_trip(torch.ones(2), map_location="openreg:0").device == torch.device("openreg:0")
    assert openreg.current_device() == COUNT - 1


@pytest.mark.parametrize(
    ("place", "error", "message"),
    [
        (
            f"openreg:{COUNT}",
            RuntimeError,
            rf"object on OPENREG device {COUNT} but torch.openreg.device_count\(\) is {COUNT}",
        ),
        ("unknown", RuntimeError, r"don't know how to restore data location of .* \(tagged with unknown\)"),
        (0, TypeError, "'int' object is not callable"),
    ],
)
def test_a_place_that_does_not_exist(
    round_trip: Callable[..., Any], place: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        round_trip(torch.ones(2, device="openreg"), map_location=place)


def test_mmap_needs_an_archive(round_trip: Callable[..., Any]) -> None:
    with pytest.raises(RuntimeError, match="mmap can only be used with files saved with"):
        round_trip(torch.ones(2, device="openreg"), legacy=True, mmap=True)


def test_models(round_trip: Callable[..., Any]) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to(LAST_DEVICE)
    other = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to("openreg:0")
    other.load_state_dict(round_trip(model.state_dict()))
    for name, tensor in other.state_dict().items():
        assert tensor.device == torch.device("openreg:0")
        assert torch.equal(tensor.cpu(), model.state_dict()[name].cpu())
    whole = round_trip(model, weights_only=False)
    assert whole[0].weight.device == torch.device(LAST_DEVICE)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        round_trip(model)


def test_an_optimizer_goes_on_where_it_was(round_trip: Callable[..., Any]) -> None:
    parameter = torch.nn.Parameter(torch.ones(2, device="openreg"))
    optimizer = torch.optim.SGD([parameter], lr=0.5, momentum=0.5)
    parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    second = torch.nn.Parameter(parameter.detach().clone())
    restored = torch.optim.SGD([second], lr=0.1, momentum=0.1)
    restored.load_state_dict(round_trip(optimizer.state_dict()))
    for one, tensor in ((optimizer, parameter), (restored, second)):
        tensor.grad = torch.ones_like(tensor)
        one.step()
    assert second.tolist() == parameter.tolist()


def test_requires_grad_and_gradients(round_trip: Callable[..., Any]) -> None:
    x = torch.ones(2, device="openreg", requires_grad=True)
    x.sum().backward()
    loaded = round_trip(x)
    assert (loaded.requires_grad, loaded.grad, loaded.is_leaf) == (True, None, True)
    assert round_trip(x * 2).is_leaf
    x.register_hook(lambda grad: grad)
    with pytest.warns(UserWarning, match="will not be serialized"):
        assert len(round_trip(x)._backward_hooks) == 0


class Noted(torch.Tensor):
    note: str


def test_a_subclass_keeps_its_attributes(round_trip: Callable[..., Any]) -> None:
    x = torch.ones(2, device=LAST_DEVICE).as_subclass(Noted)
    x.note = "hello"
    loaded = round_trip(x, weights_only=False)
    assert (type(loaded), loaded.note, loaded.device) == (Noted, "hello", torch.device(LAST_DEVICE))


@pytest.mark.parametrize("make", [lambda x: x.conj(), lambda x: x.conj().imag])
def test_lazy_bits(round_trip: Callable[..., Any], make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    host = make(torch.tensor([1 + 2j, 3 - 1j]))
    x = make(torch.tensor([1 + 2j, 3 - 1j], device="openreg"))
    loaded, copied = round_trip(x), copy.deepcopy(x)
    assert loaded.tolist() == copied.tolist() == host.tolist()
    assert (loaded.is_conj(), loaded.is_neg()) == (host.is_conj(), host.is_neg())
    assert (copied.is_conj(), copied.is_neg()) == (False, False)


def test_skipped_data_and_fake_tensors(tmp_path: Path) -> None:
    x = torch.arange(3.0, device=LAST_DEVICE)
    torch.save(x, tmp_path / "x.pt")
    with torch._subclasses.fake_tensor.FakeTensorMode():
        fake = torch.load(tmp_path / "x.pt")
    assert (fake.device, fake.shape) == (x.device, x.shape)
    with torch.serialization.skip_data():
        torch.save(x, tmp_path / "empty.pt")
    assert torch.load(tmp_path / "empty.pt").shape == x.shape


# Pickle and deep copies.


def pickled(x: torch.Tensor) -> Any:
    return pickle.loads(pickle.dumps(x))


@pytest.mark.parametrize(
    ("make", "dtype"),
    [
        *((copy.deepcopy, dtype) for dtype in DTYPES),
        *((pickled, dtype) for dtype in DTYPES if dtype not in ARCHIVE_ONLY),
    ],
)
def test_copies_in_memory(make: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype) -> None:
    host = torch.tensor([[0.0, 1.0], [2.0, 1.0]]).to(dtype)
    x = host.to(LAST_DEVICE).t()
    made = make(x)
    assert (made.device, made.stride(), made.dtype) == (x.device, (1, 2), dtype)
    assert made.untyped_storage().tolist() == host.untyped_storage().tolist()
    assert made.data_ptr() != x.data_ptr()


def test_a_deep_copy_keeps_aliases_and_gradients() -> None:
    x = torch.ones(2, 2, device=LAST_DEVICE, requires_grad=True)
    x.sum().backward()
    copied, row = copy.deepcopy([x, x.detach()[0]])
    row.fill_(5)
    assert copied.tolist() == [[5.0, 5.0], [1.0, 1.0]]
    assert x.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert (copied.requires_grad, copied.grad.tolist()) == (True, [[1.0, 1.0], [1.0, 1.0]])
    with pytest.raises(RuntimeError, match="Only Tensors created explicitly by the user"):
        copy.deepcopy(x * 2)


def test_what_a_tensor_tells_the_pickler() -> None:
    x = torch.ones(2, 3, device=LAST_DEVICE).t()
    rebuild, (storage, *rest) = x.__reduce_ex__(2)
    assert rebuild is torch._utils._rebuild_tensor_v2
    assert storage._untyped_storage.data_ptr() == x.data_ptr()
    assert rest == [0, (3, 2), (1, 3), False, {}]
    assert torch.nn.Parameter(x).__reduce_ex__(2)[0] is torch._utils._rebuild_parameter


def test_loading_is_the_first_use_of_the_device(run_process: RunProcess, tmp_path: Path) -> None:
    torch.save(torch.ones(2, device=LAST_DEVICE), tmp_path / "x.pt")
    done = run_process(f"import torch; print(torch.load({str(tmp_path / 'x.pt')!r}))")
    assert (done.stdout, done.stderr) == (f"tensor([1., 1.], device='{LAST_DEVICE}')\n", "")


# Metadata: the mark that forbids the fallback.


@pytest.fixture
def marked() -> torch.Tensor:
    x = torch.ones(2, 3, device=LAST_DEVICE)
    openreg.forbid_fallback(x)
    return x


@pytest.fixture(scope="module")
def library() -> Iterator[str]:
    own = torch.library.Library("test_serialization", "DEF")
    own.define("read(Tensor x, Tensor[] more, Tensor?[] rest) -> Tensor")
    own.define("write(Tensor(a!) x) -> ()")
    own.impl("read", lambda x, more, rest: x.clone(), "CPU")
    own.impl("write", lambda x: x.zero_() and None, "CPU")
    yield "test_serialization"
    own._destroy()


def test_the_fallback_refuses_a_marked_tensor_wherever_it_stands(marked: torch.Tensor, library: str) -> None:
    other = torch.ones(2, 3, device=LAST_DEVICE)
    operators = getattr(torch.ops, library)
    for arguments, name in (
        ((marked, [], []), "x"),
        ((other, [other, marked.t()], []), "more"),
        ((other, [], [None, marked[0]]), "rest"),
    ):
        with pytest.raises(NotImplementedError, match=FORBIDDEN.format("test_serialization::read", name)):
            operators.read(*arguments)
    with pytest.raises(NotImplementedError, match=FORBIDDEN.format("test_serialization::write", "x")):
        operators.write(marked)
    assert marked.tolist() == [[1.0] * 3] * 2
    openreg.forbid_fallback(marked, False)
    assert operators.read(marked, [], []).tolist() == marked.tolist()


@pytest.mark.needs("host kernels")
def test_a_marked_tensor_may_be_copied_and_used_by_kernels(marked: torch.Tensor) -> None:
    assert marked.abs().tolist() == marked.cpu().tolist() == marked.tolist() == [[1.0] * 3] * 2
    assert marked.clone().add_(1).to("openreg:0").tolist() == [[2.0] * 3] * 2
    assert marked[0, 0].item() == 1.0


def test_a_linear_layer_with_a_marked_weight() -> None:
    layer = torch.nn.Linear(3, 2, device="openreg")
    openreg.forbid_fallback(layer.weight)
    assert openreg.is_fallback_forbidden(layer.weight.t())
    assert not openreg.is_fallback_forbidden(layer.bias)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.detach(),
        lambda x: x.data,
        torch.nn.Parameter,
        lambda x: x.view(-1),
        lambda x: x.t()[0],
        lambda x: x.detach().unsqueeze(0),
        lambda x: x.expand(4, 2, 3),
        lambda x: x.contiguous(),
        lambda x: x.to(LAST_DEVICE),
        copy.copy,
        pickled,
        lambda x: x.requires_grad_(),
    ],
)
def test_what_keeps_the_mark(marked: torch.Tensor, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert openreg.is_fallback_forbidden(make(marked))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.clone(),
        copy.deepcopy,
        lambda x: x.cpu(),
        pytest.param(lambda x: x.to("openreg:0"), marks=pytest.mark.needs("two devices")),
        lambda x: x.double(),
        torch.empty_like,
        lambda x: torch.empty(0, device=LAST_DEVICE).set_(x),
        lambda x: x.view(torch.int32),
        lambda x: x.cpu().to(LAST_DEVICE),
    ],
)
def test_what_loses_the_mark(marked: torch.Tensor, make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    assert not openreg.is_fallback_forbidden(make(marked))
    assert openreg.is_fallback_forbidden(marked)


def test_marks_are_independent(marked: torch.Tensor) -> None:
    detached = marked.detach()
    openreg.forbid_fallback(detached, False)
    assert (openreg.is_fallback_forbidden(marked), openreg.is_fallback_forbidden(detached)) == (True, False)
    openreg.forbid_fallback(detached)
    openreg.forbid_fallback(marked, False)
    assert (openreg.is_fallback_forbidden(marked), openreg.is_fallback_forbidden(detached)) == (False, True)


def test_a_view_can_be_marked_by_itself() -> None:
    x = torch.ones(2, 3, device="openreg")
    row = x[0]
    openreg.forbid_fallback(row)
    assert (openreg.is_fallback_forbidden(row), openreg.is_fallback_forbidden(x)) == (True, False)


def test_views_in_inference_mode(marked: torch.Tensor) -> None:
    with torch.inference_mode():
        inside = torch.ones(2, 3, device="openreg")
        openreg.forbid_fallback(inside)
        assert openreg.is_fallback_forbidden(inside)
        assert not openreg.is_fallback_forbidden(inside.t())
        assert openreg.is_fallback_forbidden(marked.t())


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_a_file_keeps_the_mark(round_trip: Callable[..., Any], marked: torch.Tensor, mode: dict[str, Any]) -> None:
    plain = torch.ones(2, device=LAST_DEVICE)
    loaded = round_trip({"marked": marked, "row": marked[0], "plain": plain}, **mode)
    assert {name: openreg.is_fallback_forbidden(tensor) for name, tensor in loaded.items()} == {
        "marked": True,
        "row": True,
        "plain": False,
    }
    assert openreg.is_fallback_forbidden(round_trip(marked, map_location="openreg:0", **mode))
    on_cpu = round_trip(marked, map_location="cpu", **mode)
    assert torch._utils.get_tensor_metadata(on_cpu) == {}
    assert not openreg.is_fallback_forbidden(round_trip(on_cpu, map_location="openreg", **mode))


def test_a_model_keeps_the_mark_where_parameters_are_replaced(round_trip: Callable[..., Any]) -> None:
    def is_marked_after(assign: bool) -> bool:
        target = torch.nn.Linear(3, 2, device="openreg")
        target.load_state_dict(state, assign=assign)
        return openreg.is_fallback_forbidden(target.weight)

    layer = torch.nn.Linear(3, 2, device="openreg")
    openreg.forbid_fallback(layer.weight)
    state = round_trip(layer.state_dict())
    assert (is_marked_after(assign=False), is_marked_after(assign=True)) == (False, True)


def test_a_marked_file_without_the_backend(run_process: RunProcess, tmp_path: Path, marked: torch.Tensor) -> None:
    torch.save(marked, tmp_path / "x.pt")
    code = f"import torch; x = torch.load({str(tmp_path / 'x.pt')!r}, map_location='cpu'); print(x.tolist(), x.device)"
    done = run_process(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout == "[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]] cpu\n", done.stderr


def test_the_map_holds_what_differs_from_the_default(marked: torch.Tensor) -> None:
    assert marked.__reduce_ex__(2)[1][-1] == {"openreg.forbids_fallback": True}
    openreg.forbid_fallback(marked, False)
    assert torch._utils.get_tensor_metadata(marked) == {}
    assert torch._utils.get_tensor_metadata(torch.ones(2)) == {}


def test_the_map_is_shared_with_pytorch() -> None:
    x = torch.ones(1, dtype=torch.complex64, device="openreg")
    torch._utils.set_tensor_metadata(x, {"conj": True, "openreg.forbids_fallback": True})
    assert (x.is_conj(), openreg.is_fallback_forbidden(x)) == (True, True)
    torch._utils.set_tensor_metadata(x, {"openreg.forbids_fallback": False})
    assert not openreg.is_fallback_forbidden(x)


def test_an_unknown_key_is_refused_on_the_device_alone() -> None:
    message = r"^openreg: the file says 'openreg.other' of a tensor, which this version of torch_openreg does not know"
    with pytest.raises(RuntimeError, match=message):
        torch._utils.set_tensor_metadata(torch.ones(1, device="openreg"), {"openreg.other": True})
    torch._utils.set_tensor_metadata(torch.ones(1), {"openreg.other": True})


def test_only_device_tensors_can_be_marked() -> None:
    with pytest.raises(RuntimeError, match=r"^openreg: only a tensor on a device of openreg .* this one is on cpu$"):
        openreg.forbid_fallback(torch.ones(2))
    assert not openreg.is_fallback_forbidden(torch.ones(2))


def test_files_of_the_operating_system_and_of_memory() -> None:
    file = io.BytesIO()
    torch.save(torch.arange(3, device="openreg"), file)
    file.seek(0)
    assert torch.load(file).tolist() == [0, 1, 2]


@pytest.mark.needs("queue")
@pytest.mark.parametrize(
    "work",
    [
        pytest.param(lambda x, file: torch.save(x, file), id="save"),
        pytest.param(lambda x, file: torch.load(file), id="load"),
        pytest.param(lambda x, file: pickle.dumps(x), id="dumps"),
        pytest.param(lambda x, file: x.untyped_storage()[0], id="a byte of a storage"),
        pytest.param(lambda x, file: x.untyped_storage().cpu(), id="a storage to the host"),
        pytest.param(lambda x, file: torch.ones(4000).untyped_storage().copy_(x.untyped_storage()), id="copy_ to host"),
        pytest.param(
            lambda x, file: x.untyped_storage().copy_(torch.ones(4000).untyped_storage()), id="copy_ to device"
        ),
    ],
)
def test_other_threads_of_python_run_while_a_copy_waits(
    work: Callable[[torch.Tensor, Path], object], tmp_path: Path
) -> None:
    x, file = torch.ones(4000, device="openreg"), tmp_path / "x.pt"
    torch.save(x, file)
    work(x, file)  # what takes long in the first call only
    torch.accelerator.synchronize()
    torch.openreg._sleep(200_000_000)
    thread = threading.Thread(target=work, args=(x, file))
    thread.start()
    turns = 0
    while thread.is_alive():
        time.sleep(0.002)
        turns += 1
    assert turns > 5
