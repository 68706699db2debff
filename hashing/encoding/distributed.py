"""Device meshes, process groups and placements, as plain values that an encoder knows. Imports nothing distributed.

AOTAutograd asks a mesh for its groups' names, its shape and this rank's coordinate while it traces, and bakes the
answers into the code. torch's own key knows of a mesh at most its layout, its device type and its axes' names.
"""

from __future__ import annotations

import sys
from typing import Any

from .. import torch_names

_PLACEMENTS = "torch.distributed.tensor.placement_types"


def stands_for(value: Any) -> Any | None:
    """A plain value that says all of `value` that reaches code, or None for what this file does not know."""
    kind = type(value)
    module = kind.__module__
    if not module.startswith(torch_names.DISTRIBUTED):
        return None
    if isinstance(value, tuple) and hasattr(value, "_fields"):  # DTensor's metadata: TensorMeta, ShardOrderEntry
        return dict(zip(value._fields, value, strict=True))
    if module == _PLACEMENTS:
        return _placement(value)
    if kind.__name__ == "DeviceMesh":
        return _mesh(value)
    if kind.__name__ == "ProcessGroup":
        return _group(value)
    return None


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
    return {
        "device_type": mesh.device_type,
        "ranks": mesh.mesh.tolist(),
        "shape": list(mesh.shape),
        "dim_names": mesh.mesh_dim_names,
        "rank": mesh.get_rank(),
        "coordinate": mesh.get_coordinate(),
        # The code calls a collective by the name of its group: another job may have given it to other ranks.
        "groups": [_group(group) for group in mesh.get_all_groups()],
        "flattened": {name: _mesh(inner, of_root=False) for name, inner in mesh._flatten_mapping.items()},
        "root": _mesh(root, of_root=False) if of_root and root is not mesh else None,
    }


def _group(group: Any) -> Any:
    ranks = sys.modules["torch.distributed"].get_process_group_ranks(group)
    return [group.group_name, ranks, group.rank(), group.size(), group._get_backend_name()]
