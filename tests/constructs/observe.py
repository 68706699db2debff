"""A case's return value as plain JSON: an entry per leaf, with everything that two ways must agree on. No comparing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import torch
from harness import Raised
from torch.utils import _pytree as pytree

# Numbers kept for a comparison within a tolerance; the digest covers the rest.
_KEPT = 96


def observe(value: Any) -> dict[str, dict[str, Any]]:
    """Path -> what is seen there. Tensors know their storage, base and identity by the first path that has them."""
    leaves = dict(_leaves(value, "", set()))
    tensors = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, torch.Tensor)}
    plain = {path: tensor for path, tensor in tensors.items() if not _is_wrapper(tensor)}
    objects = _first_paths({path: id(tensor) for path, tensor in tensors.items()})
    storages = _first_paths({p: t.untyped_storage()._cdata for p, t in plain.items() if t.layout is torch.strided})
    seen: dict[str, dict[str, Any]] = {}
    for path, leaf in leaves.items():
        if not isinstance(leaf, torch.Tensor):
            seen[path] = _plain(leaf)
            continue
        seen[path] = {"same": objects[path], "base": _base(leaf, tensors), **_tensor(leaf)}
        if path in plain:
            seen[path] |= {"storage": storages.get(path), **_content(leaf)}
    return seen


def _leaves(value: Any, path: str, inside: set[int]) -> Iterator[tuple[str, Any]]:
    """Depth first, in order; a container is itself a leaf that holds its type (and length)."""
    if isinstance(value, torch.Tensor):
        yield path, value
        if _is_wrapper(value):
            names, context = value.__tensor_flatten__()
            yield f"{path}.context", _text(context)
            for name in names:
                yield from _leaves(getattr(value, name), f"{path}.{name}", inside)
        if not value.is_inference() and _history(value) is False and value.grad is not None:
            yield from _leaves(value.grad, f"{path}.grad", inside)
        return
    items = _items(value)
    if items is None or id(value) in inside:
        yield path, value
        return
    yield path or "/", _Container(type(value).__name__, len(items))
    for name, item in items:
        yield from _leaves(item, f"{path}/{name}", inside | {id(value)})


class _Container(tuple):
    """(type's name, length) of something that holds others."""

    __slots__ = ()

    def __new__(cls, *of: Any) -> _Container:
        return super().__new__(cls, of)


def _items(value: Any) -> list[tuple[str, Any]] | None:
    if isinstance(value, dict):
        return [(str(key), dict.__getitem__(value, key)) for key in dict.__iter__(value)]
    if isinstance(value, list):
        return [(str(number), item) for number, item in enumerate(list.__iter__(value))]
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return [(str(number), item) for number, item in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return [(str(number), item) for number, item in enumerate(sorted(value, key=str))]
    if type(value) in pytree.SUPPORTED_NODES:
        children, _ = pytree.SUPPORTED_NODES[type(value)].flatten_fn(value)
        return [(str(number), item) for number, item in enumerate(children)]
    return None


def _plain(leaf: Any) -> dict[str, Any]:
    if isinstance(leaf, _Container):
        return {"container": list(leaf)}
    if isinstance(leaf, Raised):
        return {"error": leaf.kind, "line": leaf.line}
    if isinstance(leaf, float):
        return {"type": "float", "approx": [leaf], "digest": leaf.hex()}
    return {"type": type(leaf).__name__, "is": _text(leaf)}


def _text(value: Any) -> str:
    text = repr(value)
    return text if " at 0x" not in text else f"<{type(value).__name__}>"


def _first_paths(of: dict[str, int]) -> dict[str, str]:
    first: dict[int, str] = {}
    return {path: first.setdefault(number, path) for path, number in of.items()}


def _is_wrapper(tensor: torch.Tensor) -> bool:
    return type(tensor) is not torch.Tensor and hasattr(tensor, "__tensor_flatten__")


def _base(tensor: torch.Tensor, tensors: dict[str, torch.Tensor]) -> str | None:
    """Which observed tensor it is a view of; None for no view."""
    if tensor.is_inference() or tensor._base is None:
        return None
    return next((path for path, other in tensors.items() if other is tensor._base), "another tensor")


def _history(tensor: torch.Tensor) -> bool | str:
    """Whether it has any; or why autograd does not let one look, at views that were written to in forbidden ways."""
    try:
        return tensor.grad_fn is not None
    except RuntimeError as error:
        return str(error).partition(".")[0]


def _tensor(tensor: torch.Tensor) -> dict[str, Any]:
    strided = tensor.layout is torch.strided
    return {
        "type": f"{type(tensor).__module__}.{type(tensor).__qualname__}",
        "dtype": str(tensor.dtype),
        "device": str(tensor.device),
        "layout": str(tensor.layout),
        "size": [str(size) for size in tensor.shape],
        "stride": [str(stride) for stride in tensor.stride()] if strided else None,
        "requires_grad": tensor.requires_grad,
        "grad_fn": _history(tensor),
        "inference": tensor.is_inference(),
        "conj": tensor.is_conj(),
        "neg": tensor.is_neg(),
        "version": None if tensor.is_inference() else tensor._version,
    }


def _content(tensor: torch.Tensor) -> dict[str, Any]:
    """Digest of all bytes, the first numbers, and how it lies in its storage."""
    plain = tensor.detach().resolve_conj().resolve_neg()
    lies = {}
    if tensor.layout is torch.strided:
        lies = {"offset": tensor.storage_offset(), "bytes": tensor.untyped_storage().nbytes()}
        if tensor.numel() and not lies["bytes"]:
            return {**lies, "digest": "no storage", "approx": []}
        data = plain.cpu().contiguous().reshape(-1)
    else:
        data = plain.to_dense().cpu().contiguous().reshape(-1)
    raw = bytes(data.view(torch.uint8).tolist()) if data.numel() else b""
    digest = hashlib.sha256(raw).hexdigest()[:16]
    numbers = torch.view_as_real(data).reshape(-1) if data.is_complex() else data
    return {**lies, "digest": digest, "approx": [str(n) for n in numbers[:_KEPT].double().tolist()]}
