"""What objects of compiled classes hold, for the walk: Python's own, numpy's, and tensors."""

from __future__ import annotations

import contextvars
import types
from collections.abc import Iterator
from typing import Any

import torch
from warmgraph.hashing import sha256_hex

from ...torch_api.frames.guards import is_dtensor
from ..held import variable_name
from ..tensors import spec_text
from .containers import Lines, Walking


def nothing(walk: Walking, value: Any) -> Iterator[str]:
    return iter(())


def numpy_array(walk: Walking, value: Any) -> Iterator[str]:
    """Arrays are tensors to a trace, but those of another class (`matrix`, a masked one), which are read at once."""
    yield f"{getattr(value, 'dtype', '')} {len(getattr(value, 'shape', ()))}"
    if type(value).__name__ == "dtype":
        yield repr(value)
    elif hasattr(value, "tolist") and hasattr(value, "flags") and type(value).__name__ not in ("ndarray", "generic"):
        yield f"{value.shape} {sha256_hex(repr(value.tolist()).encode())}"


def tensor(walk: Walking, value: torch.Tensor) -> Iterator[str]:
    """Its sizes have guards, where they count. A subclass may run code when it is asked: torch's own alone is."""
    yield walk.ref(type(value), "__class__")
    if type(value) in (torch.Tensor, torch.nn.Parameter):
        yield f"{value.dtype} {value.device.type} {value.layout} {value.requires_grad} {value.is_leaf}"
        if value.layout is torch.strided:
            yield str(walk.storage(value.untyped_storage()._cdata))
    elif is_dtensor(value):
        yield f"{spec_text(value._spec)} {value.requires_grad} {value.is_leaf}"
        yield walk.item(id(value), "_local_tensor", value._local_tensor)
    yield from walk.named(value, vars(value))


def builtin(walk: Walking, value: Any) -> Iterator[str]:
    yield f"{value.__qualname__} {walk.ref(value.__self__, '__self__')}"


def method(walk: Walking, value: types.MethodType) -> Iterator[str]:
    yield f"{walk.ref(value.__func__, '__func__')} {walk.ref(value.__self__, '__self__')} {walk.left_out(value)}"


def variable(walk: Walking, value: contextvars.ContextVar[Any]) -> Iterator[str]:
    yield f"{variable_name(value)} {walk.ref(value.get(None), 'get()')}"


def iterator(walk: Walking, value: Any) -> Iterator[str]:
    """What is left of it, without taking any."""
    yield from (walk.ref(part, "rest") for part in value.__reduce__()[1:])


def attributes(*names: str) -> Lines:
    def lines(walk: Walking, value: Any) -> Iterator[str]:
        for name in names:
            yield f"{name}={walk.ref(getattr(value, name), name)}"

    return lines
