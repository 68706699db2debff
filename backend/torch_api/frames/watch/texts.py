"""Text that a trace makes: it may tell what nothing guards, or what each process has otherwise. Changes no trace."""

from __future__ import annotations

import enum
import re
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.nn_module import NNModuleVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable
from warmgraph.hashing import is_torch_or_stdlib

from ... import versions
from ..seen import note_chance, seen
from . import sets
from .variables import constant_of, deep, is_lazy, items_of, realized, type_of, values_of

# An address, or a path: the text of an object, function or module without a form of its own.
_OF_THIS_PROCESS = re.compile(r"\b0x[0-9a-f]{4,}|<module ")
_SET = re.compile(r"\{'[^':]*'[,}]")  # within other text


def telling(original: Callable[..., Any]) -> Callable[..., Any]:
    """Of Dynamo's functions that ask for the text of one value, on its own or within a container (since 2.13)."""

    def text(tx: Any, obj: Any) -> Any:
        found = original(tx, obj)
        note_text(found, [obj])
        return found

    return text


def making(original: Callable[..., Any]) -> Callable[..., Any]:
    """Text that was put together in any other way (`"%s" % function`)."""

    def init(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        if type(self.value) is str and "at 0x" in self.value and _OF_THIS_PROCESS.search(self.value):
            note_chance("an address as text, which differs from process to process")
        elif type(self.value) is str and "uuid=" in self.value and "total_memory=" in self.value:
            note_chance("a GPU's properties as text, which say which one of its kind it is")

    return init


def note_text(found: Any, of: Sequence[Any]) -> None:
    """found: what Dynamo made of the text of these."""
    current = seen()
    if current is None or not isinstance(value := constant_of(found), str):
        return
    if any(map(_tells_more, of)):
        current.chance.append("an object as text, of which nothing is guarded")
    if _OF_THIS_PROCESS.search(value):
        current.chance.append("an object as text, which differs from process to process")
    elif any(map(sets.holds_set, of)) or _SET.search(value):
        current.chance.append("a set as text, whose order differs from process to process")


def _tells_more(variable: Any) -> bool:
    """Whether its text tells values that have no guard: of an object, at any depth."""
    found = deep(variable, _within)
    return any(_tells_itself(one) or (_LIVE and one is not variable and _is_live(one)) for one in found)


# Before 2.13 the text of a container is that of the live objects in it; of a number that varies, and of a tensor, it is
# the symbol.
_LIVE = "text of objects" in versions.here().without


def _is_live(variable: Any) -> bool:
    is_symbol = isinstance(realized(variable), (SymNodeVariable, TensorVariable))
    return is_symbol or issubclass(type_of(variable), BaseException)


def _within(variable: Any) -> Iterable[Any]:
    if issubclass(type_of(variable), BaseException) and not is_lazy(variable):
        return getattr(realized(variable), "args", ())
    return items_of(variable)


def _tells_itself(variable: Any) -> bool:
    value, variable = constant_of(variable), realized(variable)
    if is_lazy(variable) or isinstance(variable, ConstantVariable) or isinstance(value, enum.Enum):
        return _holds_object(value)
    return _is_object(variable) or _says_itself(type_of(variable))


def _holds_object(value: Any) -> bool:
    return any(not isinstance(one, _SAID) or _says_itself(type(one)) for one in deep(value, _values_within))


def _values_within(value: Any) -> Iterable[Any]:
    if isinstance(value, enum.Enum):
        return (value._value_,)
    if isinstance(value, slice):
        return (value.start, value.stop, value.step)
    return (value.__self__,) if isinstance(value, types.MethodType) else values_of(value)


# Constants, of which a guard says all; functions and modules, whose text holds an address or a path; what is opened.
_SAID = (
    str, bytes, int, float, complex, type(None), type(...), type(NotImplemented), slice, range, re.Pattern, type,
    torch.dtype, torch.device, torch.layout, torch.memory_format, torch.finfo, torch.iinfo, torch._C._SDPBackend,
    types.ModuleType, types.CodeType,
    types.FunctionType, types.BuiltinFunctionType, types.MethodType, enum.Enum, dict, tuple, list, set, frozenset,
)  # fmt: skip


def _is_object(variable: Any) -> bool:
    """Whether its class's own code says its text, of whatever it holds."""
    if isinstance(variable, UserDefinedObjectVariable):
        return not issubclass(type_of(variable), BaseException)
    return isinstance(variable, NNModuleVariable)


def _says_itself(kind: type) -> bool:
    """Whether the text of its instances is the user's word, or tells values that have no guard (a dataclass)."""
    return any(
        {"__str__", "__repr__", "__format__"} & vars(base).keys() and not is_torch_or_stdlib(base.__module__)
        for base in kind.__mro__
    )
