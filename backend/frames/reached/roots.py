"""Where the walk begins, and what it leaves open: numbers that may vary under the guards of a record."""

from __future__ import annotations

import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from ...torch_api.frames import guards as dynamo
from ...torch_api.frames.acting import left_by_dynamo
from ...torch_api.frames.hook import Frame
from ...torch_api.frames.sources import GlobalSource, LocalSource, Source, place_in_base
from ..codes import asked_names, users_code
from ..rules import Looking
from .spaces import space_at
from .walk import Free, Walk

LOCALS = 0  # in the place of an id
_ENUMERATING = frozenset("__dict__ vars dir __slots__ getmembers".split())
_PINS = ("EQUALS_MATCH", "CONSTANT_MATCH", "ID_MATCH")


def reach(
    frame: Frame,
    look: Looking,
    sources: Sequence[Source],
    spaces: Iterable[Any],
    free: Iterable[Source],
    *,
    names: bool,
    everything: bool,
) -> tuple[Walk, bytes]:
    """What there is now, and its digests. The arguments are those of a record. Raises Refused."""
    places = [place for place, _ in spaces if place != ""]
    held = [space_at(place, frame, sources, look) for place in places if isinstance(place, int)]
    sources = [source for source in sources if source.name]
    sourced = [look.live(source) for source in sources]
    walk = Walk(look.asked, _holders(free, look, frame), names=names, everything=everything, sourced=sourced)
    read = {source.local_name for source in sources if isinstance(source, LocalSource)}
    modules = [place for place in places if isinstance(place, str)]
    return walk, walk.digests(_roots(frame, read, modules, held, look.asked))


def _roots(
    frame: Frame,
    read: Collection[str],
    modules: Iterable[str],
    held: Iterable[Mapping[str, Any]],
    asked: Iterable[str],
) -> Iterator[tuple[int, str, Any]]:
    """(id of the holder, key, value) of what a frame begins with. read: locals that the trace looked at; of others the
    type. modules: whose globals traced code reads. held: globals of no module's.
    """
    yield from ((LOCALS, cls.__name__, cls) for cls in (torch.Tensor, torch.nn.Parameter, torch.nn.Module))
    for name, value in sorted(frame.locals.items()):
        yield (LOCALS, name, value) if name in read else (LOCALS, name, type(value))
    yield from ((LOCALS, f"cell {number}", cell) for number, cell in enumerate(frame.closure or ()))
    left = left_by_dynamo(frame.globals)
    for space in (frame.globals, *held):
        yield from ((id(space), name, space[name]) for name in sorted(asked) if name in space and name not in left)
    yield from ((LOCALS, name, sys.modules[name]) for name in sorted({*modules, "builtins"}))


def free_numbers(sources: Iterable[Source], guards: Iterable[Any], look: Looking) -> list[Source]:
    """Of numbers that no guard pins to a value: they may vary, or were not looked at."""
    pinned = {dynamo.source_of(guard) for guard in guards if dynamo.kind_of(guard) in _PINS}
    found = (one for one in sources if one.name and one not in pinned and place_in_base(one) is not None)
    return [one for one in found if type(look.live(one)) in (int, float)]


def _holders(free: Iterable[Source], look: Looking, frame: Frame) -> Free:
    """Where these numbers are found: what holds each of them, and under which key."""
    found: Free = set()
    for source in free:
        base, key = place_in_base(source) or (None, None)
        if base is not None:
            found.add((id(look.live(base)), key))
        else:
            found.add((id(frame.globals) if isinstance(source, GlobalSource) else LOCALS, key))
    return found


def everything_is_asked(codes: Mapping[types.CodeType, Mapping[str, Any]]) -> bool:
    """Whether code of the user's goes over the names of objects. codes: with their globals."""
    return bool(asked_names(users_code(codes)) & _ENUMERATING)
