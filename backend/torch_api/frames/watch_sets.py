"""Sets whose order Dynamo takes from Python's own set: that of texts is another in each process. Changes no trace.

Most sets that a trace makes keep their items in the order in which they come, and are the same everywhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from torch._dynamo.variables.sets import SetVariable

from .. import patches
from .orders import NEVER, SEEDED, order_of
from .seen import note_chance, seen


def install() -> None:
    """Once per process. Raises patches.Moved."""
    patches.install("sets of sets", _making_set)
    patches.install("sets by a method", _as_set)
    _watch_pop()


def _making_set(original: Callable[..., Any]) -> Callable[..., Any]:
    """A set in the order of another (`a.keys() & b.keys()`); else Dynamo keeps the order in which items come."""

    def init(self: Any, items: Any, **options: Any) -> None:
        original(self, items, **options)
        if type(items) in (set, frozenset):
            _note_order(self.items)

    return init


def _as_set(original: Callable[..., Any]) -> Callable[..., Any]:
    """Methods that Dynamo has Python do (`a.union(b)`)."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        found = original(self, *args, **options)
        _note_order(getattr(found, "items", ()))
        return found

    return method


def _watch_pop() -> None:
    """Which item `pop` takes. Since 2.14 it stands in a table; what it asks for on each version is replaced instead."""
    if "items of sets" in patches.installed():
        return
    original = SetVariable.set_items

    def set_items(self: Any) -> Any:
        found = original.fget(self)
        if sys._getframe(1).f_code.co_name in ("pop", "call_method"):  # the latter before 2.14, for `pop` alone
            _note_order(found)
        return found

    patches.replace("items of sets", SetVariable, "set_items", property(set_items))


def _note_order(items: Any) -> None:
    """items: in the order of Python's set. Where all are numbers, each process has them in the same."""
    current = seen()
    if current is None:
        return
    values = [one.vt for one in items]
    order = order_of(one.as_python_constant() if one.is_python_constant() else one for one in values)
    if order == NEVER:
        note_chance("the order of a set, which differs from process to process")
    elif order == SEEDED:
        current.shuffled = True
