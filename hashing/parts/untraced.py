"""What runs while Dynamo traces, and is not traced: by the texts that a graph's key has of it, made alone.

A graph's key is made from a graph. Where nobody traces (a restored frame), the texts of a tensor subclass among its
inputs, and of a function of the user's that it calls as it is, say the same of the live values.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ..encoding.encode import Uncacheable, sha256_hex
from ..encoding.targets import is_operator
from ..source_code.described import operator_text
from ..source_code.digest import noting_functions
from ..source_code.once import looking_once, making_a_key
from ..source_code.packages import of_unfollowed
from ..source_code.references import codes_in, reach_of
from ..source_code.untracked import changes_objects
from .allowed import allowed_call, folder_of, function_applied, is_allowed_call, text_of_apply
from .graph import graph_modules
from .nonstrict import nonstrict_function
from .tensors import describe

# What torch calls of a tensor subclass. Other special methods may run for whatever object has them.
_CALLED = frozenset(
    """
    __new__ __init__ __post_init__ __torch_dispatch__ __torch_function__ __tensor_flatten__ __tensor_unflatten__
    __metadata_guard__ __call__
    """.split()
)


def called_as_it_is(target: Any) -> Any:
    """What a call of the user's in a graph is found by: the function, or the class of an `autograd.Function`."""
    return function_applied(target) or target


def called_in(gm: torch.fx.GraphModule) -> list[Any]:
    """The user's functions that a graph calls as they are, as `called_as_it_is` gives them."""
    found = []
    for inner in graph_modules(gm):
        for node in inner.graph.nodes:
            if is_allowed_call(node.target):
                found.append(called_as_it_is(node.target))
            elif node.op == "get_attr":
                found.append(nonstrict_function(getattr(inner, str(node.target), None)))
    return [function for function in found if function is not None]


def untraced_text(value: Any) -> str:
    """64 hex digits. value: a tensor that wraps others, a custom operator, or what `called_as_it_is` gives. Raises
    Uncacheable.
    """
    if isinstance(value, torch.Tensor):
        text = describe(value, value, _number)
    elif isinstance(value, type) and issubclass(value, torch.autograd.Function):
        text = text_of_apply(value)
    elif is_operator(value):
        text = operator_text(value) or str(value)
    else:
        text = allowed_call(value)
    return sha256_hex(text.encode("utf-8", "surrogatepass"))


@making_a_key
def untraced_texts(values: Sequence[Any]) -> list[str]:
    """Of all of one frame: the code of one may be given what another holds. Raises Uncacheable."""
    return [untraced_text(value) for value in values]


def said_with(
    values: Sequence[Any], ran: Iterable[types.CodeType], told: Mapping[int, str]
) -> tuple[set[types.CodeType], set[types.CodeType]]:
    """Those of `ran` of which the texts of `values` speak: a text moves where one of them, or what it reads, does.
    Those that were followed, and those of packages that are known as a whole.

    told: the texts before any of it ran, by the ids of values. Raises Uncacheable where one is another now, and for
    code that writes to what was there before: a restored frame would leave that undone.
    """
    with looking_once({}), noting_functions() as functions:
        for value in values:
            if told.get(id(value)) != untraced_text(value):
                name = getattr(value, "__qualname__", type(value).__qualname__)
                raise Uncacheable(f"the code of {name} runs while it is traced, and changes what it reads")
    followed = {code for one in functions for code in codes_in(one.__code__) if _may_run(code.co_name)}
    packages = (*of_unfollowed(functions), *filter(None, map(folder_of, values)))
    of_packages = {code for code in ran if packages and code.co_filename.startswith(packages)}
    own = followed.intersection(ran) - of_packages
    for code in sorted(own, key=lambda code: code.co_firstlineno):
        if (what := _writes(code)) is not None:
            raise Uncacheable(f"{getattr(code, 'co_qualname', code.co_name)} runs while it is traced, and {what}")
    return own - _of_others(own, functions), of_packages


def _writes(code: types.CodeType) -> str | None:
    if stores := reach_of(code).stores:
        return f"changes {min(stores)}"
    # What a `__new__` makes is among its variables, behind what it is given.
    own = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :] if code.co_name == "__new__" else ()
    return changes_objects(code, own)


def _may_run(name: str) -> bool:
    return name in _CALLED or not (name.startswith("__") and name.endswith("__"))


def _of_others(codes: set[types.CodeType], functions: set[types.FunctionType]) -> set[types.CodeType]:
    """Those that functions have as well which nobody followed: another closure may have run."""
    found = gc.get_referrers(*codes) if codes else []
    return {one.__code__ for one in found if isinstance(one, types.FunctionType) and one not in functions} & codes


def _number(value: Any) -> str:
    if isinstance(value, torch.SymInt):
        raise Uncacheable("a ragged size, which has another number in each process")
    return str(value)
