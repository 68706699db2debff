"""Functions that Dynamo puts into a graph untraced, and AOTAutograd traces (`torch._dynamo.nonstrict_trace`).

Read on 2.11 to 2.15. The graph holds one as an attribute, how its arguments nest as another, and calls a function of
torch's with both. Nothing of it is left in a result. A tensor that it holds would be in a result as the tensor itself,
which the program may change between calls: a bypass.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import torch

from .. import torch_names
from ..encoding.encode import Uncacheable, encode, importable_name
from ..encoding.targets import identify, needs_source
from ..origin import is_torch_or_stdlib_code
from ..source_code.digest import source_digest
from ..source_code.facts import in_trees
from .tensors import users_type


def is_nonstrict_call(target: Any) -> bool:
    """Whether it is torch's function that calls one, and takes apart what it gives."""
    return _is_torchs(target, torch_names.NONSTRICT_CALL)


def nonstrict_call(target: Any) -> str:
    """Identity of such a call: how what it gives nests. Raises Uncacheable."""
    return f"not traced strictly, gives {_tree(_cell(target, torch_names.NONSTRICT_RESULT))}"


def nonstrict_results(target: Any) -> Iterator[Any]:
    """How what such a call gives nests, as torch found it: a TreeSpec, and all in it."""
    waiting = [_cell(target, torch_names.NONSTRICT_RESULT)]
    for spec in waiting:  # grows
        waiting += _children(spec)
    yield from waiting


def nonstrict_function(value: Any) -> Any | None:
    """The user's function in an attribute of a graph, as the program has it (decorated); None for other attributes."""
    if isinstance(value, _pytree().TreeSpec):  # before 2.12
        value = getattr(value.context, "value", None)
    inner: Any = getattr(value, torch_names.LEAF_FUNCTION, getattr(value, torch_names.LEAF_FUNCTION_2_11, None))
    if not _is_torchs(inner, torch_names.NONSTRICT_FUNCTION):
        return None
    return _cell(inner, torch_names.NONSTRICT_GIVEN)


def nonstrict_attribute(value: Any) -> str | None:
    """Text of an attribute that is such a function, or how its arguments nest; None for others. Raises Uncacheable."""
    if (function := nonstrict_function(value)) is not None:
        return f"not traced strictly: {_text(function)}"
    return f"nested {_tree(value)}" if isinstance(value, _pytree().TreeSpec) else None


def _text(function: Any) -> str:
    # The decorator's has the user's name.
    if _is_torchs(function) and function.__code__.co_freevars == (torch_names.NONSTRICT_WRAPPED,):
        function = _cell(function, torch_names.NONSTRICT_WRAPPED)
    if not needs_source(function):
        return identify(function)
    if not isinstance(function, types.FunctionType):
        raise Uncacheable(f"{function.__qualname__}, which is not traced strictly, is a class")
    what = f"{function.__qualname__}, which is not traced strictly"
    return f"function code {source_digest(function, what, leaf=_no_tensor, strict=True)}"


def _no_tensor(value: Any) -> str | None:
    if isinstance(value, torch.Tensor):
        raise Uncacheable("a tensor that it holds, which would be in the result as it is")
    return users_type(value)


def _tree(spec: Any) -> str:
    return encode(_plain(spec), users_type, in_order=True)


def _plain(spec: Any) -> Any:
    """A TreeSpec as a plain value, with the code that takes a container of the user's apart and puts it together."""
    if not isinstance(spec, _pytree().TreeSpec):
        raise Uncacheable("a function that is not traced strictly was not run")
    if spec.type is None:
        return "leaf"
    kind, context = importable_name(spec.type), spec.context
    if getattr(context, "__name__", "") == torch_names.LEAF_MODULE:
        raise Uncacheable("a module among the arguments of a function that is not traced strictly")
    if type(context) is _pytree().ConstantNode:
        context = context.value
    ways = [way for way in in_trees(spec.type) if not _is_torchs(way)]  # torch's say the same of each class
    told = [source_digest(way, f"how {kind} is taken apart", strict=True) for way in ways]
    return [kind, users_type(spec.type), context, told, [*map(_plain, _children(spec))]]


def _children(spec: Any) -> Any:
    return spec.children() if hasattr(spec, "children") else getattr(spec, "children_specs", ())


def _is_torchs(value: Any, name: str = "") -> bool:
    named = isinstance(value, types.FunctionType) and (not name or value.__qualname__ == name)
    return named and is_torch_or_stdlib_code(value)


def _cell(function: types.FunctionType, name: str) -> Any:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return cells[name].cell_contents if name in cells else None


def _pytree() -> Any:
    return sys.modules[torch_names.PYTREE]
