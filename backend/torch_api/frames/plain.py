"""Constants and code objects as plain data (msgpack's), by an allow-list, and back. No pickle; of names only those of
classes are looked up, in modules that are loaded.
"""

from __future__ import annotations

import contextlib
import enum
import inspect
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch._dynamo.bytecode_transformation import get_code_keys
from warmgraph.hashing import comes_with_torch


class Refused(Exception):
    """This cannot be carried (when a frame is recorded), or is not as it was (when one is restored). `str()`: what.

    values_read: until then, to tell which of several records came nearest.
    """

    values_read = 0


class NotServed(Refused):
    """No frame of this process is restored: not the frame's own fault, and the same for each."""


Plain = Any  # what msgpack knows

_SEQUENCES: dict[str, Any] = {"tuple": tuple, "frozenset": frozenset, "Size": torch.Size, "list": list}
_NAMED_BY_TORCH = (torch.dtype, torch.layout, torch.memory_format)
# As Dynamo has it: what takes a NULL off the stack. In a file that it does not trace.
_NOTHING = (lambda: None).__code__.replace(co_filename=torch._dynamo.__file__)


def to_plain(value: Any) -> Plain:
    """One item `[tag, content]`. Raises Refused for anything that is not on the list."""
    kind: Any = type(value)
    if value is None or kind in (bool, str, bytes):
        return ["v", value]
    if kind is int:
        return ["v", value] if -(2**63) <= value < 2**63 else ["i", str(value)]
    if kind is float:
        return ["f", value.hex()]
    if kind is complex:
        return ["c", [value.real.hex(), value.imag.hex()]]
    if value is Ellipsis:
        return ["e", None]
    if kind in _SEQUENCES.values():
        return ["s", [kind.__name__, *map(to_plain, value)]]
    if kind is slice:
        return ["l", [to_plain(part) for part in (value.start, value.stop, value.step)]]
    if kind is torch.device:
        return ["d", str(value)]
    if kind in _NAMED_BY_TORCH:
        return ["t", str(value).removeprefix("torch.")]
    if kind is types.CodeType:
        return ["code", code_to_plain(value)]
    if kind is types.MethodType and isinstance(cls := value.__self__, type):  # a named tuple's `_make`
        name = value.__name__
        if getattr(cls, name, None) == value:
            return ["method", [to_plain(cls), name]]
    if kind is types.MethodWrapperType and type(value.__self__) is types.GetSetDescriptorType:
        getter = [to_plain(value.__self__.__objclass__), value.__self__.__name__]  # `torch.Tensor.shape.__get__`
        if value.__name__ == "__get__" and _getter(getter) == value:
            return ["getter", getter]
    if kind in _DESCRIPTORS and vars(value.__objclass__).get(value.__name__) is value:  # `torch.Tensor.mul`
        return ["descriptor", [to_plain(value.__objclass__), value.__name__]]
    if kind is types.BuiltinFunctionType and getattr(torch, value.__name__, kind) is value:  # `torch.add`
        return ["of torch", value.__name__]
    if kind is types.FunctionType and _does_nothing(value):
        return ["nothing", None]
    if isinstance(kind, enum.EnumMeta):  # `~Flag.A` puts what is left on that member
        is_named = value._name_ in vars(kind)["_member_map_"]
        member = [to_plain(kind), to_plain(value._name_ if is_named else value._value_)]
        if _member(member) is value:
            return ["member", member]
    if isinstance(value, type) and stands_by_name(value):
        return ["class", [value.__module__, value.__qualname__]]
    if isinstance(value, type) and value in _PYTHONS:  # pytree's table has the class of None
        return ["class", ["types", _PYTHONS[value]]]
    if kind is dict and (module := module_of_globals(value)) is not None:
        return ["globals", module]
    raise Refused(f"a constant of {kind.__module__}.{kind.__qualname__}")


def from_plain(item: Plain) -> Any:
    """Raises Refused for a tag that is unknown; ValueError or TypeError for content that is not of its tag."""
    tag, content = item
    if tag == "s":
        name, *items = content
        return _SEQUENCES[name](map(from_plain, items))
    read = _READ.get(tag)
    if read is None:
        raise Refused(f"unknown constant {tag!r:.20}")
    return read(content)


def loaded(name: str) -> Any:
    """The module of this name. Raises Refused where there is none in this process."""
    found = sys.modules.get(name)
    if found is None:
        raise Refused(f"module {name} is not loaded")
    return found


def named(module: str, path: str) -> Any:
    """What stands under a name in a module that is loaded, without asking descriptors. Raises Refused."""
    found = loaded(module)
    for part in path.split("."):
        spaces = found.__mro__ if isinstance(found, type) else (found,)
        holder = next((space for space in spaces if part in getattr(space, "__dict__", ())), None)
        if holder is None:
            raise Refused(f"{module}.{path} is not there")
        found = vars(holder)[part]
    return found


def _does_nothing(function: types.FunctionType) -> bool:
    code = function.__code__
    same = (code.co_code, code.co_consts, code.co_argcount) == (_NOTHING.co_code, _NOTHING.co_consts, 0)
    return same and comes_with_torch(code.co_filename)


def module_of_globals(space: Mapping[str, Any]) -> str | None:
    """The module whose namespace this is; None where it is no module's."""
    name = space.get("__name__")
    return name if type(name) is str and getattr(sys.modules.get(name), "__dict__", None) is space else None


# Classes of Python's own, whose own names lead to nothing.
_PYTHONS = {cls: name for name, cls in vars(types).items() if isinstance(cls, type) and cls.__module__ == "builtins"}


def stands_by_name(value: Any) -> bool:
    """Whether who looks for this class or function by its own name finds this very one."""
    with contextlib.suppress(Refused):
        return named(value.__module__, value.__qualname__) is value
    return False


def _class(content: Plain) -> type:
    found = named(*content)
    if not isinstance(found, type):
        raise Refused(f"{'.'.join(content)} is no class")
    return found


def _method(content: Plain) -> Any:
    cls, name = from_plain(content[0]), content[1]
    found = getattr(cls, name)
    if type(found) is not types.MethodType or found.__self__ is not cls:
        raise Refused(f"{cls.__qualname__}.{name} is no method of the class")
    return found


def _getter(content: Plain) -> Any:
    """Of a class in C, how it finds an attribute."""
    return _of_class(content, (types.GetSetDescriptorType,), "attribute of objects").__get__


def _member(content: Plain) -> Any:
    cls, name = map(from_plain, content)
    if type(name) is int and issubclass(cls, enum.Flag):  # a combination, by its number; runs nothing of the program's
        found = vars(cls)["_value2member_map_"].get(name)
        python: Any = enum.Flag._missing_.__func__  # type: ignore[attr-defined]
        if found is None and getattr(cls._missing_, "__func__", cls) is python:
            found = python(cls, name)
    else:
        found = vars(cls).get("_member_map_", {}).get(name) if type(name) is str else None
    if type(found) is not cls:
        raise Refused(f"{cls.__qualname__} has no member {name!r:.40}")
    return found


def _of_class(content: Plain, kinds: tuple[type, ...], what: str) -> Any:
    """What a class in C holds under a name."""
    cls, name = from_plain(content[0]), content[1]
    found = vars(cls).get(name)
    if type(found) not in kinds:
        raise Refused(f"{cls.__qualname__}.{name} is no {what} in C")
    return found


def _of_torch(name: str) -> Any:
    found = getattr(torch, name, None)
    if type(found) is not types.BuiltinFunctionType:
        raise Refused(f"torch.{name} is no function in C")
    return found


_DESCRIPTORS = (types.MethodDescriptorType, types.WrapperDescriptorType)


def classes_in(value: Any) -> Iterator[type]:
    """Classes that a code object names as constants, or of which one is a member or a method."""
    if isinstance(value, (tuple, frozenset)):
        for one in value:
            yield from classes_in(one)
    elif isinstance(value, types.CodeType):
        yield from classes_in(value.co_consts)
    elif isinstance(value, types.MethodType):
        yield from classes_in(value.__self__)
    elif isinstance(type(value), enum.EnumMeta):
        yield type(value)
    elif isinstance(value, type):
        yield value


def _named_by_torch(name: str) -> Any:
    found = getattr(torch, name)
    if type(found) not in _NAMED_BY_TORCH:
        raise Refused("not a constant of torch")
    return found


def code_to_plain(code: types.CodeType) -> Plain:
    """All of a code object. Its constants are on the list of `to_plain`, or annotations of functions that it makes."""
    plain = {name: to_plain(getattr(code, name)) for name in get_code_keys() if name != "co_consts"}
    constants = [
        ["annotations", _annotations(one)] if _annotates(one, code) else to_plain(one) for one in code.co_consts
    ]
    return [plain.get(name, ["s", ["tuple", *constants]]) for name in get_code_keys()]


def _annotates(constant: Any, code: types.CodeType) -> bool:
    """Whether it says the types of a function's parameters. Dynamo has namespaces among constants as well, in which a
    function would look up no such name: it is its own.
    """
    if type(constant) is not dict:
        return False
    made = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return any(constant.keys() <= {*_parameters(one), "return"} for one in made)


def _annotations(constant: dict[str, Any]) -> Plain:
    return [[name, to_plain(kind)] for name, kind in constant.items()]


def _parameters(code: types.CodeType) -> tuple[str, ...]:
    extra = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + extra]


def code_from_plain(data: Plain, rename: Mapping[str, str]) -> types.CodeType:
    """A code object. rename: names that it looks up, as they are called in this process."""
    values = dict(zip(get_code_keys(), map(from_plain, data), strict=True))
    values["co_names"] = tuple(rename.get(name, name) for name in values["co_names"])
    return types.CodeType(*values.values())


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """Code objects within `code`, at any depth."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from nested(constant)


def placed(code: types.CodeType, was: str, now: str, lines: int) -> types.CodeType:
    """`code` as if its file, `was`, were `now` and began so many lines later: what tracebacks and warnings name."""
    within = tuple(placed(one, was, now, lines) if isinstance(one, types.CodeType) else one for one in code.co_consts)
    if code.co_filename != was:
        return code.replace(co_consts=within)
    return code.replace(co_consts=within, co_filename=now, co_firstlineno=max(code.co_firstlineno + lines, 0))


def _interned(content: Any) -> Any:
    """As Python does with names: a guard that looks one up compares it with one that is."""
    return sys.intern(content) if type(content) is str and content.isidentifier() else content


_READ: dict[str, Any] = {
    "v": _interned,
    "i": int,
    "f": float.fromhex,
    "c": lambda content: complex(*map(float.fromhex, content)),
    "e": lambda content: Ellipsis,
    "l": lambda content: slice(*map(from_plain, content)),
    "d": torch.device,
    "t": _named_by_torch,
    "code": lambda content: code_from_plain(content, {}),
    "class": _class,
    "annotations": lambda content: {_interned(name): from_plain(kind) for name, kind in content},
    "member": _member,
    "globals": lambda name: vars(loaded(name)),
    "nothing": lambda content: types.FunctionType(_NOTHING, {}),
    "method": _method,
    "getter": _getter,
    "descriptor": lambda content: _of_class(content, _DESCRIPTORS, "method"),
    "of torch": _of_torch,
}
