"""Sets whose order Dynamo takes from Python's own set: that of texts is another in each process. Changes no trace.

Most sets that a trace makes keep their items in the order in which they come, and are the same everywhere.
"""

from __future__ import annotations

import importlib
import operator
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.lists import BaseListVariable
from torch.utils._ordered_set import OrderedSet

from ... import patches
from ..orders import NEVER, SEEDED, order_of
from ..seen import note_chance, seen

_torchs: Any = importlib.import_module(patches.SETS)
_ANY_SET = getattr(_torchs, "BaseSetVariable", _torchs.SetVariable)  # frozen ones, too


def install() -> None:
    """Once per process. Raises patches.Moved."""
    patches.install("sets of sets", _making_set)
    patches.install("sets by a method", _as_set)
    patches.install("ordered sets", _putting_back)
    patches.install("folded functions", _folding)
    _watch_pop()


def _making_set(original: Callable[..., Any]) -> Callable[..., Any]:
    """A set in the order of another (`a.keys() & b.keys()`); else Dynamo keeps the order in which items come. Of one
    that the frame was given, or a copy of it, that is Python's: it is noted when somebody goes over it.
    """
    orderless = {
        original.__code__,
        *(cls.set_items.fget.__code__ for cls in (_torchs.SetVariable, _torchs.FrozensetVariable)),
    }
    orderless |= {getattr(getattr(_torchs.SetVariable, name, None), "__code__", None) for name in _ORDERLESS}

    class InPythonsOrder(_InPythonsOrder):
        asking = frozenset(orderless)

    def init(self: Any, items: Any, **options: Any) -> None:
        original(self, items, **options)
        if type(items) in (set, frozenset):
            _note_variables(self.items)
        if seen() is None or type(self.items) is not dict or self.python_type() not in (set, frozenset):
            return
        is_pythons = self.source is not None or type(items) is InPythonsOrder
        if is_pythons and all(one.vt.is_python_constant() for one in self.items):  # others have a guard each
            self.items = InPythonsOrder(self.items)

    return init


# What asks for all items and not for their order; `set_items` is watched below.
_ORDERLESS = ("has_new_items", "debug_repr", "nb_subtract_impl", "nb_inplace_subtract_impl")


class _InPythonsOrder(dict[Any, Any]):
    """The items, as Dynamo keeps them. asking: code that may go over them unnoticed."""

    asking: frozenset[Any] = frozenset()

    def _gone_over(self) -> None:
        code = sys._getframe(2).f_code
        if code not in self.asking and not code.co_filename.startswith(_OURS):
            _note_variables(dict.__iter__(self))

    def __iter__(self) -> Iterator[Any]:
        self._gone_over()
        return super().__iter__()

    def __reversed__(self) -> Iterator[Any]:
        self._gone_over()
        return super().__reversed__()

    def keys(self) -> Any:
        self._gone_over()
        return super().keys()

    def values(self) -> Any:
        self._gone_over()
        return super().values()

    def items(self) -> Any:
        self._gone_over()
        return super().items()

    def popitem(self) -> tuple[Any, Any]:
        self._gone_over()
        return super().popitem()

    def copy(self) -> _InPythonsOrder:
        made = type(self)()
        made.update(dict.items(self))
        return made


_OURS = str(Path(__file__).parent)


def _as_set(original: Callable[..., Any]) -> Callable[..., Any]:
    """Methods that Dynamo has Python do (`a.union(b)`)."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        found = original(self, *args, **options)
        if isinstance(found, _ANY_SET):  # `isdisjoint` says yes or no
            _note_variables(found.items)
        return found

    return method


def _watch_pop() -> None:
    """Which item `pop` takes. Since 2.14 it stands in a table; what it asks for on each version is replaced instead."""
    if "items of sets" in patches.installed():
        return
    original = _torchs.SetVariable.set_items

    def set_items(self: Any) -> Any:
        found = original.fget(self)
        if sys._getframe(1).f_code.co_name in ("pop", "call_method"):  # the latter before 2.14, for `pop` alone
            _note_variables(found)
        return found

    patches.replace("items of sets", _torchs.SetVariable, "set_items", property(set_items))


def _putting_back(original: Callable[..., Any]) -> Callable[..., Any]:
    """torch's ordered set, which the bytecode fills in the order of Python's set."""

    def reconstruct(self: Any, codegen: Any) -> Any:
        _note_variables(self.items)
        return original(self, codegen)

    return reconstruct


def _folding(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function of Python's that Dynamo calls at once where its arguments are constants (`sum`)."""

    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        if self.fn not in _IN_ANY_ORDER:
            note_folded([*args, *kwargs.values()])
        return original(self, tx, args, kwargs)

    return call_function


_IN_ANY_ORDER = (all, any, operator.contains)


def note_folded(arguments: Iterable[Any]) -> None:
    """Arguments of a function that Dynamo calls with Python's own sets."""
    for one in arguments:
        one = realized(one)
        if isinstance(one, _ANY_SET):
            _note_variables(one.items)


def holds_set(variable: Any) -> bool:
    """Whether it is a set or a container, at any depth, with one in it."""
    return any(map(_is_set, deep(variable, items_of)))


def _is_set(variable: Any) -> bool:
    if is_lazy(variable) or isinstance(variable, ConstantVariable):
        return any(isinstance(one, (set, frozenset)) for one in deep(constant_of(variable), values_of))
    # Until 2.14 the text of an ordered set is in the order of Python's.
    return issubclass(type_of(variable), (set, frozenset, OrderedSet))


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
    elif isinstance(variable, (ConstDictVariable, _ANY_SET)):
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


def _note_variables(items: Iterable[Any]) -> None:
    """items: as Dynamo keeps them."""
    if seen() is not None:
        values = [one.vt for one in items]
        note_order([one.as_python_constant() if one.is_python_constant() else one for one in values])


def note_order(items: Iterable[Any]) -> None:
    """items: in the order of Python's set. Where all are numbers, each process has them in the same."""
    current = seen()
    if current is None:
        return
    order = order_of(items)
    if order == NEVER:
        note_chance("the order of a set, which differs from process to process")
    elif order == SEEDED:
        current.shuffled = True
