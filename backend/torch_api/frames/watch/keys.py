"""Functions and classes that are keys of a table or items of a set while a frame is traced."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from torch._dynamo.source import ConstDictKeySource
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.lazy import LazyVariableTracker

from ..seen import seen
from .variables import is_lazy, items_of


def hashing(original: Callable[..., Any]) -> Callable[..., Any]:
    """A function or class that is a key is hashed, and nothing guards which one it is (torch keeps it lazy); of a
    table's own keys its surface says which they are.
    """

    def init(self: Any, vt: Any) -> None:
        lazy = seen() is not None and is_lazy(vt)
        if lazy and _is_hashable(vt) and not isinstance(vt.original_source(), ConstDictKeySource):
            _guard(vt.original_value(), vt.original_source())
        original(self, vt)

    return init


_is_hashable = operator.methodcaller(
    "is_hashable_lazy" if hasattr(LazyVariableTracker, "is_hashable_lazy") else "is_hashable"  # on 2.11
)


def _guard(value: Any, source: Any) -> None:
    """As if Dynamo had looked at it. Its own variable stays lazy: it cannot hash all that it has looked at (functions
    of C's that it skips), and finds what it has looked at again by the source.
    """
    known = InstructionTranslator.current_tx().output.variable_tracker_cache
    before = known.get(source)
    made = LazyVariableTracker.create(value, source).realize()
    for item in items_of(made) if isinstance(value, tuple) else ():
        if is_lazy(item):
            item.realize()
    known.pop(source, None)
    if before is not None:
        known[source] = before
