"""All data that a frame can reach, as a digest per object: what there is, what it holds, and which of it is one.

A trace is a function of code and of the data that code can reach. Fingerprints beside guards speak of what Dynamo is
known to read; this speaks of the rest. It walks from the frame's own values and from the globals that its code asks
for, and follows the names that any traced code asks for; containers it follows whole. What torch and Python bring
counts by name, with what somebody put on it.
"""

from __future__ import annotations

import enum
import hashlib
import itertools
import operator
import sys
import types
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from warmgraph.hashing import is_native_enum

from ...torch_api.frames.acting import leaving_out
from ...torch_api.frames.plain import Refused
from ...torch_api.frames.state import is_namespace_of_operators, marks_of
from ..classes import name_of
from ..held import DESCRIPTORS, OPERATORS, exact, is_mark, member_text, short
from ..values import COMPOSABLE
from .containers import PLAIN, TABLES, attributes_are_of_program
from .objects import (
    ALWAYS_NUMBERED,
    BOOKKEEPING,
    comes_by_name,
    has_known_globals,
    lines_of,
    space_of,
)
from .protocols import lines_of_protocols, note_protocol, others_that_count

Free = set[tuple[int, Any]]
_MOST = 20_000_000  # characters of text: some 200,000 objects, half a second
_AT_ONCE = 1_000  # lines
_LONG = 1_000  # characters of a text
_WIDTH = 4  # bytes of a digest
_IDENTITY = (operator.is_, operator.is_not)
_CHECKS = (isinstance, issubclass)
# Of `sys`: another in each process, or where it runs.
_OF_PROCESS = frozenset(
    """
    argv orig_argv path path_hooks path_importer_cache meta_path modules stdin stdout stderr executable _base_executable
    prefix exec_prefix base_prefix base_exec_prefix pycache_prefix warnoptions _xoptions last_type last_value last_exc
    last_traceback ps1 ps2 flags
    """.split()
)


_OF_NAMESPACE = ("name", "_dir")  # of `torch.ops.<name>`, which torch makes when it is asked for: its name says them
_NUMBERS, _TEXTS, _SINGLE = (int, float), (str, bytes), (bool, type(None))


class Walk:
    """asked: names that traced code asks for. free: (id of the holder, key) of numbers that may vary under the record's
    guards. names: whether code asks which text or number is which. everything: whether it goes over names of objects.
    sourced: what the trace knows by a source.
    """

    def __init__(
        self, asked: set[str], free: Free, *, names: bool, everything: bool, sourced: Sequence[Any] = ()
    ) -> None:
        self.asked, self.everything, self._sourced = asked, everything, sourced
        self._tables = {id(value) for value in sourced if id(type(value)) in TABLES}
        self._free, self._names = free, names
        self.hooks: dict[int, dict[int, int]] = {}
        self.protocols: list[type] = []
        self._asks_classes = not asked.isdisjoint(("isinstance", "issubclass"))
        self.left_out = leaving_out()
        self.kinds: dict[int, Any] = {}  # what `objects` found of a class, by its id
        self._labels: dict[Any, dict[str, str | None]] = {}  # as what a name is said; None: it does not count
        self._programs: dict[int, bool] = {}  # by the id of a class
        self._numbered = set(ALWAYS_NUMBERED)  # ids of classes whose objects never come by name
        self._numbers: dict[int, int] = {}
        self._objects: list[Any] = []  # by number; alive, so that no id is used twice
        self._from: list[tuple[int, str]] = []
        self._storages: dict[int, int] = {}
        self._added: dict[int, str] = {}  # by the id of what lives on
        self._said: dict[int, tuple[Any, str | None]] = {}  # of what comes by name, by id; alive
        self._at, self._left = -1, _MOST

    def digests(self, roots: Iterable[tuple[int, str, Any]]) -> bytes:
        """roots: (id of the holder, key, value). Four bytes for each object, as they are reached, and
        four for what protocols ask of them.

        Raises Refused.
        """
        found = [self._digest(f"{key}={self.item(holder, key, value)}" for holder, key, value in roots)]
        empty: dict[Any, bytes] = {}  # a third of a model: a module has eight tables of hooks
        while len(found) <= len(self._objects):
            self._at = len(found) - 1
            value = self._objects[self._at]
            kind = type(value)
            if id(kind) in TABLES and not value:
                found.append(empty.get(kind) or empty.setdefault(kind, self._digest(lines_of(self, value))))
            else:
                found.append(self._digest(lines_of(self, value)))
        if self.protocols and self._asks_classes:
            values = [*self._objects, *(value for value, _ in self._said.values()), *self._sourced]
            found.append(self._digest(lines_of_protocols(self.protocols, values)))
        return b"".join(found)

    def _digest(self, lines: Iterable[str]) -> bytes:
        digest, lines = hashlib.sha256(), iter(lines)
        while some := list(itertools.islice(lines, _AT_ONCE)):
            text = "\n".join((*some, ""))
            self._left -= len(text) + 50 * len(some)
            if self._left < 0:
                raise Refused("it can reach more data than can be looked at")
            digest.update(text.encode("utf-8", "surrogatepass"))
        return digest.digest()[:_WIDTH]

    def first_that_differs(self, was: bytes, now: bytes) -> str:
        """By what way the first object is reached that is another one."""
        places = range(0, len(now), _WIDTH)
        number = next((at for at in places if was[at : at + _WIDTH] != now[at : at + _WIDTH]), len(now)) // _WIDTH - 1
        if self.protocols and self._asks_classes and number == len(self._from):
            return "what a protocol asks of objects"
        if not 0 <= number < len(self._from):
            return "a value of the frame, or a global that it asks for"
        labels = []
        while number >= 0:
            number, label = self._from[number]
            labels.append(label)
        return ".".join(reversed(labels))

    def item(self, holder: int, key: Any, value: Any) -> str:
        """A value under a key of what has the id `holder`."""
        kind = type(key)
        if kind is not str and id(kind) not in PLAIN:
            return self.ref(value, kind.__name__)
        if type(value) in _NUMBERS and (holder, key) in self._free:
            return type(value).__name__
        return self.ref(value, key if kind is str else str(key))

    def ref(self, value: Any, label: str) -> str:
        """A value, as its holder says it: plain data by value, what comes by name by name, an object by its number."""
        kind: Any = type(value)
        of_kind = id(kind)
        if of_kind in PLAIN:
            text = f"{kind.__name__}:{exact(value)}" if kind not in _TEXTS or len(value) < _LONG else _shortened(value)
            by_identity = (self._names and kind not in _SINGLE) or value != value
            return f"{text}#{self._number(value, label)}" if by_identity else text
        name = self._by_name(value, kind) if of_kind not in self._numbered else None
        return name if name is not None else f"#{self._number(value, label)}"

    def named(self, holder: Any, held: Mapping[Any, Any], always: Collection[str] = ()) -> Iterator[str]:
        """Under names that code asks for; all of them where code goes over names.

        always: names that count in any case.
        """
        everything, at = self.everything and self._is_programs(holder), id(holder)
        known = self._labels.setdefault((everything, frozenset(always)), {})
        for key, value in list(held.items()):
            if type(key) is not str:
                continue
            if key not in known:
                # Dynamo asks tensors for flags under such names (`_is_param`).
                counts = everything or key in self.asked or key in always or key.startswith("_is_")
                counts = counts and not _never_counts(key)
                known[key] = None if not counts else COMPOSABLE if key.startswith(COMPOSABLE) else key
            if (label := known[key]) is not None:
                yield f"{label}={self.item(at, key, value)}"

    def _is_programs(self, holder: Any) -> bool:
        kind = holder if isinstance(holder, type) else type(holder)
        found = self._programs.get(id(kind))
        if found is None:
            found = self._programs[id(kind)] = attributes_are_of_program(holder)
        return found

    def says(self, holder: Any, key: str) -> bool:
        """Whether what an object that it came by has under an asked name is said."""
        return id(holder) in self._numbers and not _never_counts(key)

    def has_source(self, value: Any) -> bool:
        return id(value) in self._tables

    def place(self, value: Any) -> int | None:
        """The number of an object that it came by."""
        return self._numbers.get(id(value))

    def storage(self, identity: int) -> int:
        """A number for each storage of tensors."""
        return self._storages.setdefault(identity, len(self._storages))

    def _number(self, value: Any, label: str) -> int:
        at = len(self._objects)
        found = self._numbers.setdefault(id(value), at)
        if found == at:
            self._objects.append(value)
            self._from.append((self._at, label))
        return found

    def _by_name(self, value: Any, kind: Any) -> str | None:
        if kind is types.BuiltinFunctionType and (value.__self__ is None or type(value.__self__) is types.ModuleType):
            if value in _IDENTITY and not self._names:
                raise Refused(f"it holds operator.{value.__name__}, by which code may ask which text is which")
            self._asks_classes |= value in _CHECKS  # under another name
            return f"{value.__module__}.{value.__qualname__}"
        if kind in DESCRIPTORS:
            return f"{name_of(value.__objclass__)}.{value.__name__}"
        if not issubclass(kind, enum.Enum) and is_native_enum(value):
            return f"{name_of(kind)} {member_text(value)}"
        if issubclass(kind, OPERATORS):
            return f"{value} {self._on(value)}"
        if kind is not types.FunctionType and not issubclass(kind, (type, types.ModuleType)):
            if kind is not types.BuiltinFunctionType:  # of which some come by name
                self._numbered.add(id(kind))
            return None
        found = self._said.get(id(value))
        if found is None:
            found = self._said[id(value)] = (value, self._name(value) if comes_by_name(value) else None)
        return found[1]

    def _name(self, value: Any) -> str:
        """Of a function, a class or a module."""
        if type(value) is types.FunctionType:
            return f"{value.__module__}.{value.__qualname__} {marks_of(value)} {self._on(value)}"
        if isinstance(value, type):
            note_protocol(self, value)
            made_by = self._on(type(value)) if type(value) is not type else ""
            return f"{name_of(value)} {others_that_count(value, self.asked)} {self._on(value)}{made_by}"
        return f"{space_of(value).get('__name__')} {self._on(value)}"

    def _on(self, holder: Any) -> str:
        """A digest of what somebody put on a class, a function, a module or an operator of torch's or Python's."""
        found = self._added.get(id(holder))
        if found is None:
            self._added[id(holder)] = ""  # it may hold itself
            lines = list(self._lines_on(holder))
            if isinstance(holder, type):
                lines += [f"{base.__name__} {more}" for base in holder.__mro__[1:] if (more := self._on(base))]
            found = self._added[id(holder)] = short("\n".join(lines)) if lines else ""
        return found

    def _lines_on(self, holder: Any) -> Iterator[str]:
        space = space_of(holder)
        own = _OF_PROCESS if holder is sys else _OF_NAMESPACE if is_namespace_of_operators(holder) else ()
        for key in sorted(self.asked & space.keys()):
            held = space[key]
            if key.startswith("__") or key in own:
                continue
            if not comes_by_name(held) or (isinstance(holder, OPERATORS) and str(held) != f"{holder}.{key}"):
                yield f"{key}={self.ref(held, key)}"
            elif isinstance(held, (types.FunctionType, types.ModuleType, type, *OPERATORS)):
                if isinstance(held, type):
                    note_protocol(self, held)
                more = self._on(held)
                if more or (getattr(held, "__name__", key) != key and isinstance(held, types.FunctionType)):
                    yield f"{key} {getattr(held, '__qualname__', '')} {more}"
        if isinstance(holder, type):  # Python calls these by themselves
            for key, held in list(space.items()):
                function = held.__func__ if isinstance(held, (classmethod, staticmethod)) else held
                if type(function) is types.FunctionType and key.startswith("__") and not has_known_globals(function):
                    yield f"{key}={self.ref(held, key)}"


def _never_counts(key: str) -> bool:
    return is_mark(key) or key in BOOKKEEPING or key.startswith("_dynamo")


def _shortened(value: str | bytes) -> str:
    content = value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
    return f"{type(value).__name__}:{len(value)} {hashlib.sha256(content).hexdigest()}"
