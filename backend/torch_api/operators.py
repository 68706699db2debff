"""What torch keeps of operators, and whether Inductor is there. Read on 2.13.0. `changes/registries.py` reads on."""

from __future__ import annotations

import sys
from typing import Any

from torch._C._dynamo.guards import dict_version
from torch._decomp import global_decomposition_table
from torch._decomp.decompositions_for_rng import extra_random_decomps
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._library import simple_registry
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._library.triton import get_triton_kernels_for_op
from torch._ops import OpOverload, OpOverloadPacket, _higher_order_ops
from torch._prims_common import _computation_dtype_map
from torch._subclasses import fake_impls
from warmgraph.hashing import TORCH_NAMESPACES

__all__ = [
    "OPDEFS",
    "CustomOpDef",
    "OpOverload",
    "OpOverloadPacket",
    "_computation_dtype_map",
    "_higher_order_ops",
    "dict_version",
    "extra_random_decomps",
    "fake_impls",
    "global_decomposition_table",
    "registered_hop_fake_fns",
    "simple_registry",
]


def inductor_is_imported() -> bool:
    """Whether all that Inductor looks up while it compiles is imported."""
    return "torch._inductor.compile_fx" in sys.modules and "torch._inductor.fx_passes.reinplace" in sys.modules


def import_inductor() -> None:
    """Everything that Inductor looks up while it compiles."""
    import torch._inductor.compile_fx
    import torch._inductor.fx_passes.reinplace  # noqa: F401


def is_users(target: Any) -> bool:
    """Whether it is an operator that does not come with torch."""
    return isinstance(target, OpOverload) and target.namespace not in TORCH_NAMESPACES


def triton_side_table() -> Any:
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table

    return kernel_side_table


def triton_source(kernel: Any) -> Any:
    from torch._inductor.codegen.wrapper import user_defined_triton_kernel_transitive_closure_source_code

    return user_defined_triton_kernel_transitive_closure_source_code(kernel)


def triton_kernels_of(name: str) -> list[Any]:
    """Kernels that a `torch.library.triton_op` is made of."""
    return list(get_triton_kernels_for_op(name.split(".")[0]))
