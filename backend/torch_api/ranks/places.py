"""Whether code holds what is this rank's own: its place in a mesh, asked for while it is traced. Read on 2.13 and 2.15.

DTensor's code asks its mesh where this rank stands, and nothing else (`_tp_conv` and `mesh_scatter` do otherwise, and
count as asking). While it is traced it looks at no cache of an earlier answer. So a compile during which nobody asked
is every rank's. Inductor asks only in passes that settings switch on.
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from warmgraph.hashing import fact

from .. import patches, versions
from ..compile import hints, inductor_config, setting
from ..generated_code.wrapper_module import Payload
from .group_names import Unknown, group_names, with_groups

_noting = threading.local()

_OLD = versions.at_hand() < (2, 13)  # DTensor asked in other ways, and its caches

# Settings of Inductor under which its passes read a group's rank, and write it into the code.
_ASK = (
    "bucket_all_gathers_fx",
    "bucket_reduce_scatters_fx",
    "bucket_all_reduces_fx",
    "_micro_pipeline_tp",
    "_collective.auto_select",
    "_fuse_ddp_communication",
    "aten_distributed_optimizations.enable_overlap_scheduling",
    "aten_distributed_optimizations.collective_bucketing",
    "aten_distributed_optimizations.allow_comms_decompositions",
)


# Passes of the user's, which may do the same.
_OF_USERS = (
    "pre_grad_custom_pass",
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
    "_pre_fusion_custom_pass",
    "_post_fusion_custom_pass",
)


def rank_in_code() -> dict[str, Any]:
    """This rank and its groups, where a setting makes Inductor write them into any code; else nothing."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized()) or not _any_set(_ASK):
        return {}
    return {"distributed": fact("distributed")}


def _any_set(names: Sequence[str]) -> bool:
    return any(setting("inductor", name) not in (None, False, "none") for name in names)


def can_tell() -> bool:
    """Whether it can be noted what code asks for its place, and which groups it names."""
    if _OLD or _any_set((*_ASK, *_OF_USERS)) or inductor_config.cpp_wrapper:
        return False
    listened = listen()
    with_tensors = "torch.distributed.tensor" not in sys.modules or _installed(_IN_TENSORS)
    return listened and with_tensors


def listen() -> bool:
    """From now on asking a mesh is noticed. False where it was not before: Dynamo keeps methods of meshes that it saw.

    Called before the first graph is traced.
    """
    ready = _OLD or "torch.distributed.device_mesh" not in sys.modules
    if ready or _IN_MESHES.keys() <= set(patches.installed()):
        return True
    _installed(_IN_MESHES)
    return False


def _installed(wraps: Mapping[str, patches.Wrap]) -> bool:
    try:
        for name, wrap in wraps.items():
            patches.install(name, wrap)
    except patches.Moved:
        return False
    return True


class Noted:
    """asked: whether this rank's place was asked for. told: called when it is asked for the first time."""

    def __init__(self, told: Callable[[], object] | None) -> None:
        self.asked = False
        self._told = told

    def note(self) -> None:
        told, self._told = self._told, None
        self.asked = True
        if told is not None:
            told()


@contextmanager
def noting_places(told: Callable[[], object] | None = None, *, apart: bool = False) -> Iterator[Noted]:
    """While open, it is noted whether this thread asks for this rank's place. apart: for nobody outside.

    told: called at once, as soon as it does.
    """
    previous = getattr(_noting, "found", None)
    _noting.found = noted = Noted(told)
    try:
        yield noted
    finally:
        _noting.found = previous
        if noted.asked and previous is not None and not apart:
            previous.note()


def _note() -> None:
    found = getattr(_noting, "found", None)
    if found is not None:
        found.note()


class _Coordinate(tuple[int, ...]):
    """A rank's coordinate that notes when one looks into it: most only ask whether there is one."""

    __slots__ = ()

    def __getitem__(self, index: Any) -> Any:
        _note()
        return super().__getitem__(index)

    def __iter__(self) -> Iterator[int]:
        _note()
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        _note()
        return super().__eq__(other)

    def __hash__(self) -> int:
        _note()
        return super().__hash__()


def _asks(original: Callable[..., Any]) -> Callable[..., Any]:
    def asks(*args: Any, **named: Any) -> Any:
        found = original(*args, **named)
        if not isinstance(found, torch.SymInt):  # which the code computes where it runs
            _note()
        return found

    return asks


def _gives_coordinate(original: Callable[..., Any]) -> Callable[..., Any]:
    def gives_coordinate(self: Any) -> Any:
        found = original(self)
        noted = getattr(_noting, "found", None) is not None and found is not None
        return _Coordinate(found) if noted else found

    return gives_coordinate


def _local_shape(original: Callable[..., Any]) -> Callable[..., Any]:
    """Asks for coordinates to tell how much this rank has of a tensor: where it is even, as much as all have."""

    def local_shape(self: Any, out_tensor_meta: Any, schema: Any, spec: Any) -> Any:
        with noting_places(apart=_is_even(out_tensor_meta.shape, spec)):
            return original(self, out_tensor_meta, schema, spec)

    return local_shape


def _is_even(shape: Sequence[Any], spec: Any) -> bool:
    pieces = [1] * len(shape)
    for size, placement in zip(spec.mesh.shape, spec.placements, strict=True):
        if hasattr(placement, "dim"):
            pieces[placement.dim] *= size
    return all(type(size) is int and size % parts == 0 for size, parts in zip(shape, pieces, strict=True))


_IN_MESHES = {
    "place: coordinate": _gives_coordinate,
    "place: one coordinate": _asks,
    "place: rank": _asks,
    "place: local rank": _asks,
}
_IN_TENSORS = {
    "place: local shape": _local_shape,
    "place: scatter": _asks,
    "place: convolution": _asks,
    "place: convolution backward": _asks,
}


def names_others(result: Any, names: Collection[str]) -> bool:
    """Whether a result's code calls collectives of groups that are not in `names`, or in a way that is not known."""
    if result is None:
        return False
    try:
        return any(not group_names(graph.source_code) <= set(names) for graph in _graphs(result))
    except Unknown:
        return True


def with_groups_of(payload: Payload, theirs: Sequence[str], ours: Sequence[str]) -> Payload:
    """A result that another process compiled, on the groups that this one has by other names."""
    names = dict(zip(theirs, ours, strict=True))
    for graph in _graphs(payload.result):
        graph.source_code = with_groups(graph.source_code, names)
    payload.result.serialized_bw_module = None  # the backward as a graph, for compiled autograd, names them too
    return dataclasses.replace(payload, bytecode={})


def _graphs(result: Any) -> list[Any]:
    sides = (result.compiled_fw, result.compiled_bw)
    return [side.result for side in sides if side is not None and hasattr(side.result, "source_code")]


def sizes_as_numbers(value: Any) -> tuple[Any, ...] | None:
    """How to pickle the sizes in a DTensor's description where they vary: as this call's numbers. None for all else.
    Raises NotImplementedError where this call has none (`nonzero`, `mark_unbacked`).

    A DTensor is made of its parts with the sizes that it has then; of the description it takes the dtype. A gradient
    that is described otherwise is spread as the description says, which it is already.
    """
    cls = type(value)
    if cls.__name__ != "TensorMeta" or cls.__module__ != "torch.distributed.tensor._dtensor_spec":
        return None
    if not any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride)):
        return None
    shape, stride = ([_number(size) for size in sizes] for sizes in value[:2])
    return cls, (torch.Size(shape), tuple(stride), value.dtype)


def _number(size: Any) -> int:
    if not isinstance(size, torch.SymInt):
        return int(size)
    try:
        return int(hints([size])[0])
    except Exception as error:  # torch has a class of its own for it
        raise NotImplementedError(f"a DTensor with a size that only data says: {error}") from error
