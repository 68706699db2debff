"""Classes by name and by all that stands on them and their bases. Not their instances."""

from __future__ import annotations

import abc
import dataclasses
import enum
import sys
from collections.abc import Iterator
from typing import Any, Protocol

from warmgraph.hashing import sha256_hex

from ..torch_api.frames.plain import Refused

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time
_LIBRARY = frozenset(sys.stdlib_module_names) | {"builtins"}
# What Python and torch keep on classes for themselves, or what has no behaviour.
_BOOKKEEPING = frozenset(
    """
    __doc__ __dict__ __weakref__ __module__ __qualname__ __annotations__ __orig_bases__ __parameters__
    __dataclass_fields__ __dataclass_params__ __abstractmethods__ __signature__ _abc_impl _backward_cls
    __static_attributes__ __firstlineno__ _is_protocol __match_args__ __non_callable_proto_members__
    __slotnames__ __annotate__ __annotate_func__ __annotations_cache__
    """.split()
)


class Members(Protocol):
    def member(self, value: Any) -> str: ...

    def plain_attributes(self, value: Any) -> list[str]: ...


class Classes:
    """Said once per class. Compiled classes go by name, the standard library's by their names: the toolchain says the
    rest.

    What a class holds names other classes, which are said beside it and not within it, however many lead to others: so
    what is said does not depend on which came first.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._texts: dict[type, str] = {}
        self._own: dict[type, str] = {}
        self._mentioned: dict[type, list[type]] = {}  # by each class that was said, those that it holds
        self._whole: dict[type, tuple[str, list[type]]] = {}  # with its bases
        self._saying: list[type] = []

    def text(self, cls: type) -> str:
        """`module.name#digest`. Raises Refused for a method of which nothing can be said."""
        found = self._texts.get(cls)
        if found is None:
            reached: dict[type, str] = {}
            self._reach(cls, reached)
            mine, *others = reached.values()
            text = "\n".join((mine, *sorted(others)))
            found = self._texts[cls] = f"{_name(cls)}#{sha256_hex(text.encode())[:12]}"
        return found

    def mention(self, cls: type) -> str:
        """A class that something holds: by name where that stands on a class, and said beside it."""
        if _goes_by_name(cls):
            return _name(cls)
        if not self._saying:
            return self.text(cls)
        self._mentioned[self._saying[-1]].append(cls)
        return _name(cls)

    def _reach(self, cls: type, reached: dict[type, str]) -> None:
        waiting = [cls]
        while waiting:
            one = waiting.pop()
            if one not in reached:
                reached[one], further = self._with_bases(one)
                waiting += further

    def _with_bases(self, cls: type) -> tuple[str, list[type]]:
        found = self._whole.get(cls)
        if found is None:
            metaclass: Any = type(cls)
            bases = [*cls.__mro__, *(metaclass.__mro__ if metaclass is not type else ())]
            lines = [self._one(base) for base in bases]
            text = f"{_name(cls)} {sha256_hex(chr(10).join(lines).encode())}"
            found = self._whole[cls] = (text, [one for base in bases for one in self._mentioned.get(base, ())])
        return found

    def _one(self, cls: type) -> str:
        found = self._own.get(cls)
        if found is None:
            found = _name(cls)
            if is_heap_type(cls):
                self._mentioned[cls] = []
                self._saying.append(cls)
                try:
                    lines = list(self._lines(cls))
                finally:
                    self._saying.pop()
                found = sha256_hex("\n".join((found, *lines)).encode("utf-8", "surrogatepass"))
            self._own[cls] = found
        return found

    def _lines(self, cls: type) -> Iterator[str]:
        held = vars(cls)
        names = [name for name in sorted(held) if name not in _BOOKKEEPING]
        if is_library(cls.__module__):
            yield from names
            return
        members = _members_of(cls)
        for name in names:
            if name in members or name in _OF_ENUMS:
                continue
            yield f"{name}={self._members.member(held[name])}"
        for name, member in members.items():
            yield f"{name}={self._members.member(member.value)} {self._members.plain_attributes(member)}"
        for field in vars(cls).get("__dataclass_fields__", {}).values():
            yield self._field(field)
        yield from _registered(cls)

    def _field(self, field: dataclasses.Field[Any]) -> str:
        default, factory = self._members.member(field.default), self._members.member(field.default_factory)
        flags = (field.init, field.repr, field.hash, field.compare, getattr(field, "kw_only", None) is True)
        return f"field {field.name} {field._field_type} {default} {factory} {flags} {sorted(map(str, field.metadata))}"  # type: ignore[attr-defined]

    def known(self) -> list[type]:
        """Classes all of whose members were said."""
        return list(self._own)


_OF_ENUMS = frozenset("_member_map_ _value2member_map_ _member_names_ _unhashable_values_ _hashable_values_".split())


def _members_of(cls: type) -> dict[str, Any]:
    """Of an enum, with other names of the same member."""
    return dict(cls.__members__) if isinstance(cls, enum.EnumMeta) else {}


def _registered(cls: type) -> list[str]:
    """Classes that were told to count as subclasses, without being any."""
    if "_abc_impl" not in vars(cls):
        return []
    from _abc import _get_dump  # type: ignore[import-not-found]

    found = [reference() for reference in _get_dump(cls)[0]]
    return sorted(f"counts {_name(one)}" for one in found if one is not None)


def counted(cls: type) -> str:
    """Users' classes that count as subclasses of an abstract one, or of its subclasses, by registration alone."""
    if not isinstance(cls, abc.ABCMeta):
        return ""
    waiting: list[Any] = [cls]
    seen: set[type] = set()
    found: set[str] = set()
    while waiting:
        one = waiting.pop()
        if one not in seen and isinstance(one, abc.ABCMeta):
            seen.add(one)
            found.update(_registered(one))
            waiting += type.__subclasses__(one)
    users = sorted(text for text in found if not is_library(text.removeprefix("counts ")))
    return f" {users}" if users else ""


def refuse_own_checks(cls: type) -> None:
    """Raises Refused for a class whose code Dynamo runs, and does not trace, when it is asked for its instances."""
    for base in cls.__mro__:
        if "__subclasshook__" in vars(base) and not is_known(base.__module__):
            raise Refused(f"isinstance on {_name(cls)} runs its __subclasshook__ while it is traced")
        if "_missing_" in vars(base) and not is_known(base.__module__):
            raise Refused(f"{_name(cls)} has a _missing_, which runs while it is traced")
    metaclass: Any = type(cls)
    for base in metaclass.__mro__:
        if {"__instancecheck__", "__subclasscheck__"} & vars(base).keys() and not is_known(base.__module__):
            raise Refused(f"isinstance on {_name(cls)} runs its {_name(base)} while it is traced")
    if vars(cls).get("_is_runtime_protocol", False) and not is_known(cls.__module__):
        raise Refused(f"isinstance on the protocol {_name(cls)} looks at objects under no guard")


def _goes_by_name(cls: type) -> bool:
    return not is_heap_type(cls) or is_known(cls.__module__)


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def is_heap_type(cls: type) -> bool:
    return bool(cls.__flags__ & _HEAP_TYPE)


def is_library(module: str | None) -> bool:
    """Whether a module of this name is the standard library's."""
    return (module or "").partition(".")[0] in _LIBRARY


def is_known(module: str | None) -> bool:
    """Whether a module of this name is torch's or the standard library's: the toolchain says what is in it."""
    return is_library(module) or (module or "").partition(".")[0] == "torch"


def module_of(value: Any) -> str:
    return str(type(value).__module__)
