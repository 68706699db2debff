"""Device meshes, process groups and placements, as plain values that an encoder knows. Imports nothing distributed.

AOTAutograd asks a mesh for its groups' names, its shape and this rank's coordinate while it traces, and bakes the
answers into the code. torch's own key knows of a mesh at most its layout, its device type and its axes' names.

What is the same on every rank is told apart from this rank's *place*: its coordinates and global numbers. Code that
never asked for the place is every rank's, and whoever compiles can tell (`backend/torch_api/ranks/places.py`).
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from msgspec import Struct

from .. import torch_names
from .devices import for_current_device

_PLACEMENTS = "torch.distributed.tensor.placement_types"


class GroupOf(Struct, frozen=True):
    """A group by its name in this process, and what it is."""

    name: str
    shared: Any


class Said(Struct):
    """What was said of a mesh. text: of `plain`, once somebody has encoded it."""

    plain: Any
    text: str = ""


_thread = threading.local()  # said: by who says it and a mesh's id, with the mesh


@contextlib.contextmanager
def describing_once() -> Iterator[None]:
    """Each mesh is described once meanwhile, in this thread: it has all ranks of its job, and is in each DTensor."""
    before = getattr(_thread, "said", None)
    _thread.said = {} if before is None else before
    try:
        yield
    finally:
        _thread.said = before


def _once(say: Callable[[Any], Any], mesh: Any) -> Any:
    said = getattr(_thread, "said", None)
    if said is None:
        return say(mesh)
    if (say, id(mesh)) not in said:
        plain = say(mesh)
        said[say, id(mesh)] = (mesh, None if plain is None else Said(plain))
    return said[say, id(mesh)][1]


def stands_for(value: Any) -> Any | None:
    """A plain value that says all of `value` that reaches code, or None for what this file does not know."""
    kind = type(value)
    module = kind.__module__
    if not module.startswith(torch_names.DISTRIBUTED):
        return None
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # DTensor's metadata: TensorMeta, ShardOrderEntry
        return dict(zip(value._fields, value, strict=True))
    if is_placement(value):
        return _placement(value)
    if (shared := on_every_rank(value)) is not None:
        return [shared, place_of(value)]
    return None


def is_mesh(value: Any) -> bool:
    return type(value).__name__ == "DeviceMesh" and type(value).__module__.startswith(torch_names.DISTRIBUTED)


def is_group(value: Any) -> bool:
    return type(value).__name__ == "ProcessGroup" and type(value).__module__.startswith(torch_names.DISTRIBUTED)


def is_placement(value: Any) -> bool:
    return type(value).__module__ == _PLACEMENTS


def is_of_ranks(value: Any) -> bool:
    """Whether it is a group of ranks, a mesh of them, or how a tensor is spread over one."""
    return is_group(value) or is_mesh(value) or is_placement(value)


def on_every_rank(value: Any) -> Any | None:
    """What ranks that stand alike in a mesh or group have in common; None for what is neither, or is not known."""
    if is_mesh(value):
        return _once(_mesh, value)
    return _group(value) if is_group(value) else None


def place_of(value: Any) -> Any:
    """This rank's own place in a mesh or group: what its code may hold beside `on_every_rank`."""
    if is_group(value):
        ranks = _ranks(value)
        return [value.group_name, ranks, value.rank()]
    return _once(_place_in, value)


def _place_in(mesh: Any) -> Any:
    return {
        "rank": mesh.get_rank(),
        "coordinate": mesh.get_coordinate(),
        "ranks": mesh.mesh.tolist(),
        "groups": [place_of(group) for group in mesh.get_all_groups()],
    }


def evenly_sharded(tensor: Any) -> bool:
    """Whether all ranks hold as much of a DTensor. Else sizes within a graph may be this rank's alone."""
    pieces = [1] * tensor.dim()
    for size, placement in zip(tensor.device_mesh.shape, tensor.placements, strict=True):
        if hasattr(placement, "dim"):
            pieces[placement.dim] *= size
    return all(int(size) % parts == 0 for size, parts in zip(tensor.shape, pieces, strict=True))


def groups_come_as_inputs() -> bool:
    """Whether torch passes groups to code instead of baking their names in (`compile_on_one_rank`)."""
    if hasattr(torch.compiler.config, "compile_on_one_rank"):
        return for_current_device()
    # Before torch 2.14; later torch warns of this name.
    return bool(getattr(sys.modules.get("torch.distributed.config"), "compile_on_one_rank", False))


def _placement(value: Any) -> Any | None:
    # By exact name: what a placement of another class holds is not known here.
    name = type(value).__name__
    if name == "Replicate":
        return []
    if name == "Shard":
        return [value.dim]
    if name == "Partial" and type(value.reduce_op) is str:
        return [value.reduce_op]
    if name == "_StridedShard" and vars(value).keys() <= {"_symbolic_split_factor"}:
        return [value.dim, value.split_factor]  # symbolic: refused by the encoder, like any unknown size
    return None


def _mesh(mesh: Any, of_root: bool = True) -> Any | None:
    if getattr(mesh, "_thread_id", None) is not None:
        return None  # one process that plays several ranks: their meshes differ by thread alone
    root = mesh._get_root_mesh()
    world = root.mesh.flatten().tolist()
    position = {rank: number for number, rank in enumerate(world)}
    return {
        "device_type": mesh.device_type,
        "shape": list(mesh.shape),
        "dim_names": mesh.mesh_dim_names,
        # Where the ranks of this mesh stand in the one that it is a part of, from its first; and all of the latter.
        "ranks": _from_first([position[rank] for rank in mesh.mesh.flatten().tolist()]),
        "world": world,
        "member": mesh.get_coordinate() is not None,
        "groups": [_group(group) for group in mesh.get_all_groups()],
        "flattened": {name: _mesh(inner, of_root=False) for name, inner in mesh._flatten_mapping.items()},
        "root": _mesh(root, of_root=False) if of_root and root is not mesh else None,
        **({"preserves": "the order of ranks"} if getattr(mesh, "_preserve_rank_order", False) else {}),
    }


def _group(group: Any) -> Any:
    """The code calls a collective by the name of its group, which each job and row of a mesh may have otherwise.

    A name that is passed on to the code by torch (`groups_come_as_inputs`) is in no code.
    """
    found = named_group(group)
    return found.shared if groups_come_as_inputs() else found


def named_group(group: Any) -> GroupOf:
    return GroupOf(group.group_name, [_from_first(_ranks(group)), group.size()])


def _ranks(group: Any) -> list[int]:
    ranks: list[int] = sys.modules["torch.distributed"].get_process_group_ranks(group)
    return ranks


def _from_first(ranks: Sequence[int]) -> list[int]:
    return [rank - ranks[0] for rank in ranks]
