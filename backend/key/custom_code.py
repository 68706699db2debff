"""Users' operators inside a graph, and what replaces torch's own, described by what they are made of."""

from __future__ import annotations

import functools
import types
from importlib import metadata
from typing import Any

import torch
from torch.fx import GraphModule
from warmgraph.hashing import (
    TORCH_NAMESPACES,
    Uncacheable,
    described,
    describes_operators,
    encode,
    foreign,
    function_of_package,
    graph_modules,
    held_tensor,
    making_a_key,
    once_per_key,
    source_digest,
)

from ..torch_api import compile as compat
from ..torch_api import operators as operators
from ..torch_api.changes import registries
from ..torch_api.changes.backwards import generated_backward
from ..torch_api.changes.kernel_functions import python_kernels
from ..torch_api.changes.kernels import kernels_over, library_kernels, traced_kernels
from ..torch_api.changes.patterns import is_pattern, pattern_text
from ..torch_api.changes.tables import changes, kernels
from .triton_kernels import kernel_description, launched_text


@making_a_key
def custom_code(gm: GraphModule) -> dict[str, Any]:
    """Name -> description of each operator that does not come with torch, and of what replaces torch's own.

    Raises Uncacheable.
    """
    found = _replacements()
    for name, overload in custom_operators(gm).items():
        if name not in found:
            found[name] = _describe_operator(overload)
    return found


def custom_operators(gm: GraphModule) -> dict[str, Any]:
    """Those in a graph that do not come with torch, by name. Raises Uncacheable for one in a namespace of torch's."""
    nodes = (node for module in graph_modules(gm) for node in module.graph.nodes)
    called = (overload for node in nodes for overload in operators.overloads(node.target))
    return {overload.name(): overload for overload in called if not _comes_with_torch(overload)}


def _replacements() -> dict[str, Any]:
    """What code outside torch changed in torch itself, for whatever graph: no node of one says so."""
    digests, put_there = changes()
    found: dict[str, Any] = {"torch": digests}
    if names := operators.made_to_stay():
        found["side effects"] = names
    for overload in registries.autotuned_operators():
        if overload.namespace in TORCH_NAMESPACES:
            _refuse_autotuned(overload)
    replaced = {(name, key): described(name) for name, key in sorted(kernels())}
    found |= {f"kernel {key} of {name}": told for (name, key), told in replaced.items() if told is not None}
    followed = [place for place, told in replaced.items() if told is None]
    for (name, key), function in zip(followed, python_kernels(followed), strict=True):
        if function is None:
            raise Uncacheable(
                f"a Python kernel ({key}) replaces torch's own of {name}, and torch does not hand it out; tell when it "
                f"changes: warmgraph.describe({name!r}, lambda: ...)"
            )
        found[f"kernel {key} of {name}"] = _from_outside(name, function)
    for name, value in put_there.items():
        found[name] = described(name) or _from_outside(name, value)
    return found


def _from_outside(name: str, value: Any) -> str:
    try:
        return source_digest(value, name, leaf=_part_of_torch)
    except Uncacheable as bad:
        package = (getattr(value, "__module__", None) or "").partition(".")[0]
        if package in _REPLACING and (text := function_of_package(value, package)) is not None:
            return text
        raise Uncacheable(f"{bad} (it changes torch itself; its name for warmgraph.describe is {name!r})") from None


# Packages that replace functions of torch's as they are loaded, for every graph of the process, and reach code that no
# walk follows. Of what a program sets there (other than plain values) nothing changes how a graph is compiled.
_REPLACING = frozenset({"torch_geometric", "tensordict"})


def _part_of_torch(value: Any) -> str | None:
    """Text of operators, and of what torch's own wrappers hold beside functions."""
    if is_pattern(value):
        return f"pattern {pattern_text(value)}"
    if operators.is_fake(value):  # an example for a pattern of torch's
        return f"tensor {value.dtype} {value.device} {list(value.shape)}"
    if (text := held_tensor(value)) is not None:
        return text
    if value is compat.counters:
        return "counters"  # of torch's own statistics
    tables = {**registries.base_tables(), **registries.inductor_tables(), **registries.growing_tables()}
    for name, table in tables.items():
        if value is table:
            return f"table {name}"  # described for itself
    return _inner_operator(frozenset(), value)


def _comes_with_torch(overload: Any) -> bool:
    if overload.namespace not in TORCH_NAMESPACES:
        return False
    if operators.is_defined_outside(overload):
        raise Uncacheable(
            f"operator {overload.name()} is the program's, in a namespace of torch's: give it another one"
        )
    return True


def _refuse_autotuned(overload: Any) -> None:
    raise Uncacheable(f"operator {overload.name()} has autotuned implementations that torch does not hand out")


def _describe_operator(overload: Any, within: frozenset[str] = frozenset()) -> dict[str, Any]:
    """Schema, tags, and every Python function that tracing inlines or relies on, with all it reaches.

    The implementation proper is called by the operator's name and not part of the compiled code; the fake
    (meta) one decides shapes, and backward formulas and composite implementations are traced through. These may
    call other operators, which are described with it. within: the operators that lead here.
    """
    name = overload.name()
    count = _described_by_now()
    count[0] += 1
    if count[0] > _MOST:
        raise Uncacheable(f"operator {name} and others lead to each other in more than {_MOST} ways")
    told, stays = described(overload), {"stays unused": True} if operators.stays_unused(overload) else {}
    if told is not None:
        tags = sorted(str(tag) for tag in overload.tags)
        return {"schema": str(overload._schema), "tags": tags, "described": told, **stays}
    if overload in registries.autotuned_operators():
        _refuse_autotuned(overload)
    entry = operators.simple_registry.singleton.find(name)
    description: dict[str, Any] = {
        "schema": str(overload._schema),
        "tags": sorted(str(tag) for tag in overload.tags),
        "effect": getattr(getattr(entry, "effect", None), "effect", None),
        "symmetric_memory": sorted(_symmetric_memory(entry)),
        **stays,
    }
    functions = python_implementations(overload)
    leaf = functools.partial(_inner_operator, within | {name})
    for role, function in sorted(functions.items()):
        description[role] = _torchs_own(function) or source_digest(function, f"operator {name} ({role})", leaf=leaf)
    for number, kernel in enumerate(operators.triton_kernels_of(name)):
        description[f"triton {number}"] = kernel_description(kernel)
    definition = _definition(overload)
    if definition is None:
        description["library"] = _library(overload, functions, leaf)
    else:
        description["autocast"] = {name: v for name, v in vars(definition).items() if name.startswith("_autocast")}
        others = library_kernels(name) - _OWN - _AUTOCAST - operators.DEVICE_KEYS
        others |= kernels_over(name) - _called_by_name(overload)  # in the place of those that it made itself
        description["kernels"] = _kernels(name, others, leaf)
    return description


@describes_operators
def _reached_operator(value: Any) -> str | None:
    """One that a tensor subclass or a hook leads to."""
    return _inner_operator(frozenset(), value)


def _inner_operator(within: frozenset[str], value: Any) -> str | None:
    """An operator that another one's backward or fake calls, or a Triton kernel. One that leads back to itself is
    described already.
    """
    if (text := launched_text(value)) is not None:
        return text
    found = [value._opoverload] if isinstance(value, operators.CustomOpDef) else operators.overloads(value)
    if not found or _comes_with_torch(found[0]):
        return None
    told = {one.name(): None if one.name() in within else _describe_operator(one, within) for one in found}
    return f"operators {encode(told)}"


_MOST = 500  # descriptions for a key: operators that lead to each other by a table are described in every order


@once_per_key
def _described_by_now() -> list[int]:
    """A count that grows, while a key is made."""
    return [0]


# Dispatch keys that `torch.library.custom_op` itself fills, from functions that it keeps.
_OWN = frozenset("CompositeExplicitAutograd Meta Autograd ADInplaceOrView BackendSelect FuncTorchBatched".split())
_AUTOCAST = frozenset(f"Autocast{key}" for key in operators.DEVICE_KEYS)


def _definition(overload: Any) -> Any:
    """What `torch.library.custom_op` keeps of an operator, or None for one that was defined otherwise."""
    name, _, variant = overload.name().partition(".")
    return None if variant else operators.OPDEFS.get(name)


def _library(overload: Any, functions: dict[str, Any], leaf: Any) -> Any:
    """What stands for kernels of an operator that `torch.library.Library` or C++

    A kernel for every device (CompositeExplicitAutograd) is called by name, but also decides shapes where there
    is no fake.
    """
    name, package = overload.name(), overload.namespace
    described = {"Meta", "CompositeExplicitAutograd"} if "fake" in functions else set()
    if _runs_while_compiled(overload):
        described -= {"CompositeExplicitAutograd"}
    described |= {"Autograd"} if "backward" in functions else set()
    given = library_kernels(name) - _called_by_name(overload) - described
    found = _kernels(name, given, leaf)
    try:
        version = f"{package} {metadata.version(package)}"
        return [version, found] if found else version
    except metadata.PackageNotFoundError:
        traced = traced_kernels(overload) - described - given
    if traced:
        raise Uncacheable(
            f"operator {name} comes from a C++ library that no installed package is named after, and has kernels "
            f"({', '.join(sorted(traced))}) that are traced through"
        )
    return found or None


def _kernels(name: str, keys: set[str], leaf: Any) -> dict[str, str]:
    """Dispatch key -> digest of the Python kernel that an operator was given for it.

    One that no walk can follow is known by its package, if it and all that it holds is the package's.
    """
    found: dict[str, str] = {}
    package = name.partition("::")[0]
    wanted = [(name, key) for key in sorted(keys)]
    for (_, key), function in zip(wanted, python_kernels(wanted), strict=True):
        try:
            found[key] = _kernel(name, key, function, leaf)
        except Uncacheable:
            if (text := function_of_package(function, package)) is None:
                raise
            found[key] = text
    return found


def _kernel(name: str, key: str, function: Any, leaf: Any) -> str:
    if function is not None:
        return source_digest(function, f"operator {name} ({key})", leaf=leaf)
    raise Uncacheable(
        f"operator {name} has a Python kernel ({key}) that torch does not hand out; define it with "
        f"torch.library.custom_op, or tell when it changes: warmgraph.describe({name!r}, lambda: ...)"
    )


def _symmetric_memory(entry: Any) -> list[str]:
    holder = getattr(entry, "symm_mem_args", None)  # not in every torch
    return list(getattr(holder, "_symm_mem_args", None) or ())


def python_implementations(overload: Any) -> dict[str, Any]:
    """Role -> Python function that tracing a custom operator may inline or rely on (`torch.library`).

    Not the implementation proper, which compiled code calls by the operator's name.
    """
    found: dict[str, Any] = {}
    definition = _definition(overload)
    if definition is not None:
        found = {
            "fake": definition._abstract_fn,
            "backward": definition._backward_fn,
            "setup_context": definition._setup_context_fn,
            "vmap": definition._vmap_fn,
            **_by_class(definition._torch_dispatch_fns),
        }
        if _runs_while_compiled(overload):
            found |= {"implementation": definition._init_fn, **_by_device(definition._backend_fns)}
    elif (given := generated_backward(overload)) is not None:
        found["backward"], found["setup_context"] = given
    entry = operators.simple_registry.singleton.find(overload.name())
    found.setdefault("fake", operators.fake_of(overload.name()))
    for role, function in _by_class(entry.torch_dispatch_rules._data).items():
        found.setdefault(role, function)
    for dispatch_key, function in overload.py_kernels.items():
        found[f"kernel {dispatch_key}"] = function
    return {role: function for role, function in found.items() if function is not None}


def _called_by_name(overload: Any) -> frozenset[str]:
    """Keys of kernels that compiled code calls, and nobody while it is compiled."""
    return frozenset() if _runs_while_compiled(overload) else operators.DEVICE_KEYS


def _runs_while_compiled(overload: Any) -> bool:
    """Whether Inductor calls it itself, on uniform constants."""
    return torch.Tag.pointwise in overload.tags


def _by_class(rules: dict[type, Any]) -> dict[str, Any]:
    return {f"dispatch {kind.__module__}.{kind.__qualname__}": function for kind, function in rules.items()}


def _by_device(functions: dict[Any, Any]) -> dict[str, Any]:
    return {f"implementation {device}": function for device, function in functions.items()}


def _torchs_own(function: Any) -> str | None:
    """The name of a function that comes with torch; None for one of the user's, and for one with something bound."""
    if foreign(function) is not None or not isinstance(function, (types.FunctionType, types.BuiltinFunctionType)):
        return None
    if getattr(function, "__closure__", None) or hasattr(function, "__wrapped__"):
        return None
    is_bound = not isinstance(getattr(function, "__self__", None), (type, types.ModuleType, type(None)))
    return None if is_bound else f"{function.__module__}.{function.__qualname__}"
