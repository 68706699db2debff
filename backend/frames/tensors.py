"""A tensor by all that a trace, its guards or the compiled code rely on; and which tensors are one or share memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from warmgraph.hashing import Uncacheable, bases_text, encode

from ..torch_api.frames.devices import is_pinned
from ..torch_api.frames.guards import dispatch_keys, is_wrapper_subclass
from ..torch_api.frames.plain import Refused
from .held import short
from .values import Values

_ALIGNMENT = 16  # bytes: what Inductor trusts a static input's address to be a multiple of (its `GPU_ALIGN_BYTES`)
# Attributes by which a program (or Dynamo) says how sizes are to be treated.
_MARKS = """
    _dynamo_dynamic_indices _dynamo_weak_dynamic_indices _dynamo_unbacked_indices _dynamo_strict_unbacked_indices
    _dynamo_static_indices _dynamo_static_input_type _dynamo_dynamic_range _dynamo_shape_ids _dynamo_unbacked_bounds
    _dynamo_hint_overrides _dynamo_propagated_dynamic_indices _specialize_on _dynamo_unspecialized_indices
""".split()


def tensor_text(
    value: Any, size: Sequence[Any], stride: Sequence[Any], marked: bool, values: Values, *, beneath: bool
) -> str:
    """size, stride: as guarded, None where dynamic. marked: the trace marks it as static, whatever it was before.
    beneath: whether code may ask what lies under it. Raises Refused.
    """
    if not isinstance(value, torch.Tensor):
        raise Refused(f"a tensor was here; now {type(value).__qualname__}")
    if len(size) != value.dim():
        raise Refused(f"{len(size)} dimensions were here; now {value.dim()}")
    if value.layout is not torch.strided or value.is_quantized:
        raise Refused(f"a tensor of layout {value.layout}")
    if value.device.type not in ("cpu", "cuda", "meta"):
        raise Refused(f"a tensor on {value.device}")
    facts = (
        values.classes.text(type(value)),
        dispatch_keys(value),
        str(value.dtype),
        str(value.device),
        value.requires_grad,
        value.is_leaf,
        value.is_conj(),
        value.is_neg(),
        value.is_inference(),
        is_pinned(value),
        value._is_view(),
        [None if want is None else have for want, have in zip(size, value.shape, strict=True)],
        [None if want is None else have for want, have in zip(stride, value.stride(), strict=True)],
        value.storage_offset(),
        _marks(value, marked),
        _alignment(value) if marked or hasattr(value, "_dynamo_static_input_type") else None,
        _beneath(value) if beneath else None,
    )
    return repr(facts)


def spec_text(spec: Any) -> str:
    """How a DTensor is spread over a mesh, without its sizes. Raises Refused."""
    said = {name: value for name, value in vars(spec).items() if name not in ("mesh", "tensor_meta", "_hash")}
    try:
        mesh = short(encode(spec.mesh))  # of thousands of ranks, say
        return encode([mesh, said, spec.tensor_meta and spec.tensor_meta.dtype])
    except (Uncacheable, LookupError, RuntimeError, ValueError) as why:  # also of a mesh that this rank is not in
        raise Refused(f"a DTensor's specification: {why}") from None


def _alignment(value: torch.Tensor) -> Any:
    if not is_wrapper_subclass(value):
        return value.data_ptr() % _ALIGNMENT == 0
    parts = (getattr(value, name) for name in value.__tensor_flatten__()[0])
    return [_alignment(part) for part in parts if isinstance(part, torch.Tensor)]


def asks_for_storages(asked: Iterable[str]) -> bool:
    """asked: names that the traced code asks for."""
    return any(map(_is_of_storages, asked))


def _is_of_storages(name: str) -> bool:
    return "storage" in name or name == "_base" or name.startswith(("as_strided", "set_", "resize"))


def _beneath(value: torch.Tensor) -> str:
    """What lies under a tensor: Dynamo folds it in, and code made for more memory would read past its end."""
    base = value._base
    under = None
    if base is not None:
        under = (str(base.dtype), [*base.shape], [*base.stride()], base.storage_offset(), base.requires_grad)
    return f"{value.untyped_storage().nbytes()} {under}"


def _marks(value: torch.Tensor, marked: bool) -> str:
    found = {}
    for name in _MARKS:
        if hasattr(value, name) and not (marked and name == "_dynamo_static_input_type"):
            held = getattr(value, name)
            items = held.items() if isinstance(held, dict) else held  # of dimensions, in the order of the marking
            found[name] = sorted(items, key=repr) if isinstance(held, (set, frozenset, dict)) else held
    return repr(found)


def sharing_text(tensors: Sequence[torch.Tensor]) -> str:
    """Which of these are one tensor, and which lie in one storage and how. torch guards neither for parameters."""
    numbers: dict[int, int] = {}
    one = []
    storages: dict[int, list[int]] = {}
    for position, tensor in enumerate(tensors):
        if id(tensor) not in numbers:
            numbers[id(tensor)] = position
            storages.setdefault(tensor.untyped_storage()._cdata, []).append(position)
        one.append(numbers[id(tensor)])
    groups = []
    for group in storages.values():
        if len(group) > 1:
            members = [tensors[position] for position in group]
            described = [
                (position, tensor.storage_offset(), tuple(tensor.shape), tensor.stride())
                for position, tensor in zip(group, members, strict=True)
            ]
            groups.append((described, members[0].untyped_storage().nbytes(), bases_text(members)))
    return short(repr((one, groups)))
