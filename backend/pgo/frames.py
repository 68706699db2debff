"""Which frames are the same in another process: a key for a function's code and what it works on. Not its graphs.

torch calls two frames the same when their files have the same bytes and they begin on the same line. Here it is what
is executed: the bytecode with its names and constants, without paths and lines; the functions it reaches by name,
since `def step(x): return model(x)` stands in many programs; and the modules it works on, by their classes and the
shapes of their parameters, since two sizes of one model are two models. Neither rank nor host is part of it.
"""

from __future__ import annotations

import functools
import importlib.util
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from warmgraph.hashing import encode, is_torch_or_stdlib, meaning, sha256_hex

MAX_FUNCTIONS = 64  # beyond them, functions that a frame reaches do not count


def frame_key(code: types.CodeType, values: Mapping[str, Any], names: Mapping[str, Any], scope: Iterable[Any]) -> str:
    """The key of a frame. values: its locals, closure included. names: its globals. scope: what else sets it apart.

    Raises Uncacheable where the bytecode holds a constant that has no stable identity.
    """
    walk = _Walk()
    walk.say(["frame", str(torch.__version__), importlib.util.MAGIC_NUMBER, *scope])
    walk.code(code, names)
    for name in sorted(values):
        walk.value(name, values[name])
    return f"wg1{sha256_hex(chr(10).join(walk.lines).encode())}"


def code_digest(code: types.CodeType) -> str:
    """16 hex digits for what `code` executes."""
    return sha256_hex(encode(_what(code)).encode())[:16]


class _Walk:
    """Depth first; each function and module once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._seen: dict[int, int] = {}
        self._functions = 0

    def say(self, value: Any) -> None:
        self.lines.append(encode(value))

    def code(self, code: types.CodeType, names: Mapping[str, Any]) -> None:
        self.say(_what(code))
        for name in sorted({name for name in _names(code) if name in names}):
            self.value(name, names[name])

    def value(self, name: str, value: Any) -> None:
        """Functions and modules; what else a name stands for is data, and may change from call to call."""
        while isinstance(value, functools.partial):
            value = value.func
        if isinstance(value, types.MethodType):
            self.value(f"{name}.self", value.__self__)
            value = value.__func__
        if isinstance(value, torch.nn.Module):
            if self._is_new(name, value):
                for line in _structure(value):
                    self.say(line)
        elif isinstance(value, types.FunctionType) and not is_torch_or_stdlib(value.__module__):
            self._function(name, value)

    def _function(self, name: str, function: types.FunctionType) -> None:
        if self._functions >= MAX_FUNCTIONS or not self._is_new(name, function):
            return
        self._functions += 1
        self.code(function.__code__, function.__globals__)
        for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.value(free, _content(cell))

    def _is_new(self, name: str, value: Any) -> bool:
        number = self._seen.setdefault(id(value), len(self._seen))  # all are alive: the frame holds them
        self.say([name, number])
        return number == len(self._seen) - 1


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return None


def _structure(module: torch.nn.Module) -> Iterator[list[Any]]:
    """Classes, and shapes and types of parameters and buffers. Not their values, nor whether it is training."""
    for path, one in module.named_modules():
        tensors = [*one.named_parameters(recurse=False), *one.named_buffers(recurse=False)]
        described = [[name, None if _is_lazy(t) else list(map(str, t.shape)), t.dtype] for name, t in tensors]
        yield [path, type(one).__qualname__, *described]


def _is_lazy(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin)


def _names(code: types.CodeType) -> Iterator[str]:
    """Names that code looks up; those of nested code too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _what(code: types.CodeType) -> list[str]:
    """What code is called in its module, and all that decides what it does."""
    return [getattr(code, "co_qualname", code.co_name), meaning(code)]  # qualified since Python 3.11
