"""Calls in the graphs that compiled autograd makes: autograd's own nodes, and the start of a compiled backward.

Read on 2.13 and 2.15. A node of autograd's is told by its name: what it does is torch's build, and what it saved
is an argument. One that a C++ extension brings is not.

A compiled backward begins with a function that torch writes for each forward. It closes over nothing but that
forward's records: which gradients go on, and how they lie. Its code and those records are its text.
"""

from __future__ import annotations

import dataclasses
import sys
import types
from typing import Any

from .. import torch_names
from ..encoding.encode import Uncacheable, encode, qualified_name
from ..source_code.references import meaning

# Of the globals of that function: what only messages say, and torch's own functions, by name.
_IN_MESSAGES = frozenset({"_tangent_descs_", "_compile_id_", "_stack_traces_"})
_TORCHS_OWN = frozenset({"torch", "_process_tangent_", "__builtins__"})


def autograd_call(target: Any) -> str | None:
    """Identity of such a call; None for any other target. Raises Uncacheable."""
    module: Any = sys.modules.get(torch_names.COMPILED_AUTOGRAD)
    if module is None:
        return None
    if type(target) is getattr(module, torch_names.AUTOGRAD_NODE, None):
        return _node(target, module)
    is_prologue = isinstance(target, types.FunctionType) and target.__qualname__ == torch_names.BACKWARD_PROLOGUE
    if is_prologue and target.__module__ == module.__name__ and target.__code__.co_filename == module.__file__:
        return f"backward of a compiled forward {_prologue(target)}"
    return None


def _node(target: Any, module: Any) -> str:
    name = target.__name__
    known: Any = getattr(getattr(module, torch_names.AUTOGRAD_NODES), name, None)
    if known is not target or known.is_custom_function or not isinstance(known.fn, types.BuiltinFunctionType):
        raise Uncacheable(f"{name}, a node of autograd that is not torch's own")
    return f"autograd node {name}"


def _prologue(target: types.FunctionType) -> str:
    held = dict(zip(target.__code__.co_freevars, target.__closure__ or (), strict=True))
    function = held[torch_names.PROLOGUE_FUNCTION].cell_contents if len(held) == 1 else None
    if not isinstance(function, types.FunctionType) or function.__closure__ or function.__defaults__:
        raise Uncacheable("a compiled backward whose start is in a form that is not known")
    used = {name: function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__}
    told = {name: _plain(value) for name, value in used.items() if name not in _IN_MESSAGES | _TORCHS_OWN}
    return f"{meaning(function.__code__)} {encode(told)}"


def _plain(value: Any) -> Any:
    """A record of torch's as plain data. What else a value may be has no text: a subclass's metadata, symbols."""
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return [qualified_name(type(value)), fields]
    return value
