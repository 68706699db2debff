"""Constant tensors as data: dtype, sizes, strides, bytes. No pickle, no storage format of torch's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import torch

from ..torch_api import compile as compat

_DTYPES = {
    str(dtype): dtype
    for name in (
        "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex32 complex64 "
        "complex128 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu"
    ).split()
    if isinstance(dtype := getattr(torch, name, None), torch.dtype)
}
MAX_BYTES = 64 * 2**20


class NoData(ValueError):
    """A tensor that is more than its bytes, or bytes that are no tensor."""


def tensor_data(tensor: Any) -> list[Any]:
    """Raises NoData, saying what the tensor is."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
        raise NoData(f"a constant of type {type(tensor).__qualname__}")
    with compat.no_dispatch_modes():
        plainly = tensor.layout is torch.strided and not tensor.is_conj() and not tensor.is_neg()
        if not plainly or str(tensor.dtype) not in _DTYPES:
            raise NoData(f"a constant of {tensor.dtype}, layout {tensor.layout}")
        if tensor.device.type not in ("cpu", "cuda"):
            raise NoData(f"a constant on {tensor.device}")
        plain = tensor.detach()
        size, stride = list(plain.size()), list(plain.stride())
        if list(torch.empty_like(plain).stride()) != stride and plain.numel():
            raise NoData(f"a constant with overlapping or sparse strides {stride}")
        if plain.numel() * plain.element_size() > MAX_BYTES:
            raise NoData(f"a constant of {plain.numel() * plain.element_size()} bytes")
        flat = plain.cpu().contiguous()
        content = ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()) if flat.numel() else b""
    where = [tensor.device.type, tensor.device.index]
    return [str(tensor.dtype), size, stride, where, bool(tensor.requires_grad), content]


def tensor_of(data: Any) -> torch.Tensor:
    """The tensor again. Raises NoData."""
    match data:
        case [str(name), list(size), list(stride), [("cpu" | "cuda") as kind, index], bool(grad), bytes(content)] if (
            name in _DTYPES and _sizes(size) and _sizes(stride) and len(size) == len(stride)
        ):
            pass
        case _:
            raise NoData("no constant tensor")
    dtype = _DTYPES[name]
    count = 1
    for length in size:
        count *= length
    if len(content) != count * dtype.itemsize or count > MAX_BYTES or not (index is None or type(index) is int):
        raise NoData(f"a constant of {size} {name} in {len(content)} bytes")
    with compat.no_dispatch_modes(), torch.no_grad():
        made = torch.empty_strided(size, stride, dtype=dtype)
        if made.untyped_storage().nbytes() > max(MAX_BYTES, len(content)):
            raise NoData(f"a constant with strides {stride}")
        if content:
            made.copy_(torch.frombuffer(bytearray(content), dtype=torch.uint8).view(dtype).reshape(size))
        device = torch.device(kind) if index is None else torch.device(kind, index)
        return made.to(device).requires_grad_(grad)


def _sizes(value: Sequence[Any]) -> bool:
    return all(type(item) is int and 0 <= item < 2**48 for item in value)
