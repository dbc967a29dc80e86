"""Nested, sparse and quantized tensors: what works gives the CPU's values, and the rest is refused by name."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.testing import assert_close

from tests.offers import LAST_DEVICE

pytestmark = [
    pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors"),
    pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta"),
    pytest.mark.filterwarnings("ignore:.*quantize"),
]

SPARSE = re.escape("is not supported for sparse COO tensors on openreg")
COMPRESSED = re.escape("is not supported for sparse compressed (CSR, CSC, BSR, BSC) tensors on openreg")
QUANTIZED = re.escape("is not supported for quantized tensors on openreg")
NESTED = re.escape(f"is not supported for nested strided tensors on {LAST_DEVICE}")


def on(device: str, *values: float) -> torch.Tensor:
    return torch.tensor(values, device=device)


def nested(device: str, requires_grad: bool = False) -> torch.Tensor:
    """Three rows of sizes (2, 4), (1, 4), (3, 4)."""
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(length, 4, generator=generator) for length in (2, 1, 3)]
    return torch.nested.nested_tensor(rows, device=device, requires_grad=requires_grad)


REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "a COO tensor, made here": (
        lambda: torch.sparse_coo_tensor(on(LAST_DEVICE, 0, 1).view(2, 1), on(LAST_DEVICE, 2.0), check_invariants=False),
        SPARSE.replace("openreg", LAST_DEVICE) + "; keep them on the CPU",
        "aten::_sparse_coo_tensor_with_dims_and_tensors",
    ),
    "a COO tensor, moved": (
        lambda: torch.eye(2).to_sparse().to("openreg"),
        SPARSE + ":0; .*make them dense before they are moved",
        "aten::_sparse_coo_tensor_with_dims_and_tensors",
    ),
    "a COO tensor, without elements": (
        lambda: torch.zeros(2, layout=torch.sparse_coo, device="openreg"),
        SPARSE + ";",
        "aten::empty.memory_format",
    ),
    "to_sparse": (lambda: torch.eye(2, device="openreg").to_sparse(), SPARSE + ":0", "aten::"),
    "a COO tensor of the CPU times one of the device": (
        lambda: torch.eye(2).to_sparse() @ torch.ones(2, 1, device="openreg"),
        SPARSE + ":0",
        "aten::mm",
    ),
    "a product with a CSR tensor": (
        lambda: torch.eye(2).to_sparse_csr().to("openreg") @ torch.ones(2, device="openreg"),
        COMPRESSED + ":0; .*compute on the CPU",
        "aten::addmv_",
    ),
    "a CSR tensor times a number": (
        lambda: torch.eye(2).to_sparse_csr().to(LAST_DEVICE) * 2,
        COMPRESSED + ".*compute on the CPU",
        "aten::mul.Tensor",
    ),
    "a row of a CSR tensor": (
        lambda: torch.eye(2).to_sparse_csr().to(LAST_DEVICE)[1],
        COMPRESSED,
        "aten::select.int",
    ),
    "a CSR tensor, joined": (
        lambda: torch.cat([torch.eye(2).to_sparse_csr().to(LAST_DEVICE)] * 2),
        COMPRESSED,
        "aten::cat",
    ),
    "a CSR tensor, made dense": (
        lambda: torch.eye(2).to_sparse_csr().to("openreg").to_dense(),
        COMPRESSED + ":0",
        "aten::_to_dense",
    ),
    "an empty CSR tensor": (
        lambda: torch.empty(2, 2, layout=torch.sparse_csr, device=LAST_DEVICE),
        COMPRESSED,
        "aten::empty.memory_format",
    ),
    "quantize": (
        lambda: torch.quantize_per_tensor(on("openreg", 1.0), 0.1, 0, torch.qint8),
        QUANTIZED + ":0; keep them on the CPU, or move x.dequantize()",
        "aten::empty_quantized",
    ),
    "a quantized tensor, moved": (
        lambda: torch.quantize_per_tensor(on("cpu", 1.0), 0.1, 0, torch.qint8).to("openreg"),
        QUANTIZED,
        "aten::empty_quantized",
    ),
    "an empty quantized tensor": (
        lambda: torch.empty(2, dtype=torch.qint8, device="openreg"),
        QUANTIZED,
        "aten::empty.memory_format",
    ),
    "a sum of a nested tensor": (
        lambda: nested(LAST_DEVICE).sum(-1, keepdim=True),
        NESTED + "; use layout=torch.jagged",
        "aten::sum.dim_IntList",
    ),
    "a list of nested tensors": (lambda: torch.cat([nested(LAST_DEVICE)] * 2), NESTED, "aten::cat"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused_by_name(name: str) -> None:
    function, message, operator = REFUSED[name]
    with pytest.raises(NotImplementedError, match=f"^openreg: {re.escape(operator)}.*{message}"):
        function()
    assert (on("openreg", 1) + 1).tolist() == [2]


def test_a_sparse_gradient_is_refused_and_a_dense_one_is_there() -> None:
    sparse = torch.nn.Embedding(3, 2, sparse=True).to("openreg")
    indices = torch.tensor([1, 2], device="openreg")
    with pytest.raises(NotImplementedError, match=r"Gradients of nn\.Embedding .* are dense with sparse=False"):
        sparse(indices).sum().backward()
    dense = torch.nn.Embedding(3, 2).to("openreg")
    dense(indices).sum().backward()
    assert dense.weight.grad is not None
    assert dense.weight.grad.tolist() == [[0, 0], [1, 1], [1, 1]]


def test_no_composite_kernel_runs_on_a_compressed_tensor() -> None:
    """PyTorch's kernels for every key read what these tensors lack; one of them ended the process."""
    sparse = torch.eye(2).to_sparse_csr().to(LAST_DEVICE)
    there = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeExplicitAutogradNonFunctional")
    names = [name for name in there if name.startswith("aten::")]
    assert len(names) > 400
    for name in names:
        assert torch._C._dispatch_has_kernel_for_dispatch_key(name, "SparseCsrPrivateUse1"), name
    with pytest.raises(NotImplementedError, match=rf"^openreg: aten::atan2 .*{COMPRESSED}"):
        torch.atan2(sparse, sparse)


@pytest.mark.parametrize("layout", ["csr", "csc", "bsr", "bsc"])
def test_a_compressed_tensor_is_printed_copied_and_brought_back(layout: str) -> None:
    there = torch.arange(16.0).view(4, 4).tril()
    sizes = [(2, 2)] if layout.startswith("b") else []
    sparse = getattr(there, f"to_sparse_{layout}")(*sizes)
    for here in (sparse.to(LAST_DEVICE), sparse.to(LAST_DEVICE).clone(), sparse.to("openreg").to(LAST_DEVICE)):
        assert here.layout == sparse.layout
        assert here.device == here.values().device == torch.device(LAST_DEVICE)
        assert str(here).replace(f" device='{LAST_DEVICE}',", "").split() == str(sparse).split()
        assert_close(here.values().cpu(), sparse.values())
        assert_close(here.cpu().to_dense(), there)
    assert (here.sparse_dim(), here.dense_dim()) == (sparse.sparse_dim(), sparse.dense_dim())


Function = Callable[[torch.Tensor], torch.Tensor]
NESTED_OPERATORS: dict[str, Function] = {
    "alias": torch.ops.aten.alias,
    "detach": torch.detach,
    "add": lambda x: x + x * 2,
    "bmm": lambda x: torch.bmm(x, x.transpose(1, 2).contiguous()),
    "clone": torch.clone,
    "clone, transposed": lambda x: x.transpose(1, 2).contiguous(),
    "copy_": lambda x: torch.empty_like(x).copy_(x),
    "matmul": lambda x: x @ x.transpose(1, 2),
    "mul": lambda x: x * 3,
    "safe_softmax": lambda x: torch.ops.aten._safe_softmax(x, -1),
    "safe_softmax, infinite": lambda x: torch.ops.aten._safe_softmax(x * float("-inf"), -1),
    "softmax": lambda x: x.softmax(-1),
    "to float64": lambda x: x.to(torch.float64),
}


def rows_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    return [row.detach().cpu() for row in tensor.unbind()]


@pytest.mark.usefixtures("nothing_falls_back")
@pytest.mark.parametrize("name", NESTED_OPERATORS)
def test_nested(name: str) -> None:
    there, here = (NESTED_OPERATORS[name](nested(device)) for device in ("cpu", LAST_DEVICE))
    assert here.device == torch.device(LAST_DEVICE)
    assert here.is_contiguous() == there.is_contiguous()
    assert_close(rows_of(here), rows_of(there), equal_nan=True)


@pytest.mark.usefixtures("nothing_falls_back")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.unbind()[0],
        lambda x: x[1],
        lambda x: (x @ x.transpose(1, 2)).softmax(-1).unbind()[2],
        lambda x: (x * 2 + x).to_padded_tensor(0.0),
        lambda x: x.values(),
    ],
    ids=["unbind", "select", "product", "padded", "values"],
)
def test_gradients_of_nested(function: Function) -> None:
    gradients = []
    for device in ("cpu", LAST_DEVICE):
        x = nested(device, requires_grad=True)
        function(x).square().sum().backward()
        assert x.grad is not None
        gradients.append(rows_of(x.grad))
    assert_close(gradients[1], gradients[0])


def test_a_nested_gradient_has_the_sizes_of_its_tensor() -> None:
    x = nested("openreg", requires_grad=True)
    (x * 2).backward(nested("openreg"))
    assert x.grad is not None
    assert_close(rows_of(x.grad), [row * 2 for row in rows_of(nested("cpu"))])
    with pytest.raises(RuntimeError, match="Mismatch in shape: grad_output"):
        (x * 2).backward(x.detach().transpose(1, 2).contiguous())


@pytest.mark.parametrize("saved_on", ["cpu", "openreg"])
def test_nested_is_loaded_to_another_device(saved_on: str) -> None:
    file = io.BytesIO()
    torch.save(nested(saved_on), file)
    for device in ("cpu", LAST_DEVICE):
        file.seek(0)
        loaded = torch.load(file, map_location=device)
        assert loaded.device == torch.device(device)
        assert_close(rows_of(loaded), rows_of(nested("cpu")), rtol=0, atol=0)


def test_nested_is_printed_moved_and_brought_back() -> None:
    there = nested("cpu")
    here = there.to(LAST_DEVICE)
    assert str(here).replace(f", device='{LAST_DEVICE}'", "").split() == str(there).split()
    assert here._nested_tensor_size().tolist() == [[2, 4], [1, 4], [3, 4]]
    assert here._nested_tensor_strides().tolist() == [[4, 1]] * 3
    assert here._nested_tensor_storage_offsets().tolist() == [0, 8, 12]
    for back in (here.cpu(), here.to("openreg:0").cpu(), nested("openreg").to(LAST_DEVICE).cpu()):
        assert_close(rows_of(back), rows_of(there))


def attention(device: str, scale: float | None) -> list[torch.Tensor]:
    """The result and the gradients of query, key and value, for sequences of lengths 3 and 5 and two heads."""
    generator = torch.Generator().manual_seed(0)
    rows = [torch.randn(length, 2, 4, generator=generator).to(device) for length in (3, 5)]
    query, key, value = (
        torch.nested.nested_tensor([row * factor for row in rows], layout=torch.jagged, requires_grad=True)
        for factor in (1, 2, 3)
    )
    by_head = [tensor.transpose(1, 2) for tensor in (query, key, value)]
    out = scaled_dot_product_attention(by_head[0], by_head[1], by_head[2], scale=scale).transpose(1, 2)
    out.values().square().sum().backward()
    return [out.values(), *(tensor.grad.values() for tensor in (query, key, value))]


@pytest.mark.usefixtures("nothing_falls_back")
@pytest.mark.parametrize("scale", [None, 0.5])
def test_attention_over_jagged_rows(scale: float | None) -> None:
    for here, there in zip(attention(LAST_DEVICE, scale), attention("cpu", scale), strict=True):
        assert here.device == torch.device(LAST_DEVICE)
        assert_close(here.detach().cpu(), there.detach())


def test_no_nested_tensor_ends_the_process() -> None:
    """Autograd reads the sizes of each result in a function that must not throw."""
    program = """
import warnings; warnings.simplefilter("ignore")
import torch
row = torch.ones(2, device="openreg", requires_grad=True)
nested = torch.nested.as_nested_tensor([row, torch.ones(3, device="openreg")])
try:
    nested.sum(-1)
except (NotImplementedError, RuntimeError) as error:
    print(type(error).__name__)
nested.unbind()[0].sum().backward()
print(row.grad.tolist())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines()[-1] == "[1.0, 1.0]"


def test_a_linear_layer_takes_rows() -> None:
    rows = [torch.randn(2, 3), torch.randn(4, 3)]
    layer = torch.nn.Linear(3, 2)
    results = []
    for device in ("cpu", "openreg"):
        layer = layer.to(device)
        layer.zero_grad()
        nested = torch.nested.nested_tensor([row.to(device) for row in rows])
        padded = torch.nested.to_padded_tensor(layer(nested), 0.0)
        padded.square().sum().backward()
        results.append([padded.detach().cpu(), *(p.grad.cpu().clone() for p in layer.parameters())])
    assert_close(results[1], results[0])
