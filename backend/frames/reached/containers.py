"""Containers in the walk: what they hold, in an order that is the same in every process. Asks Python's own classes, and
runs no code of the user's.
"""

from __future__ import annotations

import collections
import enum
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from warmgraph.hashing import module_of_class

from ..classes import is_known, name_of
from ..held import NATIVE_CONSTANTS, copied_classes, is_mark
from ..program import is_installed
from ..rules import COMPARED

# By id, here and below: a metaclass may say that two classes are equal.
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented), *NATIVE_CONSTANTS)
PLAIN = frozenset(map(id, _PLAIN))
TABLES = frozenset(map(id, (dict, collections.OrderedDict)))


class Walking(Protocol):
    asked: set[str]
    everything: bool
    hooks: dict[int, dict[int, int]]
    kinds: dict[int, Any]
    protocols: list[type]
    left_out: Callable[[Any], list[str]]

    def ref(self, value: Any, label: str) -> str: ...

    def item(self, holder: int, key: Any, value: Any) -> str: ...

    def named(self, holder: Any, held: Mapping[Any, Any], always: Any = ()) -> Iterator[str]: ...

    def has_source(self, value: Any) -> bool: ...

    def storage(self, identity: int) -> int: ...


Lines = Callable[[Walking, Any], Iterator[str]]


def attributes_are_of_program(holder: Any) -> bool:
    """Whether a file of the user's own has the class of `holder` (or `holder`, a class), not an installed package."""
    if isinstance(holder, types.ModuleType):
        return False
    file = getattr(
        sys.modules.get(module_of_class(holder if isinstance(holder, type) else type(holder))), "__file__", None
    )
    return not (isinstance(file, str) and is_installed(file))


def sequence(walk: Walking, value: Any) -> Iterator[str]:
    for number, one in enumerate(_items(value)):
        yield walk.item(id(value), number, one)
    if issubclass(type(value), collections.deque):
        yield str(value.maxlen)


def memory(walk: Walking, value: Any) -> Iterator[str]:
    yield f"{getattr(value, 'typecode', '')} {walk.ref(bytes(memoryview(value)), 'content')}"


def table(walk: Walking, value: Any) -> Iterator[str]:
    """One of a class of the user's may load what it holds when it is asked."""
    if (classes := copied_classes(value)) is not None:
        yield from (f"{name}={walk.ref(how, name)}" for name, how in sorted(classes.items()))
        return
    if type(value) is not dict and issubclass(type(value), collections.OrderedDict):
        items = [(key, dict.__getitem__(value, key)) for key in collections.OrderedDict.__iter__(value)]
    else:
        items = list(dict.items(value))
    if issubclass(type(value), collections.defaultdict):
        yield walk.ref(value.default_factory, "default_factory")
    # What a trace reads of a table that it knows by a source has guards; of a package's own kind of table (a config)
    # what code asks for. Both may note data of one run beside that: its name, its folder.
    plain = type(value) in (dict, collections.OrderedDict, collections.defaultdict)
    whole = (plain or attributes_are_of_program(value)) and not walk.has_source(value)
    numbers = walk.hooks.get(id(value))
    if numbers is not None:
        items = [(numbers.get(key, key), held) for key, held in items]
    for key, held in items:
        is_data = id(type(held)) in PLAIN or type(held) in (dict, list, tuple, set)
        if type(key) is str and is_data and not whole and key not in walk.asked:
            yield repr(key)
        elif numbers is not None or not (type(key) is str and is_mark(key)):
            yield f"{walk.ref(key, 'key')}={walk.item(id(value), key, held)}"


def hooks_of(module: Any) -> dict[int, dict[int, int]]:
    """Its tables of hooks, by id, with a number for each hook that is in one of them. Their keys are of a counter of
    this process.
    """
    attributes = object.__getattribute__(module, "__dict__").items()
    tables = [held for name, held in attributes if id(type(held)) in TABLES and held and "_hooks" in name]
    keys = {key for table in tables for key in dict.keys(table) if type(key) is int}
    numbers = {key: number for number, key in enumerate(sorted(keys))}
    return {id(table): numbers for table in tables}


def view(walk: Walking, value: Any) -> Iterator[str]:
    for key, held in list(value.items()):
        yield f"{walk.ref(key, 'key')}={walk.item(id(value), key, held)}"


def unordered(walk: Walking, value: Any) -> Iterator[str]:
    """Texts, classes and functions are in another order in each process; of what has no name, how many there are."""
    items = _items(value)
    if not {*map(type, items)} <= {bool, int, float, complex}:
        places = [*map(_place, items)]
        if None in places or len({*places}) < len(places):
            yield f"{sorted(name_of(type(one)) for one in items)}"
            return
        items = [one for _, one in sorted(zip(places, items, strict=True), key=lambda pair: str(pair[0]))]
    for one in items:
        yield walk.ref(one, "item")


def _items(value: Any) -> list[Any]:
    base: Any = next(one for one in type(value).__mro__ if module_of_class(one) in ("builtins", "collections"))
    return list(base.__iter__(value))


def _place(value: Any) -> str | None:
    kind = type(value)
    if isinstance(value, (type, types.FunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    if issubclass(kind, enum.Enum):
        return f"{name_of(kind)} {value._name_}"
    if kind is tuple:
        places = [*map(_place, value)]
        return None if None in places else str(places)
    return f"{kind.__name__} {value!r}" if id(kind) in PLAIN or issubclass(kind, COMPARED) else None


def own_text(walk: Walking, value: Any) -> Iterator[str]:
    """As the library's own class says it."""
    base: Any = next(one for one in type(value).__mro__ if is_known(module_of_class(one)))
    yield base.__repr__(value)
