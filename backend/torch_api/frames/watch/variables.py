"""What Dynamo's variables stand for, looked at without asking them: who asks a lazy one gets a guard."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.lists import BaseListVariable

from ... import patches

SETS: Any = importlib.import_module(patches.SETS)
ANY_SET: Any = getattr(SETS, "BaseSetVariable", SETS.SetVariable)  # frozen ones, too


def deep(top: Any, inner: Callable[[Any], Iterable[Any]]) -> Iterator[Any]:
    """It and what `inner` gives of it, at any depth, each once: a list may hold itself."""
    done: dict[int, Any] = {}
    waiting = [top]
    while waiting:
        one = waiting.pop()
        if id(one) not in done:
            done[id(one)] = one
            yield one
            waiting.extend(inner(one))


def items_of(variable: Any) -> Iterator[Any]:
    """What stands in a container, as Dynamo keeps it: of a table keys and values, of a view of one what it is of."""
    if is_lazy(variable):
        return
    variable = realized(variable)
    of = getattr(variable, "kv", None)
    variable = getattr(variable, "dv_dict", variable)
    if isinstance(variable, BaseListVariable):
        yield from variable.items
    elif isinstance(variable, (ConstDictVariable, ANY_SET)):
        if of != "values":
            yield from (key.vt for key in variable.items)
        if isinstance(variable.items, dict) and of != "keys":
            yield from variable.items.values()


def values_of(value: Any) -> Iterable[Any]:
    """The same of one of Python's own containers."""
    if isinstance(value, dict):
        return (*value.keys(), *value.values())
    return value if isinstance(value, (tuple, list, set, frozenset)) else ()


def is_lazy(variable: Any) -> bool:
    """Whether Dynamo has not looked at it: a guard would come of asking it anything but `original_value`."""
    return isinstance(variable, LazyVariableTracker) and not variable.is_realized()


def realized(variable: Any) -> Any:
    """What a lazy variable stands for, where Dynamo has looked at it already."""
    if isinstance(variable, LazyVariableTracker) and variable.is_realized():
        return variable.realize()
    return variable


def constant_of(variable: Any) -> Any:
    """What a constant is, and what Dynamo has not looked at; of other variables None, most often. Asks for nothing."""
    if is_lazy(variable):
        return variable.original_value()
    return getattr(realized(variable), "__dict__", {}).get("value")


def type_of(variable: Any) -> type:
    """Of the value; `object` where that is not known."""
    if is_lazy(variable):
        return type(variable.original_value())
    try:
        found: type = variable.python_type()
    except (AttributeError, NotImplementedError):
        return object
    return found
