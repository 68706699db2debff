"""Which attributes a bare instance may be given when a result is read."""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

from warmgraph.hashing import is_named_tuple

# What a kernel has of the function that it was made of, as texts; its globals are taken off before it is kept.
_OF_FUNCTIONS = {"__doc__", "__globals__", "__module__", "__name__", "__qualname__"}


def may_have(cls: type, name: str, value: Any) -> bool:
    """Nothing special but a function's texts, and nothing that stands in the place of a dataclass's method."""
    if name.startswith("__"):
        return name in _OF_FUNCTIONS and (value is None or type(value) is str)
    return _is_data(cls, name)


@functools.cache
def _is_data(cls: type, name: str) -> bool:
    fields = getattr(cls, "__dataclass_fields__", None)
    if fields is None or name in fields:
        return True
    there = inspect.getattr_static(cls, name, None)
    return isinstance(there, functools.cached_property) or not (callable(there) or hasattr(there, "__get__"))


def bare_data(cls: Any) -> Callable[..., Any] | None:
    """What makes a bare instance of a dataclass or a named tuple without running a line of its own.

    None for other classes, and for those that say themselves how they are pickled, made or read.
    """
    is_tuple = is_named_tuple(cls)
    if not is_tuple and not (dataclasses.is_dataclass(cls) and cls.__new__ is object.__new__):
        return None
    there = [vars(base) for base in cls.__mro__ if base not in (object, tuple)]
    fields = () if is_tuple else cls.__dataclass_fields__
    if any(name in space and not _is_generated(space[name]) for space in there for name in _OWN_WAYS):
        return None
    if any(isinstance(space.get(name), property) for space in there for name in fields):
        return None
    if is_tuple:
        return lambda *values: tuple.__new__(cls, values)
    make: Any = object.__new__
    return lambda: make(cls)


# How a class may say itself what becomes of it; Python's own `dataclass` and `namedtuple` write some of these.
_OWN_WAYS = """
    __reduce__ __reduce_ex__ __getstate__ __setstate__ __getnewargs_ex__ __getnewargs__ __getattr__ __getattribute__
    __setattr__ __hash__
""".split()


def _is_generated(member: Any) -> bool:
    """Whether Python wrote it: in no file, or in its own."""
    code = getattr(member, "__code__", None)
    if member is None or code is None:
        return member is None
    return code.co_filename.startswith("<") or code.co_filename in _GENERATORS


_GENERATORS = (dataclasses.__file__, collections.__file__)
