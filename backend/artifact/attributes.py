"""Which attributes a bare instance may be given when a result is read."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

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
    """What makes a bare instance of a dataclass or a named tuple without running a line of its own; None for others."""
    if issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple):
        return lambda *values: tuple.__new__(cls, values)
    if not dataclasses.is_dataclass(cls) or cls.__new__ is not object.__new__:
        return None
    own = inspect.getattr_static(cls, "__setstate__", None)  # `slots` gives it one of Python's own
    if getattr(own, "__module__", "dataclasses") != "dataclasses":
        return None
    make: Any = object.__new__
    return functools.partial(make, cls)


def fields_of(value: Any) -> list[Any]:
    """The values of a dataclass's fields, or a named tuple's."""
    if isinstance(value, tuple):
        return list(value)
    return [getattr(value, field.name, None) for field in dataclasses.fields(value)]
