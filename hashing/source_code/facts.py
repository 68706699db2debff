"""Facts of this process that code outside torch may have read while a graph was traced. In a key only where it could.

A rank that slices by its number in a backward compiles other code than the next rank; all other graphs of the two are
one. So these stand in no part of every key, but in the description of the code that reaches them (`purity.py`).
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from .. import torch_names
from ..origin import foreign, named_by_torch


def fact(name: str) -> dict[str, Any]:
    """Plain values of one of `_FACTS`."""
    return _FACTS[name]()


def in_words(name: str, found: dict[str, Any]) -> str:
    """One fact for a message and for the text of a key: what differs most often, briefly."""
    if name == "distributed" and "rank" in found:
        return f"distributed (rank {found['rank']} of {found['world_size']})"
    if name == "world" and "world_size" in found:
        return f"world (of {found['world_size']})"
    return name


def _initialized() -> dict[str, Any]:
    distributed: Any = sys.modules.get("torch.distributed")
    ready = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return {"initialized": bool(ready)}


def _world() -> dict[str, Any]:
    """Sizes alone: ranks that ask for nothing else share what they compile."""
    found = _distributed()
    sizes = [[name, len(ranks)] for name, _, ranks, _ in found.get("groups", [])]
    return {**_initialized(), "world_size": found["world_size"], "groups": sizes} if sizes else _initialized()


def _distributed() -> dict[str, Any]:
    distributed: Any = sys.modules.get("torch.distributed")
    local = {name: os.environ.get(name) for name in ("LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")}
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return {"initialized": False, "environment": local}
    core: Any = sys.modules["torch.distributed.distributed_c10d"]
    groups = [
        [
            str(name),
            [str(group.group_desc), distributed.get_backend(group), core._world.pg_to_tag.get(group)],
            distributed.get_process_group_ranks(group),
            distributed.get_rank(group),
        ]
        for group, name in core._world.pg_names.items()
        if not isinstance(group, int)
    ]
    return {
        "initialized": True,
        "environment": local,
        "rank": distributed.get_rank(),
        "world_size": distributed.get_world_size(),
        "backend": distributed.get_backend(),
        "groups": sorted(groups, key=str),
    }


def _accelerator() -> dict[str, Any]:
    if not torch.cuda.is_available():
        return {"cuda": False, "devices": torch.accelerator.device_count() if torch.accelerator.is_available() else 0}
    return {
        "cuda": True,
        "devices": torch.cuda.device_count(),
        "current": torch.cuda.current_device(),
        "name": torch.cuda.get_device_name(),
        "capability": list(torch.cuda.get_device_capability()),
        "memory": torch.cuda.get_device_properties(torch.cuda.current_device()).total_memory,
    }


def _threads() -> dict[str, Any]:
    return {"intra": torch.get_num_threads(), "inter": torch.get_num_interop_threads()}


def _autocast() -> dict[str, Any]:
    """Dtypes of autocast where it is off, too; every key has them where it is on."""
    found = {}
    for device in ("cpu", "cuda", "xpu", "mps"):
        try:
            found[device] = str(torch.get_autocast_dtype(device))
        except RuntimeError:  # this build of torch has no autocast for the device
            continue
    return found


def in_trees(kind: type) -> list[Any]:
    """What torch's trees call to take a class apart and to put it together; empty for one that they do not know."""
    pytree: Any = sys.modules.get(torch_names.PYTREE)
    node = pytree.SUPPORTED_NODES.get(kind) if pytree is not None else None
    return [] if node is None else [node.flatten_fn, node.unflatten_fn]


def in_trees_by_users(function: str) -> dict[str, Any]:
    """Class -> the same, of what users registered and this function of torch's trees may meet unseen.

    That is classes of torch and Python. A user's own class is described where code leads to it, and no other code can
    put one into a tree, unless it has its name alone.
    """
    table = sys.modules[torch_names.PYTREE].SUPPORTED_NODES
    everyones = function == torch_names.TREES_BY_NAME
    found: dict[str, Any] = {}
    for kind in table:
        if (everyones or named_by_torch(kind)) and foreign(functions := in_trees(kind)) is not None:
            found[f"{kind.__module__}.{kind.__qualname__}"] = functions
    return dict(sorted(found.items()))


_FACTS = {
    "autocast": _autocast,
    "initialized": _initialized,
    "world": _world,
    "distributed": _distributed,
    "accelerator": _accelerator,
    "threads": _threads,
}
