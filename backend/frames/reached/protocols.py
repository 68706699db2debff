"""What protocols ask of objects (`typing.runtime_checkable`): whether they have something under its members' names.

Python answers `isinstance(x, P)` while a frame is traced, under no guard. It looks for names and not at what is there,
but for a None, by which a class says that it has no such method.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...torch_api.frames.plain import Refused
from ..classes import counted, is_known, name_of
from ..held import attributes_of
from .containers import Walking

_NO_MEMBERS: Any = getattr(typing, "EXCLUDED_ATTRIBUTES", ())
_BASES = (("abc", "ABC"), ("typing", "Protocol"), ("typing_extensions", "Protocol"))
_WAYS_TO_BASES = ("ABC", "Protocol", "__mro__", "mro", "__bases__", "__base__")
_ASKS_OBJECTS = sys.version_info < (3, 12)  # by `hasattr`; since then by `inspect.getattr_static`


def note_protocol(walk: Walking, cls: type) -> None:
    """Where it is one: it, or a protocol that it inherits from, is `runtime_checkable`."""
    if _is_of_protocols(cls) and getattr(cls, "_is_runtime_protocol", False):
        walk.protocols.append(cls)


def others_that_count(cls: type, names: set[str]) -> str:
    """Classes that count as this abstract one. names: that code asks for.

    Of a base of all protocols, or of all abstract classes, nobody asks whether an object is one; and what Python would
    look at to answer is all that was imported so far, in each process others.
    """
    is_base = (cls.__module__, cls.__qualname__) in _BASES
    if is_base and (names.isdisjoint(_WAYS_TO_BASES) or (cls is typing.Protocol and not _ASKS_OBJECTS)):
        return ""  # Python answers for the last without a look at them
    return counted(cls)


def lines_of_protocols(protocols: Iterable[type], values: Iterable[Any]) -> Iterator[str]:
    """Which of the values, and of their classes, have what. Raises Refused where code of the program's would say it."""
    members = [(name_of(cls), sorted(_members(cls))) for cls in protocols]
    yield repr(members)
    names = sorted({name for _, found in members for name in found})
    kinds: set[int] = set()
    for number, value in enumerate(values):
        kind: Any = type(value)
        if id(kind) not in kinds:
            kinds.add(id(kind))
            if _ASKS_OBJECTS and any(_finds_itself(base) for base in kind.__mro__):
                raise Refused(f"a protocol asks {name_of(kind)}, which finds attributes by code of its own")
            yield f"{name_of(kind)} {_found(names, map(_names_of_class, kind.__mro__))}"
        spaces = map(_names_of_class, value.__mro__) if isinstance(value, type) else [attributes_of(value)]
        if found := _found(names, spaces):
            yield f"{number} {found}"


def _found(names: Iterable[str], spaces: Iterable[Mapping[str, Any]]) -> list[str]:
    held, found = list(spaces), []
    for name in names:
        space = next((one for one in held if name in one), None)
        if space is not None:
            found.append(f"{name} is None" if space[name] is None else name)
    return found


def _names_of_class(base: type) -> Mapping[str, Any]:
    """With what a protocol only annotates: that counts as there in who inherits it."""
    return dict.fromkeys(_annotated(base), "") | vars(base) if _is_of_protocols(base) else vars(base)


def _is_of_protocols(base: type) -> bool:
    return bool(vars(base).get("_is_protocol", False))


def _members(cls: type) -> set[str]:
    names = {name for base in cls.__mro__ if _is_of_protocols(base) for name in (*_annotated(base), *vars(base))}
    told = vars(cls).get("__protocol_attrs__")  # since Python 3.12, and with `typing_extensions`
    return set(told) if told is not None else {one for one in names if one not in _NO_MEMBERS and one[:5] != "_abc_"}


def _annotated(base: type) -> Iterable[str]:
    names: Iterable[str] = vars(base).get("__protocol_attrs__", vars(base).get("__annotations__", ()))
    return names


def _finds_itself(base: type) -> bool:
    found = {"__getattr__", "__getattribute__"} & vars(base).keys()
    return bool(found) and not is_known(base.__module__) and isinstance(vars(base)[min(found)], types.FunctionType)
