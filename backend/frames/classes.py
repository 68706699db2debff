"""Classes by name and by all that stands on them and their bases. Not their instances."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import functools
import itertools
import operator
import re
import sys
import types
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import torch
from warmgraph.hashing import comes_with_torch, is_torch_or_stdlib, module_of_class, sha256_hex

from ..torch_api.frames.plain import Refused, stands_by_name
from ..torch_api.frames.ran import is_users
from .program import is_installed

_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time
# What Python and torch keep on classes for themselves, or what has no behaviour.
_BOOKKEEPING = frozenset(
    """
    __doc__ __dict__ __weakref__ __module__ __qualname__ __annotations__ __orig_bases__ __parameters__
    __dataclass_fields__ __dataclass_params__ __abstractmethods__ __signature__ _abc_impl _backward_cls
    _autograd_function_id
    __static_attributes__ __firstlineno__ _is_protocol __match_args__ __non_callable_proto_members__
    __slotnames__ __annotate__ __annotate_func__ __annotations_cache__ __classdictcell__
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
        # By id: a metaclass may say that two classes are equal. All are kept alive in `_own`.
        self._texts: dict[int, str] = {}
        self._own: dict[int, tuple[type, str]] = {}
        self._mentioned: dict[int, list[type]] = {}  # by each class that was said, those that it holds
        self._whole: dict[int, tuple[str, list[type]]] = {}  # with its bases
        self._saying: list[int] = []

    def text(self, cls: type) -> str:
        """`module.name#digest`. Raises Refused for a method of which nothing can be said."""
        found = self._texts.get(id(cls))
        if found is None:
            reached: dict[int, str] = {}
            self._reach(cls, reached)
            mine, *others = reached.values()
            text = "\n".join((mine, *sorted(others)))
            found = self._texts[id(cls)] = f"{name_of(cls)}#{sha256_hex(text.encode())[:12]}"
        return found

    def mention(self, cls: type) -> str:
        """A class that something holds: by name where that stands on a class, and said beside it."""
        if _goes_by_name(cls):
            return name_of(cls)
        if not self._saying:
            return self.text(cls)
        self._mentioned[self._saying[-1]].append(cls)
        return name_of(cls)

    def _reach(self, cls: type, reached: dict[int, str]) -> None:
        waiting = [cls]
        while waiting:
            one = waiting.pop()
            if id(one) not in reached:
                reached[id(one)], further = self._with_bases(one)
                waiting += further

    def _with_bases(self, cls: type) -> tuple[str, list[type]]:
        found = self._whole.get(id(cls))
        if found is None:
            metaclass: Any = type(cls)
            bases = [*cls.__mro__, *(metaclass.__mro__ if metaclass is not type else ())]
            lines = [self._one(base) for base in bases]
            place = "" if _goes_by_name(cls) or stands_by_name(cls) else " elsewhere"
            text = f"{name_of(cls)}{place} {sha256_hex(chr(10).join(lines).encode())}"
            found = self._whole[id(cls)] = (text, [one for base in bases for one in self._mentioned.get(id(base), ())])
        return found

    def _one(self, cls: type) -> str:
        known = self._own.get(id(cls))
        found = known[1] if known is not None else name_of(cls)
        if known is None:
            if is_heap_type(cls):
                self._mentioned[id(cls)] = []
                self._saying.append(id(cls))
                try:
                    lines = list(self._lines(cls))
                finally:
                    self._saying.pop()
                found = sha256_hex("\n".join((found, *lines)).encode("utf-8", "surrogatepass"))
            self._own[id(cls)] = (cls, found)
        return found

    def _lines(self, cls: type) -> Iterator[str]:
        held = vars(cls)
        names = [name for name in sorted(held) if name not in _BOOKKEEPING and not name.startswith("__pydantic_")]
        if is_librarys(cls):
            yield from names
            return
        yield cls.__name__
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
        more = [f"{key}={self._members.member(value)}" for key, value in field.metadata.items()]
        kind = field.type if isinstance(field.type, str) else self._members.member(field.type)
        return f"field {field.name} {field._field_type} {default} {factory} {flags} {more} {kind}"  # type: ignore[attr-defined]

    def known(self) -> list[type]:
        """Classes all of whose members were said."""
        return [cls for cls, _ in self._own.values()]


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
    return sorted(f"counts {name_of(one)}" for one in found if one is not None and not _comes_with_import(cls, one))


def _comes_with_import(cls: type, registered: type) -> bool:
    """Whether there is no process that has `registered` and in which it does not count as a `cls`: a module of Python's
    or of an installed package, which torch may import to compile and not to load, registers it where one of them is
    made.
    """
    in_c = _REGISTER_IN_C.get(module_of_class(registered)) == cls.__name__ or "__pyx_vtable__" in vars(registered)
    if in_c and is_librarys(cls):  # with a class of the program's it is the program that registers
        return True
    made = sys.modules.get(module_of_class(registered))
    modules = [made] if getattr(made, registered.__qualname__, None) is registered else []
    for module in (*modules, sys.modules.get(_HOME.get(module_of_class(cls), module_of_class(cls)))):
        for path, name in _registrations(str(getattr(module, "__file__", ""))):
            with contextlib.suppress(AttributeError):
                if name == registered.__name__ and operator.attrgetter(path)(module) is cls:
                    return True
    return False


_HOME = {"collections.abc": "_collections_abc"}
_REGISTER_IN_C = {"array": "MutableSequence", "decimal": "Number"}


@functools.cache
def _registrations(file: str) -> list[tuple[str, str]]:
    """(abstract class, as the module calls it; class) of each class that it registers in a line of its own."""
    if not (is_installed(file) or comes_with_torch(file)):
        return []
    try:
        text = Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return []
    return [*_CALLS.findall(text), *_DECORATED.findall(text)]


_CALLS = re.compile(r"^([\w.]+)\.register\((\w+)\)", re.MULTILINE)
_DECORATED = re.compile(r"^@([\w.]+)\.register\n(?:@.*\n)*class (\w+)", re.MULTILINE)


def counted(cls: type) -> str:
    """Classes that a program registered with an abstract one, or with its subclasses: they count by that alone."""
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
            if one is not cls and not is_library(one.__module__) and _answers_itself(one):
                found.add(f"asks {name_of(one)}")
            waiting += type.__subclasses__(one)
    return f" {sorted(found)}" if found else ""


def _answers_itself(cls: type) -> bool:
    """Whether it decides by itself what counts as a subclass: who asks an abstract class asks all below it."""
    metaclass: Any = type(cls)
    users = [base for base in metaclass.__mro__ if not is_library(base.__module__)]
    return "__subclasshook__" in vars(cls) or any(_CHECKS & vars(base).keys() for base in users)


_CHECKS = frozenset({"__instancecheck__", "__subclasscheck__"})
_TYPING = "typing_extensions"  # Python's `typing` for older versions; torch asks for it


def refuse_own_checks(cls: type) -> None:
    """Raises Refused for a class whose code Dynamo runs, and does not trace, when it is asked for its instances."""
    for base in cls.__mro__:
        hook = vars(base).get("__subclasshook__")
        by = getattr(getattr(hook, "__func__", hook), "__globals__", {}).get("__name__")
        # A protocol's is Python's own: what that asks of objects is said (`protocols.py`).
        if hook is not None and not is_known(base.__module__) and not is_known(by) and by != _TYPING:
            raise Refused(f"isinstance on {name_of(cls)} runs its __subclasshook__ while it is traced")
        if "_missing_" in vars(base) and not is_known(base.__module__) and _runs_unseen(vars(base)["_missing_"]):
            raise Refused(f"{name_of(cls)} has a _missing_ that may run while it is traced, unseen")
    metaclass: Any = type(cls)
    of_enum = issubclass(metaclass, enum.EnumMeta)  # Dynamo asks these at once
    for base in metaclass.__mro__:
        if of_enum and not is_known(base.__module__):
            asked = _ASKED_OF_ENUMS & vars(base).keys()
            if (name := next((name for name in asked if _runs_unseen(vars(base)[name])), None)) is not None:
                raise Refused(f"the metaclass of {name_of(cls)} has a {name} that may run while it is traced, unseen")
        own = _CHECKS & vars(base).keys() and not is_known(base.__module__)
        if own and module_of_class(base) != _TYPING:
            raise Refused(f"isinstance on {name_of(cls)} runs its {name_of(base)} while it is traced")


def _runs_unseen(method: Any) -> bool:
    """Whether nobody would know (`ran`): C code answers (`functools.cache`), or code that has no file."""
    function = method.__func__ if isinstance(method, (classmethod, staticmethod)) else method
    if type(function) is types.FunctionType:
        return not is_users(function.__code__)
    return callable(function) and not isinstance(function, _UNBOUND)


_ASKED_OF_ENUMS = frozenset(
    "__call__ __getitem__ __contains__ __iter__ __len__ __reversed__ __bool__ __eq__ __hash__".split()
)
_UNBOUND = (types.WrapperDescriptorType, types.MethodDescriptorType)  # `__hash__ = type.__hash__`: they hold nothing


def _goes_by_name(cls: type) -> bool:
    return not is_heap_type(cls) or is_librarys(cls) or module_of_class(cls).partition(".")[0] == "torch"


def name_of(cls: type) -> str:
    return f"{module_of_class(cls)}.{cls.__qualname__}"


def is_heap_type(cls: type) -> bool:
    return bool(cls.__flags__ & _HEAP_TYPE)


# Compiled types whose contents Dynamo reads through sources of their own, or whose class says all.
_HAVE_SOURCES: tuple[Any, ...] = (
    torch.Tensor, torch.Generator, types.MethodType, types.SimpleNamespace, functools.partial, property, staticmethod,
    classmethod, BaseException, super, types.CellType, types.GenericAlias, types.UnionType, itertools.count, zip, map,
    filter, enumerate, itertools.cycle, itertools.repeat, type(iter(())), type(iter([])), type(iter({})),
    type(iter(range(0))),
    weakref.ReferenceType, bytearray,
)  # fmt: skip
_BY_TYPE = frozenset("numpy decimal datetime".split())  # modules of such: `rules` compares their values


def is_told_by_type(value: Any) -> bool:
    """Whether the class of a value, and its names, are enough where nothing guards more: the rest is guarded."""
    kind = type(value)
    return is_heap_type(kind) or kind is object or module_of_class(kind) in _BY_TYPE or isinstance(value, _HAVE_SOURCES)


def is_library(module: str | None) -> bool:
    """Whether a module of this name is the standard library's; not one of the user's that is called like it."""
    return is_known(module) and (module or "").partition(".")[0] != "torch"


def is_librarys(cls: type) -> bool:
    """Whether the standard library brings this class, and not one that says so."""
    found: Any = sys.modules.get(module_of_class(cls)) if is_library(cls.__module__) else None
    for part in cls.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is cls or (not is_heap_type(cls) and is_library(cls.__module__))


def is_known(module: str | None) -> bool:
    """Whether a module of this name is torch's or the standard library's: the toolchain says what is in it."""
    return is_torch_or_stdlib(module)


def module_of(value: Any) -> str:
    return str(type(value).__module__)
