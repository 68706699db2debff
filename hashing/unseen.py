"""What a function may use that no walk of its code can follow: the environment, files, operators. Walks nothing."""

from __future__ import annotations

import builtins
import types
from typing import Any

import torch

from .encode import Uncacheable
from .reach import Reach
from .values import place_of

# What a function can look up without a name that could be followed.
_OUTSIDE = frozenset("eval exec globals __import__".split())
_ENVIRONMENT = frozenset("environ environb getenv import_module".split())
# The same, asked of `cache_hash` alone: a class that is described whole may well have a method that opens a file.
_FILES = frozenset("open input vars locals".split())


def refuse_unseen(function: types.FunctionType, reach: Reach, *, strict: bool) -> None:
    """Raise Uncacheable, naming the place, if `function` may depend on what no name in it leads to."""
    space = function.__globals__
    outside = sorted((reach.loads & _OUTSIDE) - space.keys()) + sorted(reach.names & _ENVIRONMENT)
    if "sys" in reach.loads and "modules" in reach.names:
        outside.append("sys.modules")
    if strict:
        outside += sorted((reach.loads & _FILES) - space.keys())
    if outside:
        raise Uncacheable(f"{place_of(function)} uses {outside[0]}, so what it does depends on more than its code")
    if not strict:
        return
    if reach.stores:
        stored = min(reach.stores)
        raise Uncacheable(f"{place_of(function)} changes {stored}, so what it does depends on earlier calls")
    unknown = sorted(reach.loads - space.keys() - vars(builtins).keys())
    if unknown:
        raise Uncacheable(
            f"{place_of(function)} refers to {unknown[0]}, which is not defined (yet): ask when everything is"
        )


def operators_of(function: types.FunctionType, reach: Reach) -> set[str]:
    """Namespaces of `torch.ops` that `function` may use. A user's own module may be called `ops` as well."""
    found = set()
    for path, namespace in reach.operators:
        if not _is_users(_resolved(function, path)):
            found.add(namespace)
    if "ops" in reach.names:  # kept in a variable, say
        spaces = {name for name, space in vars(torch.ops).items() if isinstance(space, types.ModuleType)}
        found |= (reach.names - reach.loads | (reach.words if reach.asks else frozenset())) & spaces
    return found


def _is_users(owner: Any) -> bool:
    return owner is not None and owner is not torch.ops


def _resolved(function: types.FunctionType, path: tuple[str, ...]) -> Any:
    """What a path of names leads to in a function's closure or globals, or None."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cell = cells.get(path[0])
    found = function.__globals__.get(path[0])
    if cell is not None:
        found = next(iter(cell_content(cell)), None)
    for name in path[1:]:
        found = getattr(found, name, None) if isinstance(found, types.ModuleType) else None
    return found


def cell_content(cell: types.CellType) -> list[Any]:
    """What a closure's cell holds; nothing if it is not bound yet."""
    try:
        return [cell.cell_contents]
    except ValueError:
        return []
