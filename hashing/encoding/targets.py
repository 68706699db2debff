"""What a node calls, under a name that means the same in every process. Never `str(target)` or its address."""

from __future__ import annotations

import contextlib
import operator
import sys
import types
from typing import Any

import torch

from .. import torch_names
from ..origin import is_torch_or_stdlib, named_by_torch
from .encode import Uncacheable, importable_name

_OVERLOAD = type(torch.ops.aten.add.Tensor)
_PACKET = type(torch.ops.aten.add)

# Namespaces of operators that come with torch: the toolchain part fixes what they do.
TORCH_NAMESPACES = frozenset(
    """
    aten prim prims prims_custom inductor higher_order _c10d_functional _c10d_functional_autograd c10d
    _dtensor quantized quantized_decomposed _quantized mkldnn onednn mkl mkldnn_prepacked profiler rngprims
    fsdp bucketing streams symm_mem debugprims export inductor_prims device_mesh
    """.split()
)


def is_operator(target: Any) -> bool:
    """Whether `target` is a dispatcher operator (`torch.ops.namespace.name[.overload]`)."""
    return isinstance(target, (_OVERLOAD, _PACKET))


def is_higher_order(target: Any) -> bool:
    """Whether `target` is a higher-order operator (`cond`, `flex_attention`, ...)."""
    return any(base.__name__ == "HigherOrderOperator" for base in type(target).__mro__)


def identify(target: Any) -> str:
    """Stable identity of a call target. Raises Uncacheable for what has none."""
    if isinstance(target, str):
        return f"method {target}"
    if isinstance(target, _OVERLOAD):
        return f"op {target.namespace}::{target}"
    if isinstance(target, _PACKET):
        return f"packet {target._qualified_op_name}"
    if is_higher_order(target):
        return f"hop {target.namespace}::{target.name()}"
    if isinstance(target, types.BuiltinFunctionType):
        return _builtin(target)
    if isinstance(target, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return f"descriptor {importable_name(target.__objclass__)}.{target.__name__}"
    if isinstance(target, types.GetSetDescriptorType):
        return f"attribute {importable_name(target.__objclass__)}.{target.__name__}"
    if isinstance(target, (types.FunctionType, type)):
        return f"python {_public_name(target) or target_made_by_torch(target) or importable_name(target)}"
    if (function := _numpy_function(target)) is not None:
        return f"numpy {function}"
    raise Uncacheable(f"a call target of type {type(target).__module__}.{type(target).__qualname__}")


def _numpy_function(target: Any) -> str | None:
    """The name of torch's version of a numpy function, operator or method, if `target` is Dynamo's wrapper of one."""
    kind, found = type(target), None
    if kind.__module__ != torch_names.DYNAMO_UTILS or getattr(sys.modules[kind.__module__], kind.__name__) is not kind:
        return None
    if kind.__name__ == torch_names.NUMPY_OPERATOR:
        name = getattr(target.op, "__name__", "")
        found = f"operator {name}" if getattr(operator, name, None) is target.op else None
    elif kind.__name__ == torch_names.NUMPY_METHOD:
        found = f"method {target.method}"
    elif kind.__name__ == torch_names.NUMPY_FUNCTION:
        places = [(module, vars(sys.modules[module])) for module in filter(sys.modules.get, torch_names.NUMPY)]
        names = [f"{module}.{name}" for module, space in places for name, value in space.items() if value is target.f]
        found = min(names, default=None)
    return found and f"{found} by default {', '.join(map(str, _numpy_defaults()))}"


def _numpy_defaults() -> tuple[Any, ...]:
    """The dtypes of what has none of its own (a mean of integers): the user's choice, and no node says it."""
    return tuple(sys.modules[torch_names.NUMPY_DTYPES].default_dtypes())


def _builtin(target: types.BuiltinFunctionType) -> str:
    owner = target.__self__
    if owner is None or isinstance(owner, types.ModuleType):
        module = owner.__name__ if owner is not None else target.__module__
        if not is_torch_or_stdlib(module):
            raise Uncacheable(f"{module}.{target.__name__} is compiled code outside torch")
        return f"builtin {module}.{target.__name__}"
    if isinstance(owner, type):
        return f"builtin {owner.__module__}.{owner.__qualname__}.{target.__name__}"
    if (
        is_torch_or_stdlib(target.__module__)
        and getattr(sys.modules.get(target.__module__), target.__name__, None) is target
    ):
        # Of an extension module made with pybind11 (`torch._C._autograd._get_data_attr`): bound to a record of its own.
        return f"builtin {target.__module__}.{target.__name__}"
    raise Uncacheable(f"{target.__name__} bound to an object of type {type(owner).__qualname__}")


# Where torch publishes functions that it makes inside others (`max_pool2d` is one of two, chosen by a flag),
# so that their own names lead nowhere.
_PUBLIC_MODULES = (torch.nn.functional, torch.functional, torch)


def _public_name(target: Any) -> str | None:
    if "<locals>" not in target.__qualname__ or not target.__module__.startswith("torch."):
        return None
    for module in _PUBLIC_MODULES:
        names = [name for name, value in vars(module).items() if value is target]
        if names:
            return f"{module.__name__}.{min(names)}"
    return None


def target_made_by_torch(target: Any) -> str | None:
    """Of a function without a closure that one of torch's makes: what Dynamo calls for `x.data = y` before 2.14."""
    if not isinstance(target, types.FunctionType) or target.__closure__ or not named_by_torch(target):
        return None
    maker, within, _ = target.__qualname__.partition(".<locals>.")
    if not within or target.__defaults__ or target.__kwdefaults__:
        return None
    with contextlib.suppress(AttributeError):
        made_by = operator.attrgetter(maker)(sys.modules.get(target.__module__))
        if named_by_torch(made_by) and any(one is target.__code__ for one in made_by.__code__.co_consts):
            return f"{target.__module__}.{target.__qualname__}"
    return None


def needs_source(target: Any) -> bool:
    """Whether the name alone does not fix the meaning: a Python function from outside torch.

    torch's own code is fixed by the toolchain part; other Python code is fixed by nothing in the key.
    """
    if not isinstance(target, (types.FunctionType, type)):
        return False
    module = getattr(target, "__module__", None) or ""
    return module.split(".")[0] not in ("torch", "builtins", "_operator", "math")
