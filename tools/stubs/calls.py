"""Calls that reach stubs beyond PyTorch's operator database: quantized tensors, fused optimizers, layouts."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Call = Callable[[str], object]


def _floats(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[str], torch.Tensor]:
    return lambda device: torch.linspace(-2, 2, torch.Size(shape).numel()).reshape(shape).to(device, dtype)


def _quantized(device: str, *shape: int, layout: torch.memory_format = torch.contiguous_format) -> torch.Tensor:
    x = _floats(*shape)(device).contiguous(memory_format=layout)
    return torch.quantize_per_tensor(x, 0.1, 64, torch.quint8)


def _per_channel(device: str, dtype: torch.dtype = torch.qint8) -> torch.Tensor:
    zeros = torch.zeros(4, dtype=torch.float32 if dtype in (torch.quint8, torch.quint4x2) else torch.int64)
    return torch.quantize_per_channel(_floats(4, 6)(device), torch.full((4,), 0.1), zeros, 0, dtype)


def _optimizer(optimizer: Callable[..., torch.optim.Optimizer]) -> Call:
    def call(device: str) -> None:
        parameter = _floats(8)(device).requires_grad_()
        parameter.grad = torch.ones_like(parameter)
        optimizer([parameter], lr=0.1, fused=True).step()

    return call


def _unary(function: Callable[..., object], *shape: int) -> Call:
    return lambda device: function(_floats(*(shape or (4, 6)))(device))


def _on_quantized(function: Callable[..., object], *shape: int, last: bool = False) -> Call:
    layout = {4: torch.channels_last, 5: torch.channels_last_3d}.get(len(shape)) if last else None
    return lambda device: function(_quantized(device, *(shape or (4, 6)), layout=layout or torch.contiguous_format))


def _learnable(dimension: int | None) -> Call:
    def call(device: str) -> None:
        x = _floats(4, 6)(device).requires_grad_()
        count = 1 if dimension is None else 4
        scale, zero = (
            torch.full((count,), 0.1).to(device).requires_grad_(),
            torch.zeros(count).to(device).requires_grad_(),
        )
        if dimension is None:
            result = torch._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 255, 1.0)
        else:
            result = torch._fake_quantize_learnable_per_channel_affine(x, scale, zero, dimension, 0, 255, 1.0)
        result.sum().backward()

    return call


def _expanded(function: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]) -> Call:
    def call(device: str) -> None:
        index = (torch.arange(64, device=device) % 16).view(-1, 1).expand(64, 32)
        function(_floats(16, 32)(device), index, _floats(64, 32)(device))

    return call


def _gradient(function: Callable[[torch.Tensor], torch.Tensor], *shape: int) -> Call:
    def call(device: str) -> None:
        function(_floats(*shape)(device).requires_grad_()).sum().backward()

    return call


def _amp(device: str) -> None:
    scale, found, growth = (torch.full((1,), value, device=device) for value in (2.0, 0.0, 0))
    torch._amp_foreach_non_finite_check_and_unscale_([_floats(8)(device)], found, scale)
    torch._amp_update_scale_(scale, growth.int(), found, 2.0, 0.5, 100)


def _int4(device: str) -> None:
    weight = torch.zeros(64, 32, dtype=torch.int32, device=device)
    packed = torch._convert_weight_to_int4pack_for_cpu(weight, 2)
    scales = torch.ones(1, 64, 2, dtype=torch.bfloat16, device=device)
    torch._weight_int4pack_mm_for_cpu(_floats(4, 32, dtype=torch.bfloat16)(device), packed, 32, scales)


def _int8(device: str) -> None:
    weight = torch.zeros(64, 32, dtype=torch.int8, device=device)
    scales = torch.ones(64, dtype=torch.bfloat16, device=device)
    torch._weight_int8pack_mm(_floats(4, 32, dtype=torch.bfloat16)(device), weight, scales)


def _dynamic_int4(device: str) -> None:
    weight = torch.zeros(64, 16, dtype=torch.uint8, device=device)
    scales = torch.ones(64, 1, dtype=torch.float32, device=device)
    packed = torch._dyn_quant_pack_4bit_weight(weight, scales, None, 32, 32, 64)
    torch._dyn_quant_matmul_4bit(_floats(4, 32)(device), packed, 32, 32, 64)


def _attention(device: str) -> None:
    q = _floats(2, 2, 8, 16)(device).requires_grad_()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        functional.scaled_dot_product_attention(q, q, q).sum().backward()


def _plain_products(device: str) -> None:
    with torch.backends.mkldnn.flags(enabled=False):
        for dtype in (torch.bfloat16, torch.float16):
            x = _floats(8, 8, dtype=dtype)(device)
            torch.addmm(x, x, x, beta=0.5, alpha=2.0), x @ x[0], x[0] @ x[0], torch.baddbmm(x[None], x[None], x[None])


def _recurrent(kind: Callable[[int, int], torch.nn.Module]) -> Call:
    def call(device: str) -> None:
        module = kind(4, 4).to(device).eval()
        with torch.no_grad():
            module(_floats(3, 2, 4)(device))
            module(torch.nn.utils.rnn.pack_padded_sequence(_floats(3, 2, 4)(device), torch.tensor([3, 2])))

    return call


def _quantized_batch_norm(x: torch.Tensor) -> torch.Tensor:
    ones = torch.ones(4)
    return torch.quantized_batch_norm(x, ones, ones, ones, ones, 1e-5, 0.1, 64)


def _resized(mode: str, dimensions: int) -> Call:
    size = (3,) * dimensions
    return _gradient(lambda x: functional.interpolate(x, size, mode=mode), 1, 2, *(4,) * dimensions)


def _qadd(name: str, *, relu: bool = False, scalar: bool = False) -> Call:
    operator = getattr(torch.ops.quantized, name + ("_scalar" if scalar else "") + ("_relu" if relu else ""))

    def call(device: str) -> object:
        x = _quantized(device, 4, 6)
        return operator(x, 0.5) if scalar else operator(x, x, 0.1, 64)

    return call


Q = torch.ops.quantized
CALLS: dict[str, Call] = {
    "amp": _amp,
    "Adam, fused": _optimizer(torch.optim.Adam),
    "SGD, fused": _optimizer(torch.optim.SGD),
    "Adagrad, fused": _optimizer(torch.optim.Adagrad),
    "int4": _int4,
    "int8": _int8,
    "dynamic int4": _dynamic_int4,
    "attention": _attention,
    "matrix products": _plain_products,
    "lstm": _recurrent(torch.nn.LSTM),
    "gru": _recurrent(torch.nn.GRU),
    "rnn": _recurrent(torch.nn.RNN),
    "_add_relu": _unary(lambda x: torch._add_relu(x, x)),
    "clamp_max": _unary(lambda x: torch.clamp_max(x, 1.0)),
    "scatter, reduced": _unary(
        lambda x: x.scatter(0, torch.zeros(1, 6, dtype=torch.int64, device=x.device), 2.0, reduce="add")
    ),
    "scatter_add, expanded": _expanded(lambda x, i, y: x.scatter_add(0, i, y)),
    "scatter_reduce, expanded": _expanded(lambda x, i, y: x.scatter_reduce(0, i, y, "amax")),
    "index_put, accumulated": _unary(lambda x: x.index_put((torch.tensor([0, 0], device=x.device),), x[:2], True)),
    "bernoulli_": _unary(lambda x: x.bernoulli_(0.5)),
    "random": _unary(lambda x: x.random_()),
    "random, 64 bits": lambda device: torch.empty(4, dtype=torch.int64, device=device).random_(-(2**63), None),
    "kaiser_window": lambda device: torch.kaiser_window(8, device=device),
    "stack": _unary(lambda x: torch.ops.aten._stack([x, x])),
    "weight_norm": _gradient(lambda x: torch._weight_norm(x, torch.ones(4, 1, device=x.device).requires_grad_()), 4, 6),
    "qkv": _unary(lambda x: torch._transform_bias_rescale_qkv(x, torch.ones(48, device=x.device), 2), 2, 4, 48),
    "depthwise": _unary(lambda x: functional.conv2d(x, torch.ones(8, 1, 3, 3, device=x.device), groups=8), 1, 8, 9, 9),
    "bilinear, antialias": _gradient(
        lambda x: functional.interpolate(x, (3, 3), mode="bilinear", antialias=True), 1, 2, 8, 8
    ),
    "bicubic, antialias": _gradient(
        lambda x: functional.interpolate(x, (3, 3), mode="bicubic", antialias=True), 1, 2, 8, 8
    ),
    "lanczos, antialias": _gradient(
        lambda x: torch.ops.aten._upsample_lanczos2d_aa(x, [3, 3], False, None, None), 1, 2, 8, 8
    ),
    "fake quantized": _gradient(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255), 4, 6),
    "fake quantized, tensors": _gradient(
        lambda x: torch.fake_quantize_per_tensor_affine(
            x, torch.tensor(0.1, device=x.device), torch.tensor(0, dtype=torch.int32, device=x.device), 0, 255
        ),
        4,
        6,
    ),
    "fake quantized, channels": _gradient(
        lambda x: torch.fake_quantize_per_channel_affine(
            x, torch.full((4,), 0.1, device=x.device), torch.zeros(4, dtype=torch.int32, device=x.device), 0, 0, 255
        ),
        4,
        6,
    ),
    "fake quantized, learnable": _learnable(None),
    "fake quantized, learnable channels": _learnable(0),
    "quantized": _on_quantized(lambda x: x.dequantize()),
    "quantized, 4 bits": lambda device: torch.quantize_per_tensor(
        _floats(4, 6)(device), 0.1, 0, torch.quint4x2
    ).dequantize(),
    "quantized, channels": lambda device: _per_channel(device).dequantize(),
    "quantized, float channels": lambda device: _per_channel(device, torch.quint8).dequantize(),
    "quantized masked_fill": _on_quantized(
        lambda x: x.masked_fill_(torch.ones(4, 6, dtype=torch.bool, device=x.device), 1.0)
    ),
    "quantized index_put": _on_quantized(
        lambda x: x.index_put_((torch.tensor([0], device=x.device),), torch.tensor([1.0], device=x.device))
    ),
    "quantized adaptive_avg_pool2d": _on_quantized(
        lambda x: functional.adaptive_avg_pool2d(x, 2), 1, 4, 8, 8, last=True
    ),
    "quantized adaptive_avg_pool3d": _on_quantized(
        lambda x: functional.adaptive_avg_pool3d(x, 2), 1, 4, 8, 8, 8, last=True
    ),
    "quantized avg_pool2d": _on_quantized(lambda x: functional.avg_pool2d(x, 2), 1, 4, 8, 8, last=True),
    "quantized avg_pool3d": _on_quantized(lambda x: functional.avg_pool3d(x, 2), 1, 4, 8, 8, 8, last=True),
    "quantized max_pool2d": _on_quantized(lambda x: functional.max_pool2d(x, 2), 1, 4, 8, 8, last=True),
    "quantized max_pool3d": _on_quantized(lambda x: functional.max_pool3d(x, 2), 1, 4, 8, 8, 8, last=True),
    **{
        f"quantized {name}{' relu' * relu}{' scalar' * scalar}": _qadd(name, relu=relu, scalar=scalar)
        for name in ("add", "mul")
        for relu in (False, True)
        for scalar in (False, True)
    },
    "quantized batch_norm2d": _on_quantized(
        lambda x: (
            Q.batch_norm2d(x, *[torch.ones(4)] * 4, 1e-5, 0.1, 64),
            Q.batch_norm2d_relu(x, *[torch.ones(4)] * 4, 1e-5, 0.1, 64),
        ),
        1,
        4,
        8,
        8,
        last=True,
    ),
    "quantized batch_norm": _on_quantized(lambda x: _quantized_batch_norm(x), 1, 4, 8, 8),
    "quantized cat": _on_quantized(
        lambda x: (Q.cat([x, x], 1, 0.1, 64), Q.cat_relu([x, x], 1, 0.1, 64)), 1, 4, 8, 8, last=True
    ),
    "quantized clamp": _on_quantized(lambda x: (Q.clamp(x, -1, 1), torch.clamp(x, -1, 1))),
    "quantized clamp, min": _on_quantized(lambda x: Q.clamp(x, -1, None)),
    "quantized clamp, max": _on_quantized(lambda x: Q.clamp(x, None, 1)),
    "quantized elu": _on_quantized(lambda x: Q.elu(x, 0.1, 64)),
    "quantized hardsigmoid": _on_quantized(lambda x: functional.hardsigmoid(x)),
    "quantized hardswish": _on_quantized(lambda x: Q.hardswish(x, 0.1, 64)),
    "quantized dropout": _on_quantized(lambda x: Q.dropout(x, 0.1, 64, 0.5, False)),
    "quantized instance_norm": _on_quantized(
        lambda x: Q.instance_norm(x, torch.ones(4), torch.ones(4), 1e-5, 0.1, 64), 1, 4, 8, 8
    ),
    "quantized group_norm": _on_quantized(
        lambda x: Q.group_norm(x, 2, torch.ones(4), torch.ones(4), 1e-5, 0.1, 64), 1, 4, 8, 8, last=True
    ),
    "quantized layer_norm": _on_quantized(lambda x: Q.layer_norm(x, [6], torch.ones(6), torch.ones(6), 1e-5, 0.1, 64)),
    "quantized relu": _on_quantized(lambda x: torch.relu(x)),
    "quantized leaky_relu": _on_quantized(lambda x: Q.leaky_relu(x, 0.1, False, 0.1, 64)),
    "quantized gelu": _on_quantized(lambda x: functional.gelu(x)),
    "quantized sigmoid": _on_quantized(lambda x: torch.sigmoid(x)),
    "quantized tanh": _on_quantized(lambda x: torch.tanh(x)),
    "quantized threshold": _on_quantized(lambda x: Q.threshold(x, 0.5, 0.0)),
    "quantized topk": _on_quantized(lambda x: torch.topk(x, 2)),
    "quantized upsample": _on_quantized(
        lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"), 1, 4, 8, 8, last=True
    ),
    "quantized mean": _on_quantized(lambda x: (torch.mean(x, -1), torch.std(x, -1)), 4, 64),
    "quantized prelu": _on_quantized(
        lambda x: Q.prelu(x, torch.quantize_per_tensor(torch.ones(1), 0.1, 64, torch.quint8), 0.1, 64), 1, 4, 8
    ),
    "reflection_pad2d": _gradient(lambda x: functional.pad(x, (1, 1, 1, 1), mode="reflect"), 1, 2, 4, 4),
    "reflection_pad3d": _gradient(lambda x: functional.pad(x, (1,) * 6, mode="reflect"), 1, 2, 4, 4, 4),
    "replication_pad3d": _gradient(lambda x: functional.pad(x, (1,) * 6, mode="replicate"), 1, 2, 4, 4, 4),
    **{
        f"{mode}, {dimensions} dimensions": _resized(mode, dimensions)
        for mode in ("nearest", "nearest-exact")
        for dimensions in (1, 2, 3)
    },
    "powsum": _unary(lambda x: torch.ops.aten.linalg__powsum(x, 3.0)),
    "polygamma": _unary(lambda x: torch.polygamma(1, x + 3)),
}
