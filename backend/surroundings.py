"""What torch knows and the graph does not say: settings, symbols, custom code. Feeds the key; keys nothing."""

from __future__ import annotations

import functools
import hashlib
import inspect
import linecache
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from warmgraph.hashing import Surroundings, Uncacheable

from . import torch_compat as compat

# Namespaces of operators that come with torch: the toolchain part fixes what they do.
_TORCH_NAMESPACES = frozenset(
    """
    aten prim prims prims_custom inductor higher_order _c10d_functional _c10d_functional_autograd c10d
    _dtensor quantized quantized_decomposed _quantized mkldnn onednn mkl mkldnn_prepacked profiler rngprims
    fsdp bucketing streams symm_mem debugprims export inductor_prims device_mesh
    """.split()
)


def surroundings(gm: GraphModule, inputs: Sequence[Any], backend: str) -> Surroundings:
    """Everything for `hashing.key_of` beside the graph and its inputs. Settings must be patched already."""
    env = compat.shape_env(inputs)
    return Surroundings(
        compiler={"backend": backend, **compat.settings_in_force()},
        code=custom_code(gm),
        symbol=functools.partial(compat.symbol_facts, env),
        resolve=_resolve,
        fresh=compat.fresh_fake,
        overlapping=compat.overlapping,
    )


def _resolve(node: Node) -> Mapping[str, Any] | None:
    """Triton kernels are called by their index in a table of this process."""
    if "kernel_idx" not in node.kwargs:
        return None
    return compat.triton_kernel(node)


def custom_code(gm: GraphModule) -> dict[str, Any]:
    """Name -> description of each operator that does not come with torch. Raises Uncacheable."""
    found: dict[str, Any] = {}
    for module in gm.modules():
        if isinstance(module, GraphModule):
            for node in module.graph.nodes:
                for overload in compat.overloads(node.target):
                    name = overload.name()
                    if overload.namespace not in _TORCH_NAMESPACES and name not in found:
                        found[name] = _describe_operator(overload)
    return found


def _describe_operator(overload: Any) -> dict[str, Any]:
    """Schema, tags, and the source of every Python function registered for it.

    An operator implemented in C++ is called, not inlined, so its schema stands for it; its fake (meta)
    implementation in Python decides shapes, and the compiled code relies on them.
    """
    description: dict[str, Any] = {
        "schema": str(overload._schema),
        "tags": sorted(str(tag) for tag in overload.tags),
    }
    for role, function in sorted(compat.python_implementations(overload).items()):
        description[role] = source_digest(function, f"{overload.name()} ({role})")
    return description


def source_digest(function: Any, what: str) -> str:
    """Digest of a function's source, decorators included. Raises Uncacheable when it cannot be seen."""
    function = inspect.unwrap(function)
    code = getattr(function, "__code__", None)
    if code is None:
        raise Uncacheable(f"{what} is implemented by {type(function).__qualname__}, whose source cannot be seen")
    linecache.checkcache(code.co_filename)
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError) as error:
        raise Uncacheable(f"the source of {what} cannot be read ({error})") from None
    captured = [cell.cell_contents for cell in function.__closure__ or () if not callable(cell.cell_contents)]
    if any(isinstance(value, torch.Tensor) or not _is_plain(value) for value in captured):
        raise Uncacheable(f"{what} closes over values that are not plain constants")
    text = source + "\n" + repr([(type(value).__name__, value) for value in captured])
    return hashlib.sha256(text.encode()).hexdigest()


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str, bytes))
