"""Tensors of every layout and dtype, made on the CPU, so that a device result can be compared with the CPU's."""

from __future__ import annotations

from collections.abc import Callable

import torch

DTYPES = [
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex32,
    torch.complex64,
    torch.complex128,
]
# Dtypes that PyTorch stores and converts but barely computes with.
STORED_DTYPES = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]


def values(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """Numbers of both signs where the dtype has them, the same for every call."""
    count = torch.Size(shape).numel()
    numbers = torch.arange(count, dtype=torch.float64) - count // 2
    if dtype.is_complex:
        return torch.complex(numbers, numbers.flip(0) / 2).to(dtype).reshape(shape)
    if dtype == torch.uint8:
        numbers = numbers.abs()
    return numbers.remainder(97).mul(numbers.sign()).to(dtype).reshape(shape)


LAYOUTS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "contiguous": lambda dtype: values((3, 4, 5), dtype),
    "transposed": lambda dtype: values((5, 4, 3), dtype).transpose(0, 2),
    "sliced": lambda dtype: values((7, 9), dtype)[1::2, ::3],
    "offset": lambda dtype: values((40,), dtype)[13:29],
    "expanded": lambda dtype: values((1, 5), dtype).expand(4, 5),
    "channels_last": lambda dtype: values((2, 3, 4, 5), dtype).contiguous(memory_format=torch.channels_last),
    "zero_dimensional": lambda dtype: values((1,), dtype)[0],
    "empty": lambda dtype: values((0, 3), dtype),
    "one_element_of_many": lambda dtype: values((8, 8), dtype)[3, 4],
    "large": lambda dtype: values((70_000,), dtype),
    "large_sliced": lambda dtype: values((300, 700), dtype)[:, ::2],
}


def to_device(tensor: torch.Tensor, device: str = "openreg:0") -> torch.Tensor:
    """The same tensor on the device, with the same strides and a storage of its own."""
    span = 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) if tensor.numel() else 0
    flat = torch.as_strided(tensor, (span,), (1,)) if span else tensor.reshape(-1)
    return torch.as_strided(flat.clone().to(device), tensor.shape, tensor.stride())
