"""Functions of the user's that torch calls in a graph as they are (`allow_in_graph`), by what they do.

AOTAutograd traces through them, as through an operator's backward, so their code is what the graph's name for them
stands for. einops looks up a framework by the type of a tensor in tables that it fills as it goes, which no walk can
follow: all of its code is taken instead.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

from .. import torch_names
from ..encoding.encode import Uncacheable, encode
from ..encoding.targets import needs_source
from ..encoding.values import is_named_tuple
from ..origin import is_torch_or_stdlib, is_torch_or_stdlib_code, module_of_class
from ..source_code.digest import source_digest
from ..source_code.once import once_per_key
from ..source_code.packages import places_of
from ..source_code.references import meaning
from .tensors import held_tensor, users_type

_EINOPS = ("einops", "einops.einops", "einops.packing", "einops.parsing", "einops._backends")


def allowed_call(function: Any) -> str:
    """Identity of a call of `function`, which is not torch's. Raises Uncacheable."""
    name = getattr(function, "__qualname__", str(function))
    try:
        return _text(function, name)
    except Uncacheable as bad:
        raise Uncacheable(f"a call of {name}, a function outside torch: {bad}", bad.cause) from None


def is_allowed_call(target: Any) -> bool:
    """Whether `allowed_call` says what a call target is."""
    return needs_source(target) or function_applied(target) is not None


def function_applied(target: Any) -> Any | None:
    """The class of an `autograd.Function` whose `apply` this is: torch's function around it. None for others."""
    named = getattr(target, "__qualname__", "") == torch_names.AUTOGRAD_APPLY
    if not (named and isinstance(target, types.FunctionType) and is_torch_or_stdlib_code(target)):
        return None
    (cell,) = target.__closure__ or ()
    return cell.cell_contents


def text_of_apply(kind: Any) -> str:
    """Of a call of this `autograd.Function`. Raises Uncacheable."""
    return f"apply code {source_digest(kind, f'autograd.Function {kind.__qualname__}', leaf=held_tensor, strict=True)}"


def folder_of(value: Any) -> str | None:
    """Where the code lies that stands for a function as a whole (einops'); None for others."""
    return next(iter(places_of("einops")), None) if getattr(value, "__module__", None) in _EINOPS else None


def _text(function: Any, name: str) -> str:
    if (kind := function_applied(function)) is not None:
        return text_of_apply(kind)
    if isinstance(function, type) and (is_named_tuple(function) or dataclasses.is_dataclass(function)):
        if (text := users_type(function)) is None:
            raise Uncacheable("it was made by a function, under no name of its own")
        return f"data {text}"  # Dynamo makes one in the graph for a function that it calls there
    if not isinstance(function, types.FunctionType):
        raise Uncacheable("it is a class")
    if function.__module__ in _EINOPS and vars(sys.modules[function.__module__]).get(name) is function:
        return f"{function.__module__}.{name} of {_einops()}"
    return f"function code {source_digest(function, 'its code', leaf=held_tensor, strict=True)}"


@once_per_key  # and not for each call in the graph
def _einops() -> str:
    """All code and constants of its modules. Its tables may hold what they like, of backends of its own."""
    backends = vars(sys.modules["einops._backends"])
    kinds = [backends["AbstractBackend"]]
    for kind in kinds:  # grows
        kinds += type.__subclasses__(kind)
    if strange := [kind for kind in kinds if module_of_class(kind).partition(".")[0] != "einops"]:
        raise Uncacheable(f"einops was taught a backend of {strange[0].__module__}")
    lines = [line for name in _EINOPS if name in sys.modules for line in _lines(name, vars(sys.modules[name]))]
    return f"einops {hashlib.sha256(chr(10).join(lines).encode()).hexdigest()}"


def _is_from_outside(value: Any) -> bool:
    return isinstance(value, types.FunctionType) and not is_torch_or_stdlib_code(value)


def _lines(name: str, space: Any) -> Iterator[str]:
    for key, value in sorted(space.items()):
        if isinstance(value, (property, staticmethod, classmethod, functools.cached_property)):
            functions = (getattr(value, part, None) for part in ("__func__", "fget", "fset", "fdel", "func"))
            yield from _lines(f"{name}.{key}", {str(at): one for at, one in enumerate(functions)})
            continue
        # What `functools.lru_cache`, and torch's wrappers around that, hold; not what a user's wrapper holds.
        value = inspect.unwrap(value, stop=_is_from_outside)
        if isinstance(value, (types.FunctionType, type)):
            if is_torch_or_stdlib(value.__module__):
                continue
            code = value.__code__ if isinstance(value, types.FunctionType) else None
            there = code is None or code.co_filename.startswith(places_of("einops") or ("\0",))
            free = set() if code is None else {*code.co_freevars} - {"__class__", "__classdict__"}
            if (value.__module__ or "").partition(".")[0] != "einops" or not there or free:
                raise Uncacheable(f"{name}.{key} is not einops' own")
            if isinstance(value, types.FunctionType):
                yield f"{name}.{key} {meaning(value.__code__)} {encode([value.__defaults__, value.__kwdefaults__])}"
            elif value.__module__ == name:
                yield f"{name}.{key} class {' '.join(base.__qualname__ for base in value.__mro__)}"
                yield from _lines(f"{name}.{key}", vars(value))
        elif type(value) in (bool, int, float, str, tuple, list) and not key.startswith("__"):
            yield f"{name}.{key} {encode(value)}"
