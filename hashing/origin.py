"""Which code a key's toolchain part fixes already: torch's and the standard library's own. By file, not by claim."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from . import torch_names

_NAMES = frozenset(sys.stdlib_module_names) | {"torch", "builtins"}
_STDLIB = os.path.dirname(os.__file__) + os.sep  # noqa: PTH120 - compared as text, once
_TORCH = os.path.dirname(torch.__file__) + os.sep  # noqa: PTH120
# What `warmgraph run` puts around torch.compile; Python loads it under a name of its own.
_STARTUP = os.path.join(os.path.dirname(os.path.dirname(__file__)), "scripts", "startup") + os.sep  # noqa: PTH118, PTH120
_INSTALLED = ("site-packages", "dist-packages")
HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: made at run time, by a `class` statement or a call

# Packages whose functions torch's own modules import by name; theirs are not put there by a user.
_OF_TORCH = frozenset(
    """
    sympy mpmath numpy networkx jinja2 fsspec filelock typing_extensions triton torchgen functorch optree psutil tqdm
    packaging yaml markupsafe warmgraph
    """.split()
)


def module_of_class(cls: Any) -> str:
    """Empty where that is no text: a metaclass of compiled code describes the `__module__` of its classes."""
    found = cls.__module__
    return found if isinstance(found, str) else ""


def is_torch_or_stdlib(module: str | None) -> bool:
    """Whether code of this module is fixed by the toolchain: torch's own, or the standard library's."""
    top = module.partition(".")[0] if isinstance(module, str) else ""
    return top in _NAMES and _is_where_it_belongs(top)


@functools.lru_cache(maxsize=1024)
def _is_where_it_belongs(top: str) -> bool:
    """A user's `test/` or `profile.py` shadows the library's module, and is not fixed by anything."""
    if top == "torch":
        return True
    loaded = sys.modules.get(top)
    spec = getattr(loaded, "__spec__", None) or (importlib.util.find_spec(top) if loaded is None else None)
    origin = getattr(spec, "origin", None)
    if getattr(spec, "name", top) != top:  # `six.moves` imports modules of the library under names of its own
        origin = getattr(loaded, "__file__", "built-in" if top in sys.builtin_module_names else None)
    if origin in ("built-in", "frozen"):
        return True
    return origin is not None and _is_stdlib(origin)


def _is_stdlib(file: str) -> bool:
    return file.startswith(_STDLIB) and not any(part in file for part in _INSTALLED)


@functools.lru_cache(maxsize=8192)
def _is_fixed_file(file: str) -> bool | None:
    """Whether code of this file comes with torch or Python; None for code that has no file."""
    if file.startswith("<frozen "):
        return True
    if file.startswith("<"):
        return None
    return file.startswith(_TORCH) or _is_stdlib(file)


def comes_with_torch(file: str) -> bool:
    """Whether `file` is one of torch's or the standard library's."""
    return bool(_is_fixed_file(file))


def is_torch_or_stdlib_code(function: types.FunctionType) -> bool:
    """Whether the code that runs is torch's own or the library's, whatever the function's name says.

    A function keeps its name when its `__code__` is replaced. What `exec` made (a dataclass's methods) has no file;
    it belongs to the module whose globals it reads.
    """
    known = _is_fixed_file(function.__code__.co_filename)
    return is_torch_or_stdlib(function.__globals__.get("__name__")) if known is None else known


def named_by_torch(code: Any) -> bool:
    """Whether a class's or function's name says all of it: torch's own or the library's, and not one around a user's.

    `functools.wraps(torch.relu)` gives a user's function torch's name; `torch.no_grad()(f)` is a function of torch's
    that calls the user's, and has the user's name; a class made by `types.new_class` says that it is of `types`.
    """
    if not is_torch_or_stdlib(getattr(code, "__module__", None)):
        return False
    if not isinstance(code, types.FunctionType):
        return not code.__flags__ & HEAP_TYPE or _leads_back(code)
    if not is_torch_or_stdlib(code.__globals__.get("__name__")) or not is_torch_or_stdlib_code(code):
        return False
    if code.__closure__ is None and not hasattr(code, "__wrapped__"):
        return (code.__defaults__ is None and code.__kwdefaults__ is None) or foreign(code) is None
    return _leads_back(code) and foreign(code) is None


def _leads_back(code: Any) -> bool:
    found: Any = sys.modules.get(code.__module__)
    for part in code.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is code


# Types whose values hold no code, by far the most frequent ones in a closure.
_PLAIN = frozenset(
    {type(None), bool, int, float, str, bytes, torch.dtype, torch.device, torch.layout, torch.memory_format}
)
_DESCRIPTORS = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
_DESCRIPTOR_TYPES = frozenset(_DESCRIPTORS)


_generated: dict[int, dict[str, Any]] = {}


def is_generated_by_torch(space: dict[str, Any]) -> None:
    """Tell that functions with these globals, which have no file and no module, were written by torch itself."""
    _generated[id(space)] = space


def foreign(value: Any, clean: set[Any] | None = None) -> Any | None:
    """The first piece of code inside `value` that comes neither with torch nor with Python, or None.

    Looks into closures, defaults, wrapped functions, bound methods and attributes of objects, as far as torch's own
    wrappers go. Packages that torch itself imports, and warmgraph, count as torch's. clean: what is known to hold
    none, for a caller that asks of many values while they all live; it grows.
    """
    # The most frequent ones first: a process's first key asks of 20,000 values.
    kind = type(value)
    seen: set[Any] = set() if clean is None else clean  # functions, and ids of what else there is
    waiting = [value]
    if kind is types.FunctionType:
        if value in seen:
            return None
        # From Python 3.12 on filelock answers each audit event in Python, as these and `id` are: as few as can be.
        code = value.__code__
        if not _is_ours(value, code):
            return value
        waiting = []
        if code.co_argcount and (defaults := value.__defaults__):
            waiting += defaults
        if code.co_kwonlyargcount and (named := value.__kwdefaults__):
            waiting += named.values()
        if value.__closure__ is not None or value.__dict__:
            waiting += _around(value)
        if not waiting:
            return None
        seen.add(value)
    elif kind in _DESCRIPTOR_TYPES:
        return None if _is_toolchain(_module_of_builtin(value)) else value
    elif kind is type and _is_toolchain(value.__module__):
        return None
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind in _PLAIN or (mark := item if kind is types.FunctionType else id(item)) in seen:
            continue
        seen.add(mark)
        inner = _READ.get(kind, _inside)(item)
        if inner is None:
            if clean is not None:  # nothing is known of what led here
                seen.clear()
            return item
        waiting += inner
    return None


def _inside(value: Any) -> Iterable[Any] | None:
    """What `value` is made of, as far as it may hold code; None if it is foreign itself."""
    for base in type(value).__mro__:
        if (read := _READ.get(base)) is not None:
            return read(value)
    kind = type(value).__module__
    if not _is_toolchain(kind):
        return None
    if kind == torch_names.OPERATORS or isinstance(value, torch.Tensor) or not callable(value):
        return ()  # an operator: what is registered for it is asked one by one
    return getattr(value, "__dict__", {}).values()


def _inside_function(function: types.FunctionType) -> Iterable[Any] | None:
    if not _is_ours(function, function.__code__):
        return None
    return [function.__defaults__, function.__kwdefaults__, *_around(function)]


def _around(function: types.FunctionType) -> list[Any]:
    """What it is around: wrapped, or closed over."""
    found = [function.__dict__["__wrapped__"]] if "__wrapped__" in function.__dict__ else []
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not bound yet
            continue
    return found


def _is_ours(function: types.FunctionType, code: types.CodeType) -> bool:
    """Whether a function's own code counts as torch's, for `foreign`."""
    known = _is_fixed_file(code.co_filename)
    if known or code.co_filename.startswith(_STARTUP):
        return True
    space = function.__globals__.get("__name__")
    if known is None:  # made by `exec`: of a module, by the library for a named tuple, or around another function
        if space is None:
            space_of_cache = {"fn", "__builtins__", code.co_name}  # as Inductor caches methods
            cached = function.__globals__.keys() == space_of_cache and hasattr(function, "__wrapped__")
            return cached or id(function.__globals__) in _generated
        return is_torch_or_stdlib(space) or space.startswith("namedtuple_")
    return not is_torch_or_stdlib(space) and _is_toolchain(space)


def _inside_builtin(value: Any) -> Iterable[Any] | None:
    return () if _is_toolchain(_module_of_builtin(value)) else None


def _inside_class(value: Any) -> Iterable[Any] | None:
    return () if _is_toolchain(value.__module__) else None


# By class, which `foreign` asks at once; of a subclass by its bases, and not by what an object says that it is.
_READ: dict[type, Callable[[Any], Iterable[Any] | None]] = {
    types.FunctionType: _inside_function,
    **dict.fromkeys((tuple, list, set, frozenset), lambda value: value),
    dict: lambda value: value.values(),
    type: _inside_class,
    **dict.fromkeys(_DESCRIPTORS, _inside_builtin),
    types.ModuleType: lambda value: (),
    types.MethodType: lambda value: (value.__func__, value.__self__),
    functools.partial: lambda value: (value.func, *value.args, *value.keywords.values()),
    **dict.fromkeys((staticmethod, classmethod), lambda value: (value.__func__,)),
    property: lambda value: (value.fget, value.fset),
}


def replaced_within(code: Any) -> dict[str, Any]:
    """What was replaced beneath a piece of torch's or Python's own code: methods of a class, helpers in its module.

    torch's own modules are looked after by whoever knows all of them; the library's are looked at here.
    """
    found: dict[str, Any] = {}
    if isinstance(code, type):
        for base in code.__mro__:
            found |= _foreign_members(base, f"method of {base.__qualname__}: ")
    module = getattr(code, "__module__", None) or ""
    space = sys.modules.get(module)
    of_torch = module.partition(".")[0] == "torch"
    if (
        space is None
        or module == "builtins"
        or not is_torch_or_stdlib(module)
        or (isinstance(code, type) and not of_torch)
    ):
        return found
    if of_torch and (is_looked_after(module) or module.startswith(torch_names.CORE)):
        return found
    for name, value in tuple(vars(space).items()):
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)) and foreign(value) is not None:
            found[f"helper {module}.{name}"] = value
        elif isinstance(value, type) and value.__module__ == module:
            found |= _foreign_members(value, f"helper {module}.{name}.")
    return found


def _foreign_members(code: type, where: str) -> dict[str, Any]:
    if not is_torch_or_stdlib(code.__module__):
        return {}
    kinds = (types.FunctionType, staticmethod, classmethod, property)
    return {
        where + name: value
        for name, value in tuple(vars(code).items())
        if isinstance(value, kinds) and foreign(value) is not None
    }


def is_looked_after(module: str) -> bool:
    """Whether the functions of a module of torch's are compared with torch as installed, for each key."""
    return module == "torch" or module in torch_names.LOOKED_AFTER or module.startswith(_BELOW)


_BELOW = tuple(f"{name}." for name in torch_names.LOOKED_AFTER)


@functools.lru_cache(maxsize=4096)
def _is_toolchain(module: str | None) -> bool:
    return is_torch_or_stdlib(module or "builtins") or (module or "").partition(".")[0] in _OF_TORCH


def _module_of_builtin(value: Any) -> str | None:
    if not isinstance(value, types.BuiltinFunctionType):
        return str(value.__objclass__.__module__)
    owner = value.__self__
    return owner.__name__ if isinstance(owner, types.ModuleType) else value.__module__
