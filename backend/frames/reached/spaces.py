"""Globals that traced code reads: of which of the names that it asks for they have, and where they are found."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from warmgraph.hashing import comes_with_torch

from ...torch_api.frames import guards as dynamo
from ...torch_api.frames.hook import Frame
from ...torch_api.frames.plain import Plain, Refused, loaded, module_of_globals, named
from ...torch_api.frames.sources import Source, SourceTable, root_of
from ..codes import imported_names, reads_globals
from ..rules import Looking, space_text
from ..traced import find_code

# The name of a module, "" for the frame's own globals, or the number of the source of what has globals of its own.
Place = str | int


def spaces_of(
    frame: Frame,
    codes: Mapping[types.CodeType, Mapping[str, Any]],
    sources: Sequence[Source],
    look: Looking,
    table: SourceTable,
    looked_for: set[str],
) -> list[Plain]:
    """[place, digest] of each module whose globals or attributes traced code reads. codes: with their globals.

    Raises Refused.
    """
    found: set[Place] = {value.__name__ for source in sources if (value := _module(look, source)) is not None}
    found |= {name for name in imported_names(codes) if type(sys.modules.get(name)) is types.ModuleType}
    for code, space in codes.items():
        if space is frame.globals or is_of_named_tuple(space):
            continue
        if (module := module_of_globals(space)) is not None:
            found.add(module)
        elif (holder := holder_of(space, sources, look)) is not None:
            found.add(table.number(holder))
        elif reads_globals(code) and not comes_with_torch(code.co_filename):
            raise Refused(f"it traced through {code.co_name}, whose globals are no module's ({space.get('__name__')})")
    rows: list[Plain] = []
    for place in ("", *sorted(found, key=str)):
        rows.append([place, space_text(space_at(place, frame, table.sources, look), look.asked, looked_for)])
    return rows


def space_at(place: Place, frame: Frame, sources: Sequence[Source], look: Looking) -> Mapping[str, Any]:
    """Raises Refused where there is none in this process."""
    if isinstance(place, int):
        return globals_held(look.live(sources[place]))
    return vars(loaded(place)) if place else frame.globals


def is_of_named_tuple(space: Mapping[str, Any]) -> bool:
    """Whether these are the globals that `collections.namedtuple` gives to a `__new__`: of no module, and its own."""
    return str(space.get("__name__", "")).startswith("namedtuple_") and space.keys() <= _OF_NAMED_TUPLE


_OF_NAMED_TUPLE = {"__name__", "__builtins__", "_tuple_new"}


def scope_of(
    space: Mapping[str, Any],
    inlined: Mapping[types.CodeType, Any],
    sources: Iterable[Source],
    look: Looking,
    table: SourceTable,
) -> Plain:
    """[module, path] of a named tuple's `__new__` that has these globals, or of a view's method: Python's abstract
    classes call their module by another's name (and torch asks for it by that since 2.15); or the number of the source
    of what has them. Raises Refused.
    """
    if (holder := holder_of(space, sources, look)) is not None:
        return table.number(holder)
    is_known = is_of_named_tuple(space) or space is vars(sys.modules["_collections_abc"])
    for code, globals_of_code in inlined.items():
        if globals_of_code is space and is_known:
            module, path, _ = find_code(code, space, look.values)
            if globals_of(module, path) is space:
                return [module, path]
    raise Refused("it reads globals of no module, which no name leads to")


def holder_of(space: Mapping[str, Any], sources: Iterable[Source], look: Looking) -> Source | None:
    """The source of what has these globals, which are no module's: a function that `exec` made, a graph of torch.fx.
    Not one that begins with such globals: they are put there before it can be read.
    """
    others = (one for one in sources if one.name and not dynamo.is_globals(root_of(one)))
    return next((one for one in others if _held_by(look.live(one)) is space), None)


def globals_held(value: Any) -> dict[str, Any]:
    """Raises Refused for what has none."""
    if (found := _held_by(value)) is None:
        raise Refused(f"an object of {type(value).__qualname__} has no globals of its own")
    return found


def _held_by(value: Any) -> dict[str, Any] | None:
    if issubclass(type(value), torch.fx.GraphModule):  # each has a class of its own, with the code of its graph
        value = vars(type(value)).get("forward")
    return value.__globals__ if isinstance(value, types.FunctionType) else None


def globals_of(module: str, path: str) -> dict[str, Any]:
    """Of the function under this name. Raises Refused."""
    found = named(module, path)
    function = found.__func__ if isinstance(found, (staticmethod, classmethod)) else found
    if not isinstance(function, types.FunctionType):
        raise Refused(f"{module}.{path} is no function")
    return function.__globals__


def _module(look: Looking, source: Source) -> types.ModuleType | None:
    value = look.live(source) if source.name else None
    return value if isinstance(value, types.ModuleType) and sys.modules.get(value.__name__) is value else None
