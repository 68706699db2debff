"""Sets whose order Dynamo takes from Python's own set: that of texts is another in each process. Changes no trace.

Most sets that a trace makes keep their items in the order in which they come, and are the same everywhere.
"""

from __future__ import annotations

import operator
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch._dynamo.symbolic_convert import generic_jump
from torch._dynamo.variables.constant import ConstantVariable
from torch.utils._ordered_set import OrderedSet

from ... import patches
from ..orders import NEVER, SAME, SEEDED, order_of
from ..seen import note_chance, seen
from .listening import listen
from .variables import ANY_SET, SETS, constant_of, deep, is_lazy, items_of, realized, type_of, values_of


def install() -> None:
    """Once per process. Raises patches.Moved."""
    listen("sets of sets", _making_set)
    listen("sets by a method", _as_set)
    listen("ordered sets", _putting_back)
    listen("folded functions", _folding)
    _watch_items()


def _making_set(original: Callable[..., Any]) -> Callable[..., Any]:
    """A set in the order of another (`a.keys() & b.keys()`); else Dynamo keeps the order in which items come. Of one
    that the frame was given, or a copy of it, that is Python's: it is noted when somebody goes over it.
    """
    _InPythonsOrder.asking = frozenset({original.__code__, *_codes_in(generic_jump)})

    def init(self: Any, items: Any, **options: Any) -> None:
        original(self, items, **options)
        if type(items) in (set, frozenset):
            _note_variables(self.items)
        current = seen()
        if current is None or type(self.items) is not dict:
            return
        if type_of(self) not in (set, frozenset) and not _is_unfinished(self):
            return
        is_pythons = self.source is not None or type(items) is _InPythonsOrder
        if is_pythons and all(one.vt.is_python_constant() for one in self.items):  # others have a guard each
            self.items = _InPythonsOrder(self.items)
            if self.source is not None:
                current.watched_sets.add(self.source)

    return init


def _is_unfinished(variable: Any) -> bool:
    """Since 2.15 a frozenset does not know its type yet; of one that is no `frozenset` itself no name counts."""
    return isinstance(variable, SETS.FrozensetVariable) and type_of(variable) is object


def _codes_in(function: Any) -> list[types.CodeType]:
    return [one for one in function.__code__.co_consts if isinstance(one, types.CodeType)]


# Torch's methods that ask for all items and not for their order. Sets that `_fast_set_method` gives are looked at.
_ORDERLESS = frozenset(
    """
    is_python_constant has_new_items debug_repr nb_subtract_impl nb_inplace_subtract_impl _fast_set_method
    sq_length sq_length_impl richcompare_impl tp_richcompare_impl python_constant_richcompare_impl issubset
    issuperset vt_identity_compare generic_bool generic_is_true
    """.split()
)
# Since 2.14 these have what they give made by `_new_set`: it is in the order of the set whose method it is, and their
# argument is asked what is in it. (`set - OrderedSet`, by another method, is in the order of its argument.)
_MADE_ALIKE = frozenset("set_copy intersection difference isdisjoint".split())
# How these come by them: a container gives what its items give, at any depth.
_THROUGH = frozenset(
    """
    set_items as_python_constant get_real_python_backed_value guarded_method realize_and_forward _operand_keys
    _iter_operand_keys <listcomp> <genexpr> <dictcomp> <setcomp>
    """.split()
)
_OF_ANOTHER = frozenset("_operand_keys _iter_operand_keys".split())  # by which a method asks for its argument's items
_VARIABLES = str(Path(SETS.__file__).parent)
_OURS = str(Path(__file__).parent)


class _InPythonsOrder(dict[Any, Any]):
    """The items, as Dynamo keeps them. asking: more code that may go over them unnoticed."""

    asking: frozenset[types.CodeType] = frozenset()
    made_alike: frozenset[str] = frozenset()

    def _gone_over(self) -> None:
        frame: types.FrameType | None = sys._getframe(2)
        orderless = _ORDERLESS | self.made_alike
        while frame and (frame.f_code.co_name in _THROUGH or frame.f_code.co_filename.startswith(_OURS)):
            if frame.f_code.co_name in _OF_ANOTHER:
                orderless = self.made_alike
            frame = frame.f_back
        code = frame.f_code if frame else None
        is_torchs = code is not None and code.co_filename.startswith(_VARIABLES) and code.co_name in orderless
        if not is_torchs and code not in self.asking:
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


def _as_set(original: Callable[..., Any]) -> Callable[..., Any]:
    """Methods that Dynamo has Python do (`a.union(b)`)."""

    def method(self: Any, *args: Any, **options: Any) -> Any:
        found = original(self, *args, **options)
        if isinstance(found, ANY_SET):  # `isdisjoint` says yes or no
            _note_variables(found.items)
        return found

    return method


def _watch_items() -> None:
    """Which item `pop` takes, and in which order the bytecode makes a set again: items whose hashes collide keep it.
    Since 2.14 `pop` stands in a table; what it asks for on each version is replaced instead.
    """
    if "items of sets" in patches.installed():
        return
    for kind in (SETS.SetVariable, SETS.FrozensetVariable):
        patches.replace("items of sets", kind, "set_items", property(_asked_for(kind.set_items.fget)))
    for kind in deep(ANY_SET, type.__subclasses__):
        if "_new_set" in vars(kind):
            patches.replace("items of sets", kind, "_new_set", _made_alike(vars(kind)["_new_set"]))
            _InPythonsOrder.made_alike = _MADE_ALIKE


def _asked_for(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def set_items(self: Any) -> Any:
        found = original(self)
        if sys._getframe(1).f_code.co_name in ("reconstruct", "pop", "call_method"):  # the last before 2.14, for `pop`
            _note_variables(found)
        return found

    return set_items


def _made_alike(original: Callable[..., Any]) -> Callable[..., Any]:
    def _new_set(self: Any, items: Any) -> Any:
        made = original(self, items)
        if type(self.items) is _InPythonsOrder and type(made.items) is dict:
            made.items = _InPythonsOrder(made.items)
        return made

    return _new_set


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
            _note_folded([*args, *kwargs.values()])
        return original(self, tx, args, kwargs)

    return call_function


_IN_ANY_ORDER = (all, any, operator.contains)


def _note_folded(arguments: Iterable[Any]) -> None:
    """Arguments of a function that Dynamo calls with Python's own sets."""
    for one in arguments:
        one = realized(one)
        if isinstance(one, ANY_SET):
            _note_variables(one.items)


@contextmanager
def by_a_builtin(function: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> Iterator[None]:
    """Around its call. `sorted` gives texts in one order, whichever their set has; others fold in Python's own."""
    current = seen()
    if current is None:
        yield
        return
    is_plain = function is sorted and len(arguments) == 1 and options.keys() <= {"reverse"}
    current.sorting = is_plain and _are_texts(arguments[0])
    try:
        yield
    finally:
        current.sorting = False
    if function is max or function is min or function is sum:
        _note_folded(arguments)


def _are_texts(variable: Any) -> bool:
    """Of Python's own sets alone: one of the user's may go over its items by code of its own."""
    if type_of(variable) not in (set, frozenset):
        return False
    found = variable.original_value() if is_lazy(variable) else realized(variable)
    items = _values_of_items(dict.__iter__(found.items)) if isinstance(found, ANY_SET) else found
    return isinstance(items, (list, set, frozenset)) and all(type(item) is str for item in items)


def holds_set(variable: Any) -> bool:
    """Whether it is a set or a container, at any depth, with one in it that is not in the same order everywhere."""
    return any(map(_is_shuffled, deep(variable, items_of)))


def _is_shuffled(variable: Any) -> bool:
    if is_lazy(variable) or isinstance(variable, ConstantVariable):
        found = deep(constant_of(variable), values_of)
        return any(isinstance(one, (set, frozenset)) and order_of(one) != SAME for one in found)
    if isinstance(variable := realized(variable), ANY_SET):
        return order_of(_values_of_items(variable.items)) != SAME
    # Until 2.14 the text of an ordered set is in the order of Python's.
    return issubclass(type_of(variable), (set, frozenset, OrderedSet))


def _note_variables(items: Iterable[Any]) -> None:
    """items: as Dynamo keeps them."""
    current = seen()
    if current is not None and not current.sorting:
        note_order(_values_of_items(items))


def _values_of_items(items: Iterable[Any]) -> list[Any]:
    values = [one.vt for one in items]
    return [one.as_python_constant() if one.is_python_constant() else one for one in values]


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
