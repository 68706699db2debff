"""What torch keeps of operators, and whether Inductor is there. Read on 2.13.0. `changes/registries.py` reads on."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch._C._dynamo.guards import dict_version
from torch._decomp import decomposition_table, global_decomposition_table, meta_table
from torch._decomp.decompositions_for_rng import extra_random_decomps
from torch._guards import active_fake_mode
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._library import simple_registry
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._library.triton import get_triton_kernels_for_op
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket, _higher_order_ops
from torch._prims_common import _computation_dtype_map
from torch._subclasses import fake_impls
from torch.fx import GraphModule
from torch.fx.node import _side_effectful_functions
from warmgraph.hashing import TORCH_NAMESPACES, comes_with_torch, foreign, graph_modules, is_torch_or_stdlib

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


# Dispatch keys whose kernels compiled code calls by name; the others are traced through.
DEVICE_KEYS = frozenset("CPU CUDA HIP XPU MPS MTIA HPU PrivateUse1".split())


def inductor_is_imported() -> bool:
    """Whether all that Inductor looks up while it compiles is imported."""
    return "torch._inductor.compile_fx" in sys.modules and "torch._inductor.fx_passes.reinplace" in sys.modules


def import_inductor() -> None:
    """Everything that Inductor looks up while it compiles."""
    import torch._inductor.compile_fx
    import torch._inductor.fx_passes.reinplace  # noqa: F401


def overloads(target: Any) -> list[Any]:
    """The dispatcher operators that a call target stands for."""
    if isinstance(target, OpOverload):
        return [target]
    if isinstance(target, OpOverloadPacket):
        return [getattr(target, name) for name in target.overloads()]
    return []


def stays_unused(overload: Any) -> bool:
    """Whether a call of it stays where nothing uses what it gives, as a program wants it (`torch.fx.has_side_effect`).

    Of an operator with an effect torch says so by itself, when the first is compiled: in a process that hits, never.
    """
    return overload in _side_effectful_functions and not _has_effect(overload)


def made_to_stay() -> list[str]:
    """Of torch's operators that compute, those that a program gave to `torch.fx.has_side_effect`."""
    found = {str(one) for one in _side_effectful_functions if isinstance(one, OpOverload) and not _has_effect(one)}
    return sorted(name for name in found if name.partition(".")[0] in _COMPUTE and name not in _STAY)


def _has_effect(overload: OpOverload) -> bool:
    """As torch knows it (`torch/_higher_order_ops/effects.py`): of its own operators, checks and prints."""
    entry = simple_registry.singleton._data.get(overload._name)
    return entry is not None and entry.effect.effect is not None


_COMPUTE = frozenset("aten prims quantized mkldnn onednn".split())
_STAY = frozenset(
    """
    aten._assert_async.msg aten._assert_scalar.default aten._assert_tensor_metadata.default
    aten.sym_constrain_range.default aten.sym_constrain_range_for_size.default prims._sink_tokens.default
    """.split()
)


def overload_names(packet: Any) -> list[str]:
    """As they are now: a user may define more after torch has counted them. torch's own do not change."""
    name = packet._qualified_op_name
    if name.partition("::")[0] in TORCH_NAMESPACES:
        return list(packet.overloads())
    all_names = (one.partition(".") for one in torch._C._dispatch_get_all_op_names())
    return [overload or "default" for one, _, overload in all_names if one == name]


def users_operators(target: Any) -> list[Any]:
    """Those that do not come with torch."""
    return [one for one in overloads(target) if one.namespace not in TORCH_NAMESPACES]


def _named(target: Any) -> dict[str, Any]:
    """The users' operators that a target stands for. A name without an overload's is one that a packet was called by:
    which overload that chooses depends on which there are.
    """
    by_packet = isinstance(target, OpOverloadPacket)
    names = ((one.name(), one) for one in users_operators(target))
    return {name if by_packet or "." in name else f"{name}.default": one for name, one in names}


def in_graphs(gm: Any) -> dict[str, Any]:
    """The users' operators that a graph and those within it call, by the names that they are called by."""
    nodes = (node for inner in graph_modules(gm) for node in inner.graph.nodes)
    return {name: one for node in nodes for name, one in _named(node.target).items()}


def called(target: Any, args: Any) -> dict[str, Any]:
    """The users' operators that `target(*args)` runs on fake tensors: itself, or those in graphs that a higher-order
    operator of torch's is given (`torch.cond`). Empty where anything else may run, or where tensors are not fake ones.
    """
    found = _named(target)
    if isinstance(target, HigherOrderOperator) and is_torch_or_stdlib(type(target).__module__):
        found = {name: one for gm in args if isinstance(gm, GraphModule) for name, one in in_graphs(gm).items()}
    mode = active_fake_mode() if found else None
    return found if mode is not None and not mode.propagate_real_tensors else {}


def runs_more(overload: Any) -> bool:
    """Whether code of the user's beside its fake and `setup_context` may run where an operator meets fake tensors."""
    name = overload.name()
    definition, entry = OPDEFS.get(name.partition(".")[0]), simple_registry.singleton.find(name)
    if overload.py_kernels or overload.python_key_table or entry.torch_dispatch_rules._data:
        return True
    tables = (decomposition_table, meta_table, global_decomposition_table["pre_autograd"])
    if any(overload in table for table in (*tables, fake_impls.get_fast_op_impls())):
        return True
    if definition is not None:
        return definition._vmap_fn is not None or bool(definition._torch_dispatch_fns)
    return False


def has_plain_schema(overload: Any) -> bool:
    """Whether it takes tensors, numbers, texts, dtypes, devices, and lists of these: no object with code of its own."""

    def is_plain(kind: Any) -> bool:
        while kind.kind() in ("OptionalType", "ListType"):
            kind = kind.getElementType()
        return kind.kind() in _PLAIN_KINDS

    return all(is_plain(one.real_type) for one in overload._schema.arguments)


_PLAIN_KINDS = frozenset(
    """
    TensorType IntType FloatType BoolType StringType NumberType ComplexType SymIntType SymFloatType SymBoolType
    DeviceObjType ScalarTypeType LayoutType MemoryFormatType
    """.split()
)


def is_one(name: str) -> bool:
    """Whether it stands for no other operator, whenever torch counted the overloads: a packet's name may."""
    return "." in name or len(torch._C._jit_get_operation(name)[1]) == 1


def fake_of(name: str) -> Any:
    """The user's own function, or None."""
    kernel = simple_registry.singleton.find(name).fake_impl.kernel
    return None if kernel is None else unwrapped(kernel.func)


def unwrapped(fake: Any) -> Any:
    """`torch.library.register_fake` wraps a function into one that notes its first call."""
    if getattr(fake, "__qualname__", None) == "_check_pystubs_once.<locals>.inner":
        return dict(zip(fake.__code__.co_freevars, fake.__closure__, strict=True))["func"].cell_contents
    return fake


def overload_named(name: str) -> Any:
    """By a name as `in_graphs` has it. Raises AttributeError for one that is not registered."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def is_defined_outside(overload: Any) -> bool:
    """Whether a program defined an operator of one of torch's namespaces."""
    if not overload._defined_in_python:
        return False
    made = OPDEFS.get(overload.name().partition(".")[0])
    if made is not None:
        return foreign(made._init_fn) is not None
    lines = torch._C._dispatch_dump(overload.name()).splitlines()
    file = next((line for line in lines if line.startswith("debug: ")), "").rpartition("registered at ")[2]
    file = file.partition(".py:")[0] + ".py"
    return file == torch.library.__file__ or not comes_with_torch(file)


def is_fake(value: Any) -> bool:
    return isinstance(value, torch._subclasses.FakeTensor)


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
