"""Python code by content: a function or class with everything it can reach, or a reason why that cannot be seen.

For code that torch traces into a graph but no part of the graph names: a custom operator's fake and backward,
a tensor subclass's `__torch_dispatch__`. Follows closures, defaults, globals and methods, as Triton's cache
follows a kernel's; torch and the standard library are fixed by the toolchain part and end the walk.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import sys
import types
from collections.abc import Iterator
from typing import Any

from .encode import Uncacheable, encode

MAX_FUNCTIONS = 500  # a closure that reaches further is not a description any more

_FIXED = frozenset(sys.stdlib_module_names) | {"torch", "builtins"}


def source_digest(code: Any, what: str) -> str:
    """Digest of a function or class with all it reaches. Raises Uncacheable, naming what cannot be seen."""
    walk = _Walk()
    try:
        walk.value(code, frozenset())
    except Uncacheable as bad:
        raise Uncacheable(f"{what}: {bad}", bad.cause) from None
    return hashlib.sha256("\n".join(walk.lines).encode()).hexdigest()


def is_fixed(module: str | None) -> bool:
    """Whether code of this module is fixed by the toolchain: torch's own, or the standard library's."""
    return (module or "").partition(".")[0] in _FIXED


class _Walk:
    """Depth first, each function and class once; what was seen is referred to by its number."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._seen: dict[int, int] = {}
        self._modules: set[tuple[int, frozenset[str]]] = set()
        self._kept: list[Any] = []  # keeps temporaries alive, so that an id stays theirs

    def value(self, value: Any, names: frozenset[str]) -> None:
        """Append what `value` is. `names`: attribute names used by the code that refers to it."""
        if isinstance(value, (staticmethod, classmethod)):
            self._say(type(value).__name__)
            value = value.__func__
        if isinstance(value, property):
            self.value([value.fget, value.fset], names)
        elif isinstance(value, functools.partial):
            self._say("partial")
            self.value([value.func, list(value.args), sorted(value.keywords.items())], names)
        elif isinstance(value, types.ModuleType):
            self._module(value, names)
        elif isinstance(value, types.MethodType):
            self.value(value.__func__, names)
            self.value(value.__self__, names)
        elif isinstance(value, (types.FunctionType, type)):
            self._code(value)
        elif isinstance(value, (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
            self._named(value, getattr(value, "__module__", None) or "builtins")
        elif type(value) in (list, tuple):
            self._say(f"{type(value).__name__} of {len(value)}")
            for item in value:
                self.value(item, names)
        else:
            self._constant(value)

    def _constant(self, value: Any) -> None:
        module = type(value).__module__
        if isinstance(value, logging.Logger):
            self._say(f"logger {value.name}")  # says things; decides nothing
            return
        if module == "functools" and hasattr(value, "__wrapped__"):  # lru_cache
            self.value(value.__wrapped__, frozenset())
            return
        if is_fixed(module) and callable(value) and hasattr(value, "__name__"):
            self._named(value, getattr(value, "__module__", None) or module)  # torch.ops.aten.add and its like
            return
        self._say(encode(value))

    def _module(self, module: types.ModuleType, names: frozenset[str]) -> None:
        if is_fixed(module.__name__):
            self._say(f"module {module.__name__}")
            return
        self._say("module")  # what is used of it counts, not where it lies
        if (id(module), names) in self._modules:  # modules may hold each other
            return
        self._modules.add((id(module), names))
        for name in sorted(names):
            if name in vars(module):
                self._say(f"attribute {name}")
                self.value(vars(module)[name], names)

    def _code(self, code: Any) -> None:
        module = code.__module__
        if is_fixed(module):
            self._named(code, module)
            return
        if id(code) in self._seen:
            self._say(f"again {self._seen[id(code)]}")
            return
        if len(self._seen) >= MAX_FUNCTIONS:
            raise Uncacheable(f"it reaches more than {MAX_FUNCTIONS} functions outside torch")
        self._seen[id(code)] = len(self._seen)
        self._kept.append(code)
        if isinstance(code, type):
            self._class(code)
        else:
            self._function(code)

    def _function(self, function: types.FunctionType) -> None:
        self._source(function)
        names = frozenset(_names(function.__code__))
        for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
            self._say(f"closure {name}")
            try:
                content = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            self.value(content, names)
        for default in (function.__defaults__ or (), sorted((function.__kwdefaults__ or {}).items())):
            self.value(list(default), names)
        for name in sorted(names & function.__globals__.keys()):
            self._say(f"global {name}")
            self.value(function.__globals__[name], names)
        if hasattr(function, "__wrapped__"):
            self.value(function.__wrapped__, names)

    def _class(self, code: type) -> None:
        self._say(f"class {code.__qualname__}")
        for base in code.__mro__[1:]:
            self.value(base, frozenset())
        for name, member in sorted(vars(code).items()):
            if name.startswith("__") and not callable(getattr(code, name, None)):
                continue  # __doc__, __dict__, __module__, __annotations__ ...: no behaviour of their own
            if isinstance(member, (types.MemberDescriptorType, types.GetSetDescriptorType)):
                continue  # __slots__
            self._say(f"member {name}")
            self.value(member, frozenset())

    def _source(self, function: types.FunctionType) -> None:
        try:
            self._say(inspect.getsource(function))
        except (OSError, TypeError) as error:
            raise Uncacheable(f"the source of {function.__qualname__} cannot be read ({error})") from None
        if function.__name__ == "<lambda>":  # the line may hold several; which one it is, only its code says
            code = function.__code__
            plain = [constant for constant in code.co_consts if not isinstance(constant, types.CodeType)]
            self._say(encode([code.co_code, list(code.co_names), plain]))

    def _named(self, code: Any, module: str) -> None:
        if not is_fixed(module):
            raise Uncacheable(f"{module}.{getattr(code, '__qualname__', code)} is compiled code outside torch")
        self._say(f"{module}.{getattr(code, '__qualname__', None) or getattr(code, '__name__', '')}")

    def _say(self, text: str) -> None:
        self.lines.append(encode(text))


def _names(code: types.CodeType) -> Iterator[str]:
    """Names that a function's code looks up, globally or as attributes; those of nested code too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
