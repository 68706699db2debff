"""What a value of Python's is, in words that mean the same in another process. Tensors are in `tensors`.

Plain data by exact type and value; classes by name and by the code on them and on their bases, so that an edited or
replaced method is another class; functions by code, defaults and closure; modules, builtins and operators by name.
Anything else is refused where its identity counts, since a trace may have folded in whatever it holds.
"""

from __future__ import annotations

import collections
import contextlib
import contextvars
import enum
import functools
import os
import re
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch
from warmgraph.hashing import is_native_enum

from ..torch_api import compile as compat
from ..torch_api.frames.plain import Refused
from ..torch_api.frames.state import HigherOrderOperator, is_namespace_of_operators, marks_of, operators_in, ranks_text
from .classes import Classes, counted, is_heap_type, is_told_by_type, module_of, name_of, refuse_own_checks
from .codes import HARMLESS, STATEFUL, code_digest, function_name, module_text
from .held import (
    DESCRIPTORS,
    FIELD,
    NATIVE_CONSTANTS,
    OPERATORS,
    Slots,
    attributes_of,
    exact,
    fields_of,
    in_order,
    is_environment,
    is_mark,
    keys_of,
    member_text,
    names_on_operator,
    numpy_text,
    own_names,
    plain_text,
    said_as_a_whole,
    short,
    typing_text,
    variable_name,
)

# The text of these is exact: inf, -0.0 and the sign of nan are told apart.
_EXACT = (bool, int, float, complex, str, bytes, bytearray)
_OWNERS = (list, dict, set, collections.OrderedDict, collections.deque, torch.Tensor, torch.nn.Parameter)
_KEYS: Any = (type({}.keys()), type(collections.OrderedDict().keys()))
_MAX_KEYS = 5_000
_DISABLED = "__dynamo_disable"  # hung on torch's own functions when they are first called eagerly


class Values:
    """Fingerprints for one record or one restore: what was said of a class is kept, since nothing changes meanwhile."""

    def __init__(self) -> None:
        self.classes = Classes(self)
        self._busy: set[int] = set()
        self._covered: dict[int, types.CodeType] = {}
        self._slots = Slots()
        self.words: set[str] = set()  # texts that were compared: any of them may be the name of a variable
        self.functions: dict[int, types.FunctionType] = {}  # of which all was said

    def code(self, code: types.CodeType) -> str:
        self._covered[id(code)] = code
        return code_digest(code)

    def covered(self) -> list[types.CodeType]:
        """Code that is part of a fingerprint."""
        return list(self._covered.values())

    # -- data

    def constant(self, value: Any) -> str:
        """Plain data by type and value. Raises Refused."""
        kind = type(value)
        if kind is str:
            self.words.add(value)
        if value is None or value is Ellipsis or value is NotImplemented or kind in _EXACT:
            return f"{kind.__name__}:{exact(value)}"
        if kind in NATIVE_CONSTANTS:
            return f"{kind.__name__}:{value}"
        if kind in (tuple, list, torch.Size, set, frozenset, *_KEYS):  # a set in its order: code may iterate over it
            return f"{kind.__name__}:[{','.join(map(self.constant, value))}]"
        if kind in (dict, collections.OrderedDict, types.MappingProxyType):
            items = [f"{self.constant(key)}={self.constant(item)}" for key, item in value.items()]
            return f"{kind.__name__}:{{{','.join(items)}}}"
        if kind is range:
            return repr(value)
        if kind is slice:
            return f"slice:{','.join(map(self.constant, (value.start, value.stop, value.step)))}"
        if isinstance(value, enum.Enum):
            return f"enum:{self.classes.text(kind)}.{member_text(value)}"  # the class says its members
        if is_native_enum(value):
            return f"enum:{name_of(kind)}.{member_text(value)}"
        if isinstance(value, type):
            return f"class:{self.classes.text(value)}"
        if kind is types.CodeType:
            return f"code:{self.code(value)}"
        if module_of(value) == "numpy" and hasattr(value, "dtype") and not getattr(value, "shape", None):
            return f"numpy:{value.dtype}:{value!r}"
        if (ranks := ranks_text(value)) is not None:
            return ranks
        if kind is types.BuiltinFunctionType or isinstance(value, DESCRIPTORS):  # of torch, in a frozenset
            return self.identity(value)
        raise Refused(f"a value of {name_of(kind)}")

    # -- functions

    def function(self, function: types.FunctionType, *, strict: bool) -> str:
        """Code, defaults, closure, and the names of what is hung on it. strict: what cannot be said is refused."""
        marks = marks_of(function)
        if id(function) in self._busy:
            return "again"
        self._busy.add(id(function))
        self.functions[id(function)] = function
        try:
            parts = [function_name(function), self.code(function.__code__), marks]
            parts += [self._held(value, strict) for value in (function.__defaults__, function.__kwdefaults__)]
            parts += [self._cell(cell, strict) for cell in function.__closure__ or ()]
            parts += [f"{name}={self._hung(name, held)}" for name, held in vars(function).items() if name != _DISABLED]
            return short("\n".join(parts))
        finally:
            self._busy.discard(id(function))

    def _hung(self, name: str, held: Any) -> str:
        """On a function. Dynamo's own marks are said by `marks_of`; one of them is an address."""
        return "" if is_mark(name) else plain_text(held, self._held)

    def _cell(self, cell: types.CellType, strict: bool) -> str:
        try:
            return self._held(cell.cell_contents, strict)
        except ValueError:
            return "unbound"

    def member(self, value: Any) -> str:
        """What stands on a class under a name."""
        if isinstance(value, types.FunctionType):
            return self.function(value, strict=False)
        if isinstance(value, (staticmethod, classmethod)):
            return f"{type(value).__name__} {self.member(value.__func__)}"
        if isinstance(value, property):
            return "property " + " ".join(map(self.member, (value.fget, value.fset, value.fdel)))
        if isinstance(value, functools.cached_property):
            return f"cached_property {self.member(value.func)}"
        if type(value) is functools.partial:
            return f"partial {self.member(value.func)} {self._held(value.args)} {self._held(value.keywords)}"
        if module_of(value) == "functools" and hasattr(value, "__wrapped__"):
            return f"wrapped {self.member(value.__wrapped__)}"
        return self._held(value)

    def _held(self, value: Any, strict: bool = False) -> str:
        """What a function or class holds. What of an object matters has guards of its own, unless strict."""
        if isinstance(value, types.FunctionType):
            return self.function(value, strict=strict)
        if isinstance(value, type):
            return self.classes.text(value) if strict else self.classes.mention(value)
        if isinstance(value, enum.Enum):
            return f"{self.classes.mention(type(value))}.{member_text(value)}"
        if not strict and isinstance(value, tuple):  # also a named one
            text = ",".join(map(self._held, value))
            return f"{self.classes.mention(type(value))}[{text}]{self.plain_attributes(value)}"
        if not strict and type(value) is list:
            return f"list[{','.join(map(self._held, value))}]"
        if not strict and type(value) in (set, frozenset):  # of texts in another order in each process
            return f"{type(value).__name__}[{','.join(in_order(value, [*map(self._held, value)]))}]"
        if not strict and type(value) in (dict, collections.OrderedDict, types.MappingProxyType):
            return f"dict[{','.join(f'{self._held(key)}={self._held(item)}' for key, item in value.items())}]"
        try:
            return self.constant(value)
        except Refused:
            return self.identity(value) if strict else self._object(value)

    def _object(self, value: Any) -> str:
        """What stands for itself by name, or an object's class and its plain attributes."""
        if isinstance(value, re.Pattern):
            return f"pattern:{value.flags} {value.pattern!r}"
        if isinstance(value, (torch.finfo, torch.iinfo, FIELD)):
            return repr(value.__reduce__() if type(value) is FIELD else value)
        if isinstance(value, types.MethodType):
            return f"method:{self._held(value.__func__)} of {self._held(value.__self__)}"
        if isinstance(value, (types.GenericAlias, types.UnionType)):
            origin = self._held(getattr(value, "__origin__", None))
            return f"{type(value).__name__}:{origin} {self._held(value.__args__)}"
        if isinstance(value, types.MethodWrapperType):
            return f"slot:{value.__name__} of {self._held(value.__self__)}"
        if isinstance(value, (types.BuiltinFunctionType, types.ModuleType, *DESCRIPTORS, *OPERATORS)):
            try:
                return self.identity(value)
            except Refused:
                pass
        return f"<{name_of(type(value))} {self._attributes(value)}>"

    def _attributes(self, value: Any) -> str:
        """Plain attributes of an object by value, of others the names (a descriptor that a class holds, say)."""
        kind = type(value)
        if isinstance(value, (torch.Tensor, torch.nn.Module, types.ModuleType)) or not is_heap_type(kind):
            return ""
        return f"{self.classes.mention(kind)} {short(chr(10).join(self.plain_attributes(value)))}"

    def plain_attributes(self, value: Any) -> list[str]:
        return [f"{name}={plain_text(held, self._held)}" for name, held in sorted(attributes_of(value).items())]

    # -- objects

    def identity(self, value: Any) -> str:
        """Which object this is, of those that a name and their code say all of. Raises Refused."""
        if isinstance(value, types.ModuleType):
            return module_text(value)
        if isinstance(value, type):
            refuse_own_checks(value)
            return f"class:{self.classes.text(value)}{counted(value)}{marks_of(value)}"
        if isinstance(value, types.FunctionType):
            return f"function:{self.function(value, strict=True)}"
        if isinstance(value, (types.BuiltinFunctionType, types.BuiltinMethodType)):
            name = f"{self._owner(value)}.{value.__qualname__}"
            if value.__name__ in STATEFUL or (name.startswith("sys.") and name not in HARMLESS):
                raise Refused(f"{name}() differs from process to process")
            return f"builtin:{name}{marks_of(value)}"
        if isinstance(value, types.MethodWrapperType) and isinstance(value.__self__, DESCRIPTORS):
            return f"{self.identity(value.__self__)}.{value.__name__}"  # what a `__torch_function__` gets for `x.shape`
        if isinstance(value, DESCRIPTORS):
            return f"descriptor:{name_of(value.__objclass__)}.{value.__name__}"
        if isinstance(value, (compat.OpOverload, compat.OpOverloadPacket)):
            return f"op:{value}{marks_of(value)}"
        if isinstance(value, HigherOrderOperator):
            return f"hop:{name_of(type(value))}:{value}"
        if isinstance(value, (property, staticmethod, classmethod)):
            return f"{type(value).__name__}:{self.member(value)}"
        if isinstance(value, types.MethodType) and isinstance(value.__self__, type):
            return f"method:{self.classes.text(value.__self__)} {self.identity(value.__func__)}"
        if module_of(value) == "functools" and hasattr(value, "__wrapped__"):  # lru_cache: Dynamo traces through it
            return f"lru:{self.identity(value.__wrapped__)}"
        if (text := typing_text(value, self.identity)) is not None:
            return text
        if isinstance(value, re.Pattern):
            return self._object(value)
        if isinstance(value, contextvars.ContextVar):  # what it holds is guarded, but not whether it does
            return f"contextvar:{variable_name(value)} {value in contextvars.copy_context()}"
        if (text := numpy_text(value)) is not None:
            return f"numpy:{text}"
        if (text := said_as_a_whole(value)) is not None:
            return f"{name_of(type(value))}:{text}"
        try:
            return f"constant:{self.constant(value)}"
        except Refused:
            raise Refused(f"the identity of an object of {name_of(type(value))}") from None

    def _owner(self, value: Any) -> str:
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            return getattr(owner, "__name__", "")
        if type(owner).__name__.startswith("pybind11"):
            return value.__module__ or ""
        if isinstance(owner, type):
            return f"type {name_of(owner)}"
        if isinstance(owner, frozenset) and value.__name__ == "__contains__":
            return f"frozenset:{sorted(map(self.constant, owner))}"
        with contextlib.suppress(Refused):
            return self.constant(owner)
        if type(owner) in _OWNERS:  # `outs.append` on the stack at a graph break: the walk says what is in it
            return f"a {name_of(type(owner))}"
        raise Refused(f"compiled method {value.__qualname__} bound to an object")

    def surface(self, value: Any, asked: set[str]) -> str:
        """The names and keys that a value has: a trace that looked for others and found none leaves no guard.

        asked: names that the traced code asks for.
        """
        if is_environment(value):  # others differ everywhere
            return short("\n".join(sorted(word for word in self.words | asked if word in os.environ)))
        if isinstance(value, (dict, types.MappingProxyType)):
            return self._keys(keys_of(value), self.key_of_dict)
        if isinstance(value, (set, frozenset)):
            return self._keys(sorted(value, key=repr), self.key)  # who iterates has a guard for each item
        if isinstance(value, types.FunctionType):
            return self.function(value, strict=False)
        if isinstance(value, type):
            return self.classes.text(value)
        if isinstance(value, (list, tuple, collections.deque)):
            return f"{name_of(type(value))} {len(value)}"
        if isinstance(value, (compat.OpOverload, compat.OpOverloadPacket)):
            return f"{self.identity(value)} {names_on_operator(value, asked)}"
        if isinstance(value, types.ModuleType):  # of its names see `spaces`
            if is_namespace_of_operators(value):  # torch finds them as they are asked for
                return operators_in(value, asked)
            return "" if type(value) is types.ModuleType else self.classes.text(type(value))
        if any("__class__" in vars(base) for base in type(value).__mro__[:-1] if base.__module__ != "builtins"):
            raise Refused(f"an object of {name_of(type(value))} says itself what its class is")
        kind = type(value)
        if not is_told_by_type(value):
            return self.identity(value)
        names = [name for name in own_names(value) if not str(name).startswith(_OF_A_PROCESS)]
        names += self._slots.filled(value)
        more = f" {self.constant(value.enter_result)}" if isinstance(value, contextlib.nullcontext) else ""
        return f"{self.classes.text(kind)} {short(chr(10).join(map(str, names)))}{more}"

    def _keys(self, keys: Iterable[Any], text: Callable[[Any], str]) -> str:
        if len(keys := list(keys)) > _MAX_KEYS:
            raise Refused(f"a table of {len(keys)} entries")
        return f"{len(keys)} {short(chr(10).join(map(text, keys)))}"

    def key_of_dict(self, value: Any) -> str:
        """Of tensors (an optimizer's state) sources say which they are, see `recording`."""
        by_address = isinstance(value, torch.Tensor) and type(value).__hash__ is torch.Tensor.__hash__
        return "tensor" if by_address else self.key(value)

    def key(self, value: Any) -> str:
        """An item of a set, or a name in a table."""
        with contextlib.suppress(Refused):
            return self.constant(value)
        if (fields := fields_of(value)) is None:
            return self.identity(value)
        return f"{self.classes.text(type(value))}:[{','.join(map(self.key, fields))}]"


COMPOSABLE = "__composable_api_state_key_"  # FSDP's names of attributes begin so, and end in a random number
_OF_A_PROCESS = ("_dynamo_", COMPOSABLE)  # the first are what Dynamo notes
