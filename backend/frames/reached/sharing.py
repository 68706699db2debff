"""Which values of a frame are one: torch guards that two are one at most, never that they are not."""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from ...torch_api.frames.plain import Refused
from ...torch_api.frames.sources import Source, is_dynamos, is_imported, is_of_frame, with_roots
from ..classes import is_heap_type, is_known
from ..held import short
from ..rules import Looking
from ..tensors import sharing_text

# Immutable: Dynamo looks at what they are, and at which they are only where code says `is`.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, tuple, frozenset, range, slice, types.CodeType)
_TORCH = (torch.dtype, torch.device, torch.layout, torch.memory_format)


def sharing_of(sources: Iterable[Source], look: Looking, lifted: Iterable[Source]) -> str:
    """Of inputs that are tensors, in the order of their names. lifted: those that graphs hold."""
    tensors = [*dict.fromkeys([*(source for source in sources if source in look.sizes), *lifted])]
    for source in tensors:
        if is_dynamos(source) and not is_imported(source):
            raise Refused(f"a tensor in {source.name}")
    return sharing_text([look.live(source) for source in sorted(tensors, key=lambda s: str(s.name))])


def one_text(sources: Sequence[Source], look: Looking, *, names: bool) -> str:
    """A digest of which of these, by number, are one object.

    names: texts and numbers as well, since code compares them by `is`.
    """
    groups: dict[int, list[str]] = {}
    for number, cell in enumerate(look.closure):
        groups.setdefault(id(cell), []).append(f"own cell {number}")
    cells: dict[int, list[tuple[str, types.CellType]]] = {}  # of an object's class, by its id
    counts: dict[int, bool] = {}  # by the id of a root
    numbers: dict[str, str] = {}  # by names, in which items of sets have other places in another process
    for source, root in with_roots(sources):
        if id(root) not in counts:
            counts[id(root)] = is_of_frame(root) and (not is_dynamos(root) or is_imported(root))
        if not source.name or not counts[id(root)]:
            continue
        value = look.live(source)
        if type(value) in _TORCH or (
            type(value) in _PLAIN and not (names and type(value) in (str, int, float, complex, bytes))
        ):
            continue
        place = numbers.setdefault(str(source.name), str(len(numbers)))
        groups.setdefault(id(value), []).append(place)
        for name, cell in _cells(place, value, cells):  # one that is known leaves no source
            groups.setdefault(id(cell), []).append(name)
    text = "\n".join(sorted(" ".join(sorted(set(group))) for group in groups.values() if len(set(group)) > 1))
    return short(text)


def _cells(
    name: str, value: Any, known: dict[int, list[tuple[str, types.CellType]]]
) -> list[tuple[str, types.CellType]]:
    """Of a function, or of the functions of an object's class. known: by the id of a class; it grows."""
    if isinstance(value, types.FunctionType):
        return [(f"{name} cell {number}", cell) for number, cell in enumerate(value.__closure__ or ())]
    cls = value if isinstance(value, type) else type(value)
    found = known.get(id(cls))
    if found is None:
        found = known[id(cls)] = [
            pair
            for base in cls.__mro__
            if is_heap_type(base) and not is_known(base.__module__)
            for member, held in vars(base).items()
            if isinstance(held, types.FunctionType)
            for pair in _cells(f"{base.__qualname__}.{member}", held, known)
        ]
    return found
