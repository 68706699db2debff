"""How Python's own wrappers and plain objects come apart, for the walk in `source.py`. Walks nothing itself."""

from __future__ import annotations

import abc
import collections.abc
import contextlib
import dataclasses
import enum
import functools
import gc
import hashlib
import inspect
import numbers
import operator
import re
import struct
import sys
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..origin import HEAP_TYPE, is_torch_or_stdlib
from .targets import is_higher_order, is_operator


def parts_of(value: Any) -> tuple[str, list[Any]] | None:
    """(kind, what it is made of) of a value that only ties others together, else None."""
    kind = type(value).__name__
    if not is_torch_or_stdlib(type(value).__module__):
        return None  # a subclass may hold more, and do otherwise
    if isinstance(value, (staticmethod, classmethod)):
        return kind, [value.__func__]
    if isinstance(value, property):
        return kind, [value.fget, value.fset, value.fdel]
    if isinstance(value, (functools.partial, functools.partialmethod)):
        return kind, [value.func, list(value.args), dict(value.keywords), dict(vars(value))]
    if isinstance(value, functools.cached_property):
        return kind, [value.func]
    if isinstance(value, types.MethodType):
        return kind, [value.__func__, value.__self__]
    if isinstance(value, typing.TypeVar):
        return kind, [value.__name__, value.__bound__, value.__constraints__]
    if isinstance(value, operator.itemgetter):
        return kind, list(value.__reduce__())
    if isinstance(value, re.Pattern):
        return kind, [value.pattern, value.flags]
    if isinstance(value, types.MappingProxyType):
        return kind, gc.get_referents(value)  # the mapping itself, which may be of any class
    if isinstance(value, (torch.finfo, torch.iinfo)):
        return kind, [repr(value)]
    if kind == "TorchVersion":  # of torch.__version__: a text that compares as versions do
        return kind, [str(value)]
    if kind == "_tuplegetter":  # a field of a named tuple
        return kind, [value.__reduce__()[1][0]]
    if isinstance(value, dataclasses.Field):
        flags = [value.init, value.compare, value.repr, value.hash, getattr(value, "kw_only", None) is True]
        return kind, [value.name, value.default, value.default_factory, flags, dict(value.metadata)]
    if type(value).__module__ == "dataclasses":  # MISSING and its like
        return kind, []
    return None


# Containers that code may change, and see changed in another place.
_DICTS = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)
_MUTABLE = (list, collections.deque, *_DICTS)


def is_mutable(value: Any) -> bool:
    return type(value) in _MUTABLE or type(value) is getattr(sys.modules.get("numpy"), "ndarray", None)


def contents_of(value: Any) -> tuple[str, Iterable[Any]] | None:
    """(kind, what it holds, in the order in which code goes over it) of a list, a dict, an array and their like, else
    None.
    """
    kind = type(value)
    if kind in (list, tuple):
        return f"{kind.__name__} of {len(value)}", value
    if kind is collections.deque:
        return f"deque of {len(value)} and at most {value.maxlen}", value
    if kind in _DICTS and not (hasattr(value, "__dict__") and vars(value)):
        first = [value.default_factory] if kind is collections.defaultdict else []
        return f"{kind.__name__} of {len(value)}", [*first, *(part for pair in value.items() for part in pair)]
    if kind in (set, frozenset) and not any(isinstance(item, (str, bytes)) for item in value):
        return f"{kind.__name__} of {len(value)}", in_order(value)
    return _array(value) if kind.__module__ == "numpy" else None


def _array(value: Any) -> tuple[str, list[Any]] | None:
    """Of an array of numpy's, or one of its numbers: how it lies in memory, and its bytes or the array that has these.
    None for one of objects or records, of another package's dtype, or that is too large to be hashed for each key.
    """
    numpy: Any = sys.modules["numpy"]
    if not isinstance(value, (numpy.ndarray, numpy.generic)):
        return None
    dtype, base = value.dtype, value.base
    known = dtype.type.__module__ == "numpy" and dtype.kind in "biufcSUMm" and dtype.char not in "gG"  # these have gaps
    if not known or dtype.metadata or not (base is None or type(base) is numpy.ndarray) or value.nbytes > _MOST_BYTES:
        return None
    how = [dtype.str, list(value.shape), list(value.strides), value.flags.writeable]
    if base is None:
        return type(value).__name__, [*how, hashlib.sha256(value.tobytes()).hexdigest()]
    begin = value.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return type(value).__name__, [*how, begin, base]


_MOST_BYTES = 1 << 20


def is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and isinstance(getattr(kind, "_fields", None), tuple)


def content_of(member: enum.Enum) -> Any:
    """What a member is beside its name and value: the text or number that its class inherits, of which `__new__` may
    have made something else. Asks no code of the class.
    """
    for base, plain in _CONTENTS:
        if isinstance(member, base):
            return plain(member)
    return None


def parts_of_member(member: enum.Enum) -> list[Any]:
    """Its value, what its class inherits, and what hangs on it."""
    hung = [[name, held] for name, held in vars(member).items() if name not in _OF_MEMBERS]
    return [member._value_, content_of(member), hung]


_OF_MEMBERS = frozenset("_value_ _name_ __objclass__ _sort_order_".split())


def members_of(kind: type[enum.Enum]) -> list[Any]:
    """Of an enumeration: its members with other names of theirs (flags that are made of others), what it does with
    flags that it does not know, and the user's own `__new__`.
    """
    members = [[name, one._name_, one._value_, content_of(one)] for name, one in kind.__members__.items()]
    made = vars(kind).get("__new_member__")
    boundary = str(getattr(kind, "_boundary_", None))
    return [members, boundary, made if isinstance(made, types.FunctionType) else None]


_CONTENTS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (bytes, lambda member: bytes.__getitem__(member, slice(None))),
    (complex, lambda member: complex.__add__(member, 0j)),
    (tuple, lambda member: tuple(tuple.__iter__(member))),
)


def attributes_of(value: Any) -> list[tuple[str, Any]] | None:
    """(name, value) of an object that is its class and these, else None: dataclasses, named tuples, namespaces."""
    kind = type(value)
    if is_named_tuple(kind):
        return [
            *((str(index), item) for index, item in enumerate(value)),
            *sorted(getattr(value, "__dict__", {}).items()),
        ]
    if kind.__module__ == "torch.autograd.grad_mode":  # `@torch.no_grad()` holds one; what it restores is not its own
        return [("mode", getattr(value, "mode", None))]
    if kind is types.SimpleNamespace:
        return list(vars(value).items())  # code may go over them
    if dataclasses.is_dataclass(kind) and not _holds_more(kind):
        names = {field.name for field in dataclasses.fields(value)} | set(getattr(value, "__dict__", ()))
        names |= {name for name, _ in _slots_of(kind)}
        return [(name, getattr(value, name)) for name in sorted(names) if hasattr(value, name)]
    return None


def attributes_of_plain(value: Any) -> list[tuple[str, Any]] | None:
    """(name, value) of an object of any class of the user's that is its class and these, in their order. Runs no code.
    None where the class has a base of torch's or Python's, which may keep more elsewhere.
    """
    kind = type(value)
    bases = [base for base in kind.__mro__ if base not in (object, abc.ABC, typing.Generic, typing.Protocol)]
    if not bases or any(is_torch_or_stdlib(base.__module__) for base in bases) or _holds_more(kind):
        return None
    table = next((vars(base)["__dict__"] for base in kind.__mro__ if "__dict__" in vars(base)), None)
    if not (table is None or isinstance(table, types.GetSetDescriptorType)):
        return None  # it says itself what it holds
    held = list(table.__get__(value).items()) if table is not None else []
    for name, member in _slots_of(kind):
        with contextlib.suppress(AttributeError):  # nothing was put there
            held.append((f"slot {name}", member.__get__(value)))
    return held


def _holds_more(kind: type) -> bool:
    """Whether its objects may hold what no attribute says: those of C's classes (a list, a tensor, what pybind11
    makes), which have more room than a class of Python's takes. As `object.__reduce_ex__` tells it.
    """
    if not all(base is object or base.__flags__ & HEAP_TYPE for base in kind.__mro__):
        return True
    pointers = len(_slots_of(kind)) + (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return bool(kind.__itemsize__) or kind.__basicsize__ != object.__basicsize__ + _POINTER * pointers


_POINTER = struct.calcsize("P")
_NUMBERS = (bool, int, float, complex)
_BY_REPR = (*_NUMBERS, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)


def in_order(items: Iterable[Any]) -> list[Any]:
    """The items of a set. Numbers lie in the same order in every process, and code may see it. What lies there by its
    address, or by the text of its name, is sorted by what it is called, as far as it has a name.
    """
    found = list(items)
    return found if all(type(item) in _NUMBERS for item in found) else sorted(found, key=_called)


def _called(value: Any) -> str:
    kind = type(value)
    if isinstance(value, enum.Enum):
        name = value._name_
    elif kind in _BY_REPR or kind is str or kind is bytes:
        name = repr(value)
    elif kind is tuple:
        name = " ".join(map(_called, value))
    elif is_operator(value) or is_higher_order(value):
        name = str(value)
    else:
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    return f"{kind.__module__}.{kind.__qualname__} {name}"


def _slots_of(kind: type) -> list[tuple[str, Any]]:
    """(name, descriptor) of those of a class and its bases."""
    members = ((name, member) for base in kind.__mro__ for name, member in vars(base).items())
    return [(name, member) for name, member in members if isinstance(member, types.MemberDescriptorType)]


def name_of(code: Any) -> str:
    return str(getattr(code, "__qualname__", None) or getattr(code, "__name__", None) or type(code).__qualname__)


def place_of(code: Any) -> str:
    """`name (file:line)` of a function, for a message; just the name of anything else."""
    if isinstance(code, functools.partial):
        return place_of(code.func)
    plain = inspect.unwrap(code) if isinstance(code, types.FunctionType) else code
    found = getattr(plain, "__code__", None)
    return f"{name_of(plain)} ({found.co_filename}:{found.co_firstlineno})" if found is not None else name_of(plain)


def bound_cells(function: types.FunctionType) -> dict[str, Any]:
    """A function's variables of enclosing functions, as far as they are bound."""
    found: dict[str, Any] = {}
    for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    return found


def registered_with(code: type) -> list[str]:
    """Names of the classes that were registered with an abstract one (`Interface.register(Thing)`), and of Python's
    abstract classes with which this one was.
    """
    found = [f"{one.__module__}.{one.__qualname__}" for one in _registry(code)]
    found += [
        f"in {one.__module__}.{one.__qualname__}" for one in _ABSTRACT if any(code is it for it in _registry(one))
    ]
    return sorted(found)


def _registry(code: type) -> list[type]:
    if "_abc_impl" not in vars(code):
        return []
    registry = sys.modules["_abc"]._get_dump(code)[0]  # behind `abc`, which does not hand it out
    return [one for one in (reference() for reference in registry) if one is not None]


_ABSTRACT = [
    one
    for module in (collections.abc, numbers)
    for one in vars(module).values()
    if isinstance(one, type) and "_abc_impl" in vars(one)
]
