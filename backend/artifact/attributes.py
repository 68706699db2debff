"""Which attributes a bare instance may be given when a result is read."""

from __future__ import annotations

import functools
import inspect
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
