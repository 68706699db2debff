"""Triton kernels that a user's code calls, described by what they are made of."""

from __future__ import annotations

import dis
import sys
import types
from typing import Any

from torch.fx import Node
from warmgraph.hashing import Uncacheable, encode, sha256_hex, source_digest

from ..torch_api import operators as operators


def triton_kernel(node: Node) -> dict[str, Any]:
    """What a user-defined Triton kernel call means: the kernel and its constant arguments."""
    table = operators.triton_side_table()
    return {
        "kernel_idx": kernel_description(table.get_kernel(node.kwargs["kernel_idx"])),
        "constant_args_idx": table.get_constant_args(node.kwargs["constant_args_idx"]),
    }


def is_constexpr(value: Any) -> bool:
    """Whether it is a constant of Triton's (`tl.constexpr`), which torch takes for the value in it."""
    language: Any = sys.modules.get("triton.language")
    return language is not None and isinstance(value, language.constexpr)


def kernel_text(value: Any) -> str | None:
    """A Triton kernel by all that a trace of a call of it can ask; None for anything else. Raises Uncacheable.

    Beside what its key says: defaults of its parameters, which go into the graph, and what torch reads of a tuner.
    """
    if f"{type(value).__module__}.{type(value).__qualname__}" not in _KERNELS:
        return None
    found, inner = [encode(kernel_description(value))], value
    while hasattr(inner, "fn") and not hasattr(inner, "src"):
        if any(getattr(inner, name, None) is not None for name in ("perf_model", "early_config_prune")):
            raise Uncacheable("a tuner that prunes its configurations by a function of the user's")
        found.append(encode([type(inner).__qualname__, *map(str, getattr(inner, "keys", None) or ())]))
        inner = inner.fn
    found.append(encode([[p.name, p.is_constexpr, p.annotation, repr(p.default)] for p in inner.params]))
    return sha256_hex(chr(10).join([f"{inner.__module__}.{inner.__qualname__}", *found]).encode())[:32]


def launched_text(value: Any) -> str | None:
    """A Triton kernel that code of the user's launches by itself, or a function that Triton wraps. Raises Uncacheable.

    Inductor, whose account of a kernel this is, follows the names of its module and no others; a kernel in a graph
    that needs more does not compile.
    """
    if f"{type(value).__module__}.{type(value).__qualname__}" == _WRAPPED:
        return source_digest(value.fn, value.__name__, leaf=launched_text)  # `triton.cdiv`
    if (text := kernel_text(value)) is not None:
        _refuse_unseen(value, set())
        return f"triton {text}"
    return None


def _refuse_unseen(kernel: Any, seen: set[int]) -> None:
    while hasattr(kernel, "fn") and not hasattr(kernel, "src"):
        kernel = kernel.fn
    function = kernel.fn
    if id(function) in seen or (function.__module__ or "").partition(".")[0] == "triton":
        return
    seen.add(id(function))
    names = {one.argval for one in dis.get_instructions(function.__code__) if one.opname == "LOAD_GLOBAL"}
    for one in [function.__globals__.get(name) for name in sorted(names)]:
        kind = f"{type(one).__module__}.{type(one).__qualname__}"
        origin = (
            one.__name__ if issubclass(type(one), types.ModuleType) else one.fn.__module__ if kind == _WRAPPED else ""
        )
        if origin and origin.partition(".")[0] != "triton":
            raise Uncacheable(f"the Triton kernel {function.__qualname__} reads what Inductor does not follow")
        if kind in _KERNELS:
            _refuse_unseen(one, seen)
    if function.__closure__:
        raise Uncacheable(f"the Triton kernel {function.__qualname__} reads what Inductor does not follow")


_WRAPPED = "triton.runtime.jit.ConstexprFunction"
_KERNELS = frozenset(
    "triton.runtime.jit.JITFunction triton.runtime.autotuner.Autotuner triton.runtime.autotuner.Heuristics".split()
)


def kernel_description(kernel: Any) -> dict[str, Any]:
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
