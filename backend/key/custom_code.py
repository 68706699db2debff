"""Users' code inside a graph: custom operators and Triton kernels, described by what they are made of."""

from __future__ import annotations

import functools
from importlib import metadata
from typing import Any

import torch
from torch.fx import GraphModule, Node
from warmgraph.hashing import (
    TORCH_NAMESPACES,
    Uncacheable,
    described,
    describes_operators,
    encode,
    foreign,
    graph_modules,
    held_tensor,
    making_a_key,
    once_per_key,
    package_text,
    places_of,
    sha256_hex,
    source_digest,
)

from ..torch_api import compile as compat
from ..torch_api import operators as operators
from ..torch_api.changes import registries as registered
from ..torch_api.changes.patterns import is_pattern, pattern_text
from ..torch_api.changes.tables import changes, kernels


@making_a_key
def custom_code(gm: GraphModule) -> dict[str, Any]:
    """Name -> description of each operator that does not come with torch, and of what replaces torch's own.

    Raises Uncacheable.
    """
    found = _replacements()
    for module in graph_modules(gm):
        for node in module.graph.nodes:
            for overload in operators.overloads(node.target):
                if not _comes_with_torch(overload) and (name := overload.name()) not in found:
                    found[name] = _describe_operator(overload)
    return found


def _replacements() -> dict[str, Any]:
    """What code outside torch changed in torch itself, for whatever graph: no node of one says so."""
    digests, put_there = changes()
    found: dict[str, Any] = {"torch": digests}
    for overload in registered.autotuned_operators():
        if overload.namespace in TORCH_NAMESPACES:
            _refuse_autotuned(overload)
    for name, key in sorted(kernels()):
        told = described(name)
        if told is None:
            raise Uncacheable(
                f"a Python kernel ({key}) replaces torch's own of {name}, and torch does not hand it out; tell when it "
                f"changes: warmgraph.describe({name!r}, lambda: ...)"
            )
        found[f"kernel {key} of {name}"] = told
    for name, value in put_there.items():
        found[name] = described(name) or _from_outside(name, value)
    return found


def _from_outside(name: str, value: Any) -> str:
    try:
        return source_digest(value, name, leaf=_part_of_torch)
    except Uncacheable as bad:
        raise Uncacheable(f"{bad} (it changes torch itself; its name for warmgraph.describe is {name!r})") from None


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
    tables = {**registered.base_tables(), **registered.inductor_tables(), **registered.growing_tables()}
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
    told = described(overload)
    if told is not None:
        return {"schema": str(overload._schema), "tags": sorted(str(tag) for tag in overload.tags), "described": told}
    if overload in registered.autotuned_operators():
        _refuse_autotuned(overload)
    entry = operators.simple_registry.singleton.find(name)
    description: dict[str, Any] = {
        "schema": str(overload._schema),
        "tags": sorted(str(tag) for tag in overload.tags),
        "effect": getattr(getattr(entry, "effect", None), "effect", None),
        "symmetric_memory": sorted(_symmetric_memory(entry)),
    }
    functions = python_implementations(overload)
    for role, function in sorted(functions.items()):
        description[role] = source_digest(
            function, f"operator {name} ({role})", leaf=functools.partial(_inner_operator, within | {name})
        )
    for number, kernel in enumerate(operators.triton_kernels_of(name)):
        description[f"triton {number}"] = _kernel(kernel)
    definition = _definition(overload)
    if definition is None:
        description["library"] = _library(overload, functions)
    else:
        description["autocast"] = {name: v for name, v in vars(definition).items() if name.startswith("_autocast")}
        _refuse(name, registered.library_kernels(name) - _OWN - _AUTOCAST - operators.DEVICE_KEYS)
        _refuse(
            name, registered.kernels_over(name) - operators.DEVICE_KEYS
        )  # in the place of those that torch made for it
    return description


@describes_operators
def _reached_operator(value: Any) -> str | None:
    """One that a tensor subclass or a hook leads to."""
    return _inner_operator(frozenset(), value)


def _inner_operator(within: frozenset[str], value: Any) -> str | None:
    """An operator that another one's backward or fake calls. One that leads back to itself is described already."""
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


def _library(overload: Any, functions: dict[str, Any]) -> Any:
    """What stands for kernels of an operator that `torch.library.Library` or C++ registered.

    A kernel for every device (CompositeExplicitAutograd) is called by name, but also decides shapes where there
    is no fake.
    """
    name = overload.name()
    described = {"Meta", "CompositeExplicitAutograd"} if "fake" in functions else set()
    described |= {"Autograd"} if "backward" in functions else set()
    called = set() if _runs_while_compiled(overload) else operators.DEVICE_KEYS  # by name, from compiled code
    if kernels := registered.library_kernels(name) - called - described:
        strange = kernels - registered.kernels_from(name, places_of(overload.namespace))
        if not strange and (package := package_text(overload.namespace)) is not None:
            return package
        _refuse(name, strange or kernels)
    try:
        return f"{overload.namespace} {metadata.version(overload.namespace)}"
    except metadata.PackageNotFoundError:
        traced = registered.traced_kernels(overload) - described
    if traced:
        raise Uncacheable(
            f"operator {name} comes from a C++ library that no installed package is named after, and has kernels "
            f"({', '.join(sorted(traced))}) that are traced through"
        )
    return None


def _refuse(name: str, kernels: set[str]) -> None:
    if kernels:
        raise Uncacheable(
            f"operator {name} has Python kernels ({', '.join(sorted(kernels))}) that torch does not hand out; "
            "define it with torch.library.custom_op, or tell when it changes: "
            f"warmgraph.describe({name!r}, lambda: ...)"
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
    elif (given := operators.generated_backward(overload)) is not None:
        found["backward"], found["setup_context"] = given
    entry = operators.simple_registry.singleton.find(overload.name())
    found.setdefault("fake", operators.fake_of(overload.name()))
    for role, function in _by_class(entry.torch_dispatch_rules._data).items():
        found.setdefault(role, function)
    for dispatch_key, function in overload.py_kernels.items():
        found[f"kernel {dispatch_key}"] = function
    users = {role: _users(function) for role, function in found.items() if function is not None}
    return {role: function for role, function in users.items() if function is not None}


def _runs_while_compiled(overload: Any) -> bool:
    """Whether Inductor calls it itself, on uniform constants."""
    return torch.Tag.pointwise in overload.tags


def _by_class(rules: dict[type, Any]) -> dict[str, Any]:
    return {f"dispatch {kind.__module__}.{kind.__qualname__}": function for kind, function in rules.items()}


def _by_device(functions: dict[Any, Any]) -> dict[str, Any]:
    return {f"implementation {device}": function for device, function in functions.items()}


def _users(function: Any) -> Any:
    """`function`, if it is or wraps a user's; None for one of torch's own."""
    if isinstance(function, torch.nn.Module):  # a traced graph, say, whose class is torch's and whose content is not
        return function
    return function if foreign(function) is not None else None


def triton_kernel(node: Node) -> dict[str, Any]:
    """What a user-defined Triton kernel call means: the kernel and its constant arguments."""
    table = operators.triton_side_table()
    return {
        "kernel_idx": _kernel(table.get_kernel(node.kwargs["kernel_idx"])),
        "constant_args_idx": table.get_constant_args(node.kwargs["constant_args_idx"]),
    }


def kernel_text(value: Any) -> str | None:
    """A Triton kernel by all that a trace of a call of it can ask; None for anything else. Raises Uncacheable.

    Beside what its key says: defaults of its parameters, which go into the graph, and what torch reads of a tuner.
    """
    if f"{type(value).__module__}.{type(value).__qualname__}" not in _KERNELS:
        return None
    found, inner = [encode(_kernel(value))], value
    while hasattr(inner, "fn") and not hasattr(inner, "src"):
        if any(getattr(inner, name, None) is not None for name in ("perf_model", "early_config_prune")):
            raise Uncacheable("a tuner that prunes its configurations by a function of the user's")
        found.append(encode([type(inner).__qualname__, *map(str, getattr(inner, "keys", None) or ())]))
        inner = inner.fn
    found.append(encode([[p.name, p.is_constexpr, p.annotation, repr(p.default)] for p in inner.params]))
    return sha256_hex(chr(10).join([f"{inner.__module__}.{inner.__qualname__}", *found]).encode())[:32]


_KERNELS = frozenset(
    "triton.runtime.jit.JITFunction triton.runtime.autotuner.Autotuner triton.runtime.autotuner.Heuristics".split()
)


def _kernel(kernel: Any) -> dict[str, Any]:
    """A Triton kernel's source with all that it calls, and what autotuning may choose from."""
    found: dict[str, Any] = {"configs": [], "heuristics": []}
    while not hasattr(kernel, "src"):
        for config in getattr(kernel, "configs", None) or ():
            found["configs"].append(sorted(f"{name}={value}" for name, value in config.all_kwargs().items()))
        for name in ("restore_value", "reset_to_zero"):
            found.setdefault(name, list(getattr(kernel, name, None) or ()))
        if getattr(kernel, "values", None):
            heuristics = [(name, source_digest(rule, f"heuristic {name}")) for name, rule in kernel.values.items()]
            found["heuristics"].append(sorted(heuristics))
        kernel = kernel.fn
    found["source"] = operators.triton_source(kernel)
    # Said in the decorator and not in the source; the analysis of what a kernel mutates asks for it.
    flags = ("do_not_specialize", "do_not_specialize_on_alignment")
    found["unspecialised"] = [[p.name for p in kernel.params if getattr(p, flag, False)] for flag in flags]
    return found
