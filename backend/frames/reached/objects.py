"""What one object is and holds, line by line, for the walk: by its kind. Asks Python's own classes, and runs no code
of the user's.
"""

from __future__ import annotations

import array
import collections
import contextvars
import dataclasses
import enum
import functools
import logging
import operator
import os
import re
import threading
import types
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from msgspec import Struct
from warmgraph.hashing import module_of_class

from ...torch_api.frames.acting import left_by_dynamo
from ...torch_api.frames.plain import Refused
from ...torch_api.frames.state import marks_of
from ..classes import is_known, is_librarys, name_of
from ..codes import asked_names, code_digest, function_name
from ..held import (
    DESCRIPTORS,
    FIELD,
    OPERATORS,
    Descriptors,
    attributes_of,
    is_environment,
    lasting_members,
    said_as_a_whole,
    slots_of,
)
from ..program import is_installed
from ..rules import COMPARED
from .compiled import attributes, builtin, iterator, method, nothing, numpy_array, tensor, variable
from .containers import (
    Lines,
    Walking,
    attributes_are_of_program,
    hooks_of,
    memory,
    own_text,
    sequence,
    table,
    unordered,
    view,
)
from .protocols import note_protocol, others_that_count

_BY_TORCH = frozenset("forward backward setup_context jvp vmap generate_vmap_rule".split())  # called by torch itself
HOOKS = frozenset(
    """
    _backward_pre_hooks _backward_hooks _forward_hooks _forward_pre_hooks _forward_hooks_with_kwargs
    _forward_pre_hooks_with_kwargs _forward_hooks_always_called
    """.split()
)
_OF_MODULES = HOOKS | frozenset(
    """
    training _parameters _buffers _non_persistent_buffers_set _is_full_backward_hook _modules _call_impl
    _wrapped_call_impl forward
    """.split()
)
# What torch's machinery and we hold of a frame, and what a logger or a lock leads to, is no data of the program's.
_CUT = re.compile(r"torch\._|torch\.utils\._|(torch\.fx|torch\.autograd|warmgraph|logging|threading|_thread)(\.|$)")
_OF_DISPATCH = ("dispatch_cache", "cache_token")  # of functools.singledispatch: filled while it is traced
_GENERATED = "__pydantic_"  # schemas, in which ids of classes stand; what they are made of is said
_FIELDS = frozenset("fields asdict astuple replace".split())  # of dataclasses
_CONTAINERS = (dict, list, tuple, set, frozenset)
_RUNNING = (types.FrameType, types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType, types.TracebackType)
# What Python keeps on classes and modules for itself, or what has no behaviour; the last is of `module.compile()`.
BOOKKEEPING = frozenset(
    """
    __dict__ __weakref__ __module__ __qualname__ __annotations__ __abstractmethods__ _abc_impl __static_attributes__
    __firstlineno__ __annotate__ __annotate_func__ __annotations_cache__ __builtins__ __slotnames__ __signature__
    __non_callable_proto_members__ __vectorcalloffset__ __dictoffset__ __weaklistoffset__ _backward_cls
    _autograd_function_id
    __classdictcell__ _compiled_call_impl
    """.split()
)


def lines_of(walk: Walking, value: Any) -> Iterator[str]:
    """Raises Refused."""
    kind: Any = type(value)
    yield name_of(kind)
    if is_environment(value):
        yield from (f"{key}={os.environ[key]!r}" for key in sorted(walk.asked) if key in os.environ)
        return
    exact = _EXACT.get(id(kind))
    if exact is not None:
        yield from exact(walk, value)
        return
    yield from _kind(walk, kind).lines(walk, value)


def comes_by_name(value: Any) -> bool:
    """Whether torch or Python brings it, and its name says which: not what a decorator only calls so."""
    kind: Any = type(value)
    if issubclass(kind, type):
        return module_of_class(value).partition(".")[0] == "torch" or is_librarys(value)
    if kind is types.FunctionType:
        return has_known_globals(value) and not value.__closure__
    if issubclass(kind, types.ModuleType):
        name = str(space_of(value).get("__name__"))
        return is_known(name) or name.partition(".")[0] == "warmgraph"
    if kind is property:
        return all(map(comes_by_name, filter(None, (value.fget, value.fset, value.fdel))))
    if kind in (staticmethod, classmethod):
        return comes_by_name(value.__func__)
    if kind in (functools.cached_property, functools.partialmethod):
        return comes_by_name(value.func)
    return kind is types.BuiltinFunctionType or kind in DESCRIPTORS or issubclass(kind, OPERATORS)


def has_known_globals(function: types.FunctionType) -> bool:
    """Whether a file of torch's or of Python's library made it."""
    return is_known(function.__globals__.get("__name__"))


def space_of(holder: Any) -> Mapping[str, Any]:
    """Its names. A module that loads itself when it is asked is not asked."""
    found: Mapping[str, Any] = object.__getattribute__(holder, "__dict__")
    return found


# -- by kind


class _Kind(Struct):
    """Of a class, for all its objects. contents: of the container or number that it inherits, if any. always: names
    that count in any case. cut: whether nothing that its objects hold counts.
    """

    cls: Any  # alive, so that no id is used twice
    lines: Lines
    contents: Lines | None
    always: frozenset[str]
    cut: bool
    is_module: bool
    slots: Descriptors


def _kind(walk: Walking, cls: Any) -> _Kind:
    found = walk.kinds.get(id(cls))
    if found is None:
        is_module = issubclass(cls, torch.nn.Module)
        fields = getattr(cls, "__dataclass_fields__", ()) if walk.asked & _FIELDS else ()
        found = walk.kinds[id(cls)] = _Kind(
            cls=cls,
            lines=_lines_by_class(cls),
            contents=next((lines for base, lines in _CONTENTS if issubclass(cls, base)), None),
            always=frozenset((*(_OF_MODULES if is_module else ()), *fields, *_names_of_finders(cls))),
            cut=_CUT.match(module_of_class(cls)) is not None and not issubclass(cls, (torch.nn.Module, *_CONTAINERS)),
            is_module=is_module,
            slots=slots_of(cls),
        )
    return found


def _lines_by_class(cls: Any) -> Lines:
    for base, lines in _INHERITED:
        if issubclass(cls, base):
            return lines
    if module_of_class(cls) == "functools":
        return _of_functools
    if hasattr(cls, "__array_finalize__") or module_of_class(cls).partition(".")[0] == "numpy":
        return numpy_array
    return nothing if issubclass(cls, _RUNNING) else _object


def _object(walk: Walking, value: Any) -> Iterator[str]:
    """Attributes of any object, and what it has of a container or a number that it inherits."""
    kind = _kind(walk, type(value))
    yield walk.ref(kind.cls, "__class__")
    if (whole := said_as_a_whole(value)) is not None:
        yield whole
        return
    if kind.contents is not None:
        yield from kind.contents(walk, value)
    if kind.cut:
        return
    if issubclass(kind.cls, enum.Enum):
        yield f"{value._name_} {walk.ref(value._value_, 'value')}"
    if kind.is_module:
        walk.hooks.update(hooks_of(value))
    yield from walk.named(value, attributes_of(value, kind.slots), kind.always)


def _names_of_finders(kind: Any) -> set[str]:
    """What a `__getattr__` of the user's asks for: a trace may run it without tracing it."""
    found = (vars(base).get(name) for base in kind.__mro__ for name in ("__getattr__", "__getattribute__"))
    functions = [one for one in found if type(one) is types.FunctionType and not has_known_globals(one)]
    return asked_names(one.__code__ for one in functions)


def _class(walk: Walking, cls: Any) -> Iterator[str]:
    yield f"{name_of(cls)} {others_that_count(cls, walk.asked)} {walk.ref(type(cls), '__class__')}"
    for number, base in enumerate(cls.__mro__[1:]):
        yield walk.ref(base, f"base {number}")
    note_protocol(walk, cls)
    everything = issubclass(type(cls), enum.EnumMeta) or (walk.everything and attributes_are_of_program(cls))
    for key, value in list(vars(cls).items()):
        if key in BOOKKEEPING or key.startswith(_GENERATED) or (key == "__doc__" and key not in walk.asked):
            continue
        if key == "_value2member_map_" and issubclass(cls, enum.Flag):  # combinations are put there when they are made
            yield f"{key}={[walk.ref(one, one._name_) for one in lasting_members(cls)]}"
        elif everything or key in walk.asked or key in _BY_TORCH or key.startswith("__"):
            yield f"{key}={walk.ref(value, key)}"


def _function(walk: Walking, value: types.FunctionType) -> Iterator[str]:
    yield f"{function_name(value)} {marks_of(value)} {walk.left_out(value)} {_code(value.__code__)}"
    if "__doc__" in walk.asked:
        yield repr(value.__doc__)
    if "__annotations__" in walk.asked:
        # Not which dictionary it is, nor which text: of functions that a compiled frame made, several have one.
        for key, one in value.__annotations__.items():
            yield f"{key}:{one!r}" if type(one) is str else f"{key}:{walk.ref(one, key)}"
    for key in ("__defaults__", "__kwdefaults__"):
        if (held := getattr(value, key)) is not None:
            yield f"{key}={walk.ref(held, key)}"
    for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
        if name not in _OF_DISPATCH or value.__globals__.get("__name__") != "functools":
            yield walk.ref(cell, name)
    yield from walk.named(value, vars(value), ("__wrapped__",))


def _code(code: types.CodeType) -> str:
    try:
        return code_digest(code)
    except Refused as why:
        return str(why)


def _cell(walk: Walking, value: types.CellType) -> Iterator[str]:
    try:
        yield walk.item(id(value), "cell_contents", value.cell_contents)
    except ValueError:
        yield "empty"


def _space(walk: Walking, value: types.ModuleType) -> Iterator[str]:
    """Not what Dynamo left, nor the modules in an installed package: what a compile imports comes to lie there."""
    space = space_of(value)
    name, left = str(space.get("__name__")), left_by_dynamo(space)
    yield name
    held = {key: one for key, one in space.items() if key not in left and not _is_within(name, key, one)}
    yield from walk.named(value, held)


def _is_within(package: str, key: Any, held: Any) -> bool:
    if not issubclass(type(held), types.ModuleType):
        return False
    space = space_of(held)
    return space.get("__name__") == f"{package}.{key}" and is_installed(str(space.get("__file__")))


def _of_functools(walk: Walking, value: Any) -> Iterator[str]:
    if "__wrapped__" in getattr(value, "__dict__", {}):
        return walk.named(value, vars(value), ("__wrapped__",))
    return _object(walk, value)


_KINDS: dict[Any, Lines] = {
    dict: table,
    collections.OrderedDict: table,
    list: sequence,
    tuple: sequence,
    set: unordered,
    frozenset: unordered,
    types.FunctionType: _function,
    types.BuiltinFunctionType: builtin,
    types.CellType: _cell,
    types.MethodType: method,
    staticmethod: attributes("__func__"),
    classmethod: attributes("__func__"),
    property: attributes("fget", "fset", "fdel"),
    functools.cached_property: attributes("func"),
    slice: attributes("start", "stop", "step"),
    **dict.fromkeys((range, torch.Size, torch.finfo, torch.iinfo, operator.itemgetter, operator.attrgetter), own_text),
    torch.Generator: nothing,
    types.GenericAlias: attributes("__origin__", "__args__"),
    types.UnionType: attributes("__args__"),
    types.MethodWrapperType: attributes("__name__", "__self__"),
    types.MappingProxyType: view,
    types.CodeType: lambda walk, value: iter((_code(value),)),
    dataclasses.Field: attributes("name", "default", "default_factory", "metadata", "init", "repr", "hash", "compare"),
    re.Pattern: attributes("flags", "pattern"),
    threading.local: lambda walk, value: walk.named(value, vars(value)),
    contextvars.ContextVar: variable,
}
_ITERATORS = (
    *map(type, map(iter, ([], (), range(0), {}, {}.values(), {}.items(), set()))), zip, map, filter, enumerate, FIELD,
)  # fmt: skip
_KINDS.update(dict.fromkeys(_ITERATORS, iterator))
_EXACT = {id(kind): lines for kind, lines in _KINDS.items()}
ALWAYS_NUMBERED = frozenset(
    map(id, (dict, collections.OrderedDict, list, tuple, set, types.CellType, types.MethodType))
)
# Of classes that inherit from these as well.
_INHERITED: tuple[tuple[Any, Lines], ...] = (
    (type, _class),
    (torch.Tensor, tensor),
    (types.ModuleType, _space),
    (property, attributes("fget", "fset", "fdel")),
    (torch.nn.Module, _object),
)
_CONTENTS: tuple[tuple[Any, Lines], ...] = (
    (dict, table),
    ((list, tuple, collections.deque), sequence),
    ((array.array, bytearray), memory),
    ((set, frozenset), unordered),
    ((int, float, complex, str, bytes, *COMPARED), own_text),
    ((functools.partial, functools.partialmethod), attributes("func", "args", "keywords")),
    (weakref.ReferenceType, lambda walk, value: iter((walk.ref(value(), "()"),))),
    (logging.Logger, lambda walk, value: iter(walk.left_out(value))),
)
