"""Users' code inside a graph: custom operators and Triton kernels, described by what they are made of."""

from __future__ import annotations

from importlib import metadata
from typing import Any

from torch.fx import GraphModule, Node
from warmgraph.hashing import Uncacheable, graph_modules, source_digest

from . import torch_compat as compat

# Namespaces of operators that come with torch: the toolchain part fixes what they do.
_TORCH_NAMESPACES = frozenset(
    """
    aten prim prims prims_custom inductor higher_order _c10d_functional _c10d_functional_autograd c10d
    _dtensor quantized quantized_decomposed _quantized mkldnn onednn mkl mkldnn_prepacked profiler rngprims
    fsdp bucketing streams symm_mem debugprims export inductor_prims device_mesh
    """.split()
)


def custom_code(gm: GraphModule) -> dict[str, Any]:
    """Name -> description of each operator that does not come with torch. Raises Uncacheable."""
    found: dict[str, Any] = {}
    for module in graph_modules(gm):
        for node in module.graph.nodes:
            for overload in overloads(node.target):
                name = overload.name()
                if overload.namespace not in _TORCH_NAMESPACES and name not in found:
                    found[name] = _describe_operator(overload)
    return found


def _describe_operator(overload: Any) -> dict[str, Any]:
    """Schema, tags, and every Python function that tracing inlines or relies on, with all it reaches.

    The implementation proper is called by the operator's name and not part of the compiled code; the fake
    (meta) one decides shapes, and backward formulas and composite implementations are traced through.
    """
    name = overload.name()
    description: dict[str, Any] = {"schema": str(overload._schema), "tags": sorted(str(tag) for tag in overload.tags)}
    functions = python_implementations(overload)
    for role, function in sorted(functions.items()):
        description[role] = source_digest(function, f"operator {name} ({role})")
    for number, kernel in enumerate(compat.triton_kernels_of(name)):
        description[f"triton {number}"] = _kernel(kernel)
    if name.split(".")[0] not in compat.OPDEFS:
        description["library"] = _library(overload, functions)
    return description


# Dispatch keys whose kernels compiled code calls by name; the others are traced through.
_CALLED = frozenset("CPU CUDA HIP XPU MPS MTIA HPU PrivateUse1 CompositeExplicitAutograd".split())


def _library(overload: Any, functions: dict[str, Any]) -> Any:
    """What stands for kernels of an operator that `torch.library.Library` or C++ registered."""
    name = overload.name().split(".")[0]
    described = {"Meta"} if "fake" in functions else set()
    python = compat.library_kernels(name) - _CALLED - described
    if python:
        raise Uncacheable(
            f"operator {name} has Python kernels ({', '.join(sorted(python))}) that torch does not hand out; "
            "define it with torch.library.custom_op"
        )
    try:
        return f"{overload.namespace} {metadata.version(overload.namespace)}"
    except metadata.PackageNotFoundError:
        traced = compat.traced_kernels(overload) - described
    if traced:
        raise Uncacheable(
            f"operator {name} comes from a C++ library that no installed package is named after, and has kernels "
            f"({', '.join(sorted(traced))}) that are traced through"
        )
    return None


def overloads(target: Any) -> list[Any]:
    """The dispatcher operators that a call target stands for."""
    if isinstance(target, compat.OpOverload):
        return [target]
    if isinstance(target, compat.OpOverloadPacket):
        return [getattr(target, name) for name in target.overloads()]
    return []


def python_implementations(overload: Any) -> dict[str, Any]:
    """Role -> Python function that tracing a custom operator may inline or rely on (`torch.library`).

    Not the implementation proper, which compiled code calls by the operator's name.
    """
    name = overload.name().split(".")[0]
    found: dict[str, Any] = {}
    definition = compat.OPDEFS.get(name)
    if definition is not None:
        found = {
            "fake": definition._abstract_fn,
            "backward": definition._backward_fn,
            "setup_context": definition._setup_context_fn,
            "vmap": definition._vmap_fn,
        }
    kernel = compat.simple_registry.singleton.find(name).fake_impl.kernel
    if kernel is not None:
        found.setdefault("fake", kernel.func)
    for dispatch_key, function in overload.py_kernels.items():
        found[f"kernel {dispatch_key}"] = function
    # torch's own wrappers around the user's functions are fixed by torch's version.
    return {
        role: function
        for role, function in found.items()
        if function is not None and not (getattr(function, "__module__", None) or "").startswith("torch.")
    }


def triton_kernel(node: Node) -> dict[str, Any]:
    """What a user-defined Triton kernel call means: the kernel and its constant arguments."""
    table = compat.triton_side_table()
    return {
        "kernel_idx": _kernel(table.get_kernel(node.kwargs["kernel_idx"])),
        "constant_args_idx": table.get_constant_args(node.kwargs["constant_args_idx"]),
    }


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
    found["source"] = compat.triton_source(kernel)
    return found
