"""What lies on objects and functions, in words: plain data by value, at any depth; of the rest the type."""

from __future__ import annotations

import collections
import contextlib
import contextvars
import copyreg
import dataclasses
import enum
import functools
import os
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

import torch
from warmgraph.hashing import Uncacheable, encode, foreign, is_named_tuple, is_native_enum, sha256_hex

from ..key.triton_kernels import kernel_text
from ..torch_api import compile as compat
from ..torch_api.frames.plain import Refused
from ..torch_api.frames.state import HigherOrderOperator, autocast_text, ranks_text
from ..torch_api.operators import overload_names
from .classes import is_heap_type, is_known, name_of

NATIVE_CONSTANTS = (torch.dtype, torch.layout, torch.memory_format, torch.device, torch.finfo, torch.iinfo)
_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
OPERATORS = (compat.OpOverload, compat.OpOverloadPacket, HigherOrderOperator)
DESCRIPTORS = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType,
)  # fmt: skip
_CALLED = (types.FunctionType, types.BuiltinFunctionType, type, *OPERATORS)
_SEQUENCES, _SETS, _TABLES = (tuple, list, collections.deque), (set, frozenset), (dict, types.MappingProxyType)
# Plain, too, and said by whoever says functions.
_SAID = (slice, range, re.Pattern, torch.finfo, torch.iinfo, types.GenericAlias, types.UnionType)
# Of annotations; what `typing` makes is no type of Python's before 3.14.
ALIASES = (types.GenericAlias, types.UnionType, type(typing.Union[int, str]), type(typing.List[int]))  # noqa: UP006, UP007
# Union, Literal, ...; List, Mapping, Tuple, Callable, each for a class of its own.
_SPECIAL: Any = (*map(type, (typing.Optional, typing.List, typing.Tuple, typing.Callable)),)  # noqa: UP006
FIELD = type(vars(collections.namedtuple("_", "field"))["field"])  # of a named tuple: by its number
_LARGEST = 2_000  # items: a table of labels, say; a container counts as ten, so that none is too deep


def typing_text(value: Any, identity: Callable[[Any], str]) -> str | None:
    """Of what `typing` makes for annotations; None for anything else. identity: says a class."""
    kind: Any = type(value)
    if issubclass(kind, _SPECIAL) and getattr(typing, str(value._name), kind) is value:  # also a validator's key
        origin = getattr(value, "__origin__", None)
        return f"typing:{value._name}{'' if origin is None else ' ' + identity(origin)}"
    if kind is typing.TypeVar:
        return f"typing:{value.__module__}.{value.__name__}"
    if kind in ALIASES:
        inner = (getattr(value, "__origin__", None), *value.__args__)
        return f"{kind.__name__}:{[*map(identity, inner)]}"
    return None


def said_as_a_whole(value: Any) -> str | None:
    """Of a kernel of Triton's, a group of ranks or an autocast all that a trace can ask; None for anything else.

    Raises Refused.
    """
    try:
        return autocast_text(value) or ranks_text(value) or kernel_text(value)
    except Uncacheable as why:
        raise Refused(str(why)) from None


def numpy_text(value: Any) -> str | None:
    """Of a function of numpy's that stands under its own name, or of a dtype; None for anything else."""
    kind = type(value)
    if name_of(kind) in ("numpy.ufunc", "numpy._ArrayFunctionDispatcher"):
        home, name = value.__module__, value.__name__
        return f"{home}.{name}" if getattr(sys.modules.get(home), name, None) is value else None
    return str(value.str) if kind.__module__ == "numpy.dtypes" and value.isbuiltin == 1 else None


def fields_of(value: Any) -> list[Any] | None:
    """Of a tuple, or an object of a frozen dataclass: what compares and hashes it. None for anything else.

    Code of the user's that compares instead is seen as it runs.
    """
    kind = type(value)
    if kind is tuple or is_named_tuple(kind):
        return list(value)
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and parameters.frozen and parameters.eq:
        held = attributes_of(value)
        return [held.get(field.name) for field in dataclasses.fields(value)]
    return None


Descriptors = list[tuple[type, str, Any]]  # (class, name, descriptor)


_MADE_LATER = "_inverted_"  # of a flag: what is left without it, when that is first asked for


def attributes_of(value: Any, slots: Descriptors | None = None) -> dict[str, Any]:
    """By name: of its dictionary, and of its slots that hold something. Asks no code of its class's.

    slots: `slots_of` its class, from a caller that knows them.
    """
    found = {}
    with contextlib.suppress(AttributeError):
        found.update(object.__getattribute__(value, "__dict__"))
    for base, name, slot in slots_of(type(value)) if slots is None else slots:
        if is_heap_type(base):
            with contextlib.suppress(AttributeError):  # it holds nothing
                found[name] = slot.__get__(value, base)
    if issubclass(type(value), enum.Flag):
        found.pop(_MADE_LATER, None)
    return found


def own_names(value: Any) -> list[Any]:
    """Of its dictionary. Asks no code of its class's."""
    try:
        found = list(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        return []
    return [name for name in found if name != _MADE_LATER] if issubclass(type(value), enum.Flag) else found


_OF_COMBINATIONS = frozenset("_value_ _name_ _sort_order_ __objclass__".split())
_MAKE = ("_missing_", "_create_pseudo_member_")


def lasting_members(cls: type[enum.Flag]) -> list[Any]:
    """Of a class of flags. Combinations are put there by Python when they are first asked for: they count only where
    the program says how they are made, or has put something on one. (`~member` is found by two numbers afterwards.)
    """
    named, found = vars(cls)["_member_map_"], {id(one): one for one in dict.values(vars(cls)["_value2member_map_"])}
    members = [*found.values()]
    if any(name in vars(base) and not is_known(base.__module__) for base in cls.__mro__ for name in _MAKE):
        return members
    return [one for one in members if one._name_ in named or attributes_of(one).keys() - _OF_COMBINATIONS]


def variable_name(variable: contextvars.ContextVar[Any]) -> str:
    """Without the address that torch puts behind names of its own (`config.patch`, since 2.15)."""
    return re.sub(r"\[\d+\]$", "", variable.name) if variable.name.startswith("torch.") else variable.name


def names_on_operator(value: Any, asked: set[str]) -> list[str]:
    """Which of these names an operator has, or will have: torch adds to it as it is used."""
    overloads = overload_names(value) if isinstance(value, compat.OpOverloadPacket) else ()
    return sorted(asked & {*vars(value), *overloads})


class Slots:
    """Which slots of a value hold something. Each class is looked at once."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[type, Descriptors]] = {}

    def filled(self, value: Any) -> Iterator[str]:
        kind = type(value)
        found = self._of.get(id(kind))
        if found is None:
            found = self._of[id(kind)] = (kind, slots_of(kind))
        for base, name, slot in found[1]:
            with contextlib.suppress(AttributeError):
                slot.__get__(value, base)
                yield name


def slots_of(kind: type) -> Descriptors:
    """Of a class and its bases."""
    return [
        (base, name, member)
        for base in kind.__mro__
        for name, member in vars(base).items()
        if type(member) is types.MemberDescriptorType and name not in _OFFSETS
    ]


# How a class in C tells Python where it keeps these. Read as attributes of an object they are addresses.
_OFFSETS = ("__vectorcalloffset__", "__dictoffset__", "__weaklistoffset__")


def exact(value: Any) -> str:
    """A plain value as Python says it, and of what is no number the sign as well."""
    return repr(value) if value == value else f"{value!r} {encode(value)}"


def short(text: str, digits: int = 16) -> str:
    """A digest, of so many hex digits."""
    return sha256_hex(text.encode("utf-8", "surrogatepass"))[:digits]


def plain_text(held: Any, say: Callable[[Any], str]) -> str:
    """say: of functions, classes and operators."""
    return _text(held, say) if leaves(held) is not None else name_of(type(held))


def _text(held: Any, say: Callable[[Any], str]) -> str:
    kind: Any = type(held)

    def inner(one: Any) -> str:
        return _text(one, say)

    if kind in _PLAIN:
        return exact(held)
    if kind in NATIVE_CONSTANTS:
        return str(held)
    if isinstance(held, enum.Enum) or is_native_enum(held):
        return f"{name_of(kind)}.{member_text(held)}"
    if isinstance(held, _SEQUENCES):
        return f"{name_of(kind)}[{','.join(map(inner, held))}]"
    if isinstance(held, _SETS):
        return f"{name_of(kind)}[{','.join(in_order(held, [*map(inner, held)]))}]"
    if isinstance(held, _TABLES):
        return f"{name_of(kind)}{{{','.join(f'{inner(key)}={inner(item)}' for key, item in held.items())}}}"
    if kind is functools.partial:
        return f"partial {inner(held.func)} {plain_text(held.args, say)} {plain_text(held.keywords, say)}"
    return say(held) if isinstance(held, (*_CALLED, *_SAID)) else name_of(kind)


def is_said(value: Any) -> bool:
    """Whether `plain_text` says all of it."""
    found = leaves(value)
    said = (*_PLAIN, *NATIVE_CONSTANTS, *_CALLED, *_SAID, enum.Enum)
    return found is not None and all(isinstance(one, said) or is_native_enum(one) for one in found)


def leaves(value: Any) -> list[Any] | None:
    """What is in containers, at any depth; None for too much to be said, or for one that holds itself."""
    found, waiting, count = [], [value], 0
    while waiting:
        one = waiting.pop()
        if not isinstance(one, (*_SEQUENCES, *_SETS, *_TABLES)):
            found.append(one)
            continue
        count += len(one) + 10
        if count > _LARGEST:
            return None
        waiting += [*one.keys(), *one.values()] if isinstance(one, _TABLES) else one
    return found


def copied_classes(value: Any) -> dict[str, Any] | None:
    """Of Python's table of how objects are copied (`copyreg`): name of the class -> function. None for anything else.

    What stands on these classes does not count (of sympy's that is another thing in each process). Raises Refused.
    """
    if value is not copyreg.dispatch_table:
        return None
    # torch's own for its own classes come as its modules are imported (`nv_universal_gemm_utils`, of a compile alone).
    others = {cls: how for cls, how in value.items() if not _is_torchs(cls, how)}
    found = {name_of(cls): how for cls, how in others.items()}
    if len(found) < len(others) or any("<locals>" in name for name in found):
        raise Refused("copyreg has a class of which no name says which it is")
    return found


def _is_torchs(cls: Any, how: Any) -> bool:
    named = all(str(getattr(one, "__module__", "")).partition(".")[0] == "torch" for one in (cls, how))
    return named and foreign(how) is None


def in_order(items: Any, texts: list[str]) -> list[str]:
    """Of a set: numbers are in the same order in every process, texts are not."""
    return texts if {*map(type, items)} <= {bool, int, float} else sorted(texts)


def is_mark(name: str) -> bool:
    """Whether Dynamo hangs it on functions."""
    return name.startswith(("_torchdynamo", "__dynamo")) or name in ("_dynamo_forbidden", "_dynamo_marked_constant")


def keys_of(value: Any) -> list[Any]:
    """In the order in which code meets them; an OrderedDict has one of its own, beside that of the dict beneath."""
    if isinstance(value, collections.OrderedDict):
        return list(collections.OrderedDict.keys(value))
    return list(dict.keys(value) if isinstance(value, dict) else value.keys())


def is_environment(value: Any) -> bool:
    """Whether it is the process's: of that only the names that code asks for count."""
    return value is os.environ or value is getattr(os.environ, "_data", None)


def member_text(value: Any) -> str:
    """Of an enum. Not by `name`, which a class may say itself; a flag may have none."""
    if not isinstance(value, enum.Enum):
        return str(int(value))
    return f"{value._name_} {value._value_!r}" if type(value._value_) in (int, float, str) else str(value._name_)
