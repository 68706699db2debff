"""What was registered for operators in this process, by torch or by users. Only reads torch's tables."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch
from warmgraph.hashing import TORCH_NAMESPACES

from ..operators import (
    OpOverload,
    OpOverloadPacket,
    _computation_dtype_map,
    _higher_order_ops,
    extra_random_decomps,
    fake_impls,
    global_decomposition_table,
    is_users,
    registered_hop_fake_fns,
    simple_registry,
)

# --- tables from operators to Python functions -------------------------------------------------------------


def base_tables() -> dict[str, dict[Any, Any]]:
    """Tables that are complete as soon as Dynamo is imported."""
    tables = {f"decompositions {name}": table for name, table in global_decomposition_table.items()}
    return {
        **tables,
        "fake implementations": fake_impls.op_implementations_dict,
        "types to compute in": _computation_dtype_map,
    }


_NONE: dict[Any, Any] = {}


def growing_tables() -> dict[str, dict[Any, Any]]:
    """Tables that torch itself adds to when something is first used: only what comes from outside counts."""
    quick = fake_impls.get_fast_op_impls
    nested: Any = sys.modules.get("torch.nested._internal.ops")
    choices: Any = sys.modules.get("torch._inductor.heuristics.registry")  # 2.15; the other name before
    choices = choices or sys.modules.get("torch._inductor.template_heuristics.registry")
    named = {
        "fakes": registered_hop_fake_fns,
        "decompositions of random numbers": extra_random_decomps,
        "functions of jagged tensors": getattr(nested, "JAGGED_OPS_TABLE", _NONE),
        "heuristics": getattr(choices, "_TEMPLATE_HEURISTIC_REGISTRY", _NONE),
    }
    return {**named, "quick fakes": quick() if quick.cache_info().currsize else _NONE}


_INDUCTOR = {
    "torch._inductor.lowering": (
        "lowerings",
        "_maybe_layout_constraints",
        "needs_realized_inputs",
        "foreach_ops",
        "inplace_foreach_ops",
        "inplaceable_foreach_ops",
    ),
    "torch._inductor.decomposition": ("decompositions",),
    "torch._inductor.constant_folding": ("_dont_constant_fold",),
    "torch._inductor.ir": ("REDUCTION_COMBINE_FN",),
    "torch._inductor.codegen.common": ("pointwise_overrides_data",),
    "torch._inductor.ops_handler": ("registered_pointwise_ops",),
    "torch._inductor.codegen.cpp_utils": ("DTYPE_TO_CPP",),
    "torch._inductor.codegen.custom_extern_kernel_codegen": ("CUSTOM_EXTERN_KERNEL_CODEGEN",),
    "torch._functorch.aot_autograd": ("aot_autograd_decompositions",),
    "torch._inductor.fx_passes.post_grad": ("noop_registry",),
    "torch._inductor.fx_passes.reinplace": ("inplaceable_ops", "inplaceable_foreach_ops", "META_ONLY_OPS"),
}


_FILLED_BY = {"torch._inductor.ops_handler": "torch._inductor.lowering"}  # until then it has torch's entries in part


def inductor_is_imported() -> bool:
    """Whether any of Inductor's tables exists: it takes a second to import, and a hit does without it."""
    return any(_FILLED_BY.get(module, module) in sys.modules for module in _INDUCTOR)


def registered_early() -> bool:
    """Whether anything is in a table that is empty until torch fills it, and torch has not."""
    return any(
        filled_by not in sys.modules and getattr(sys.modules.get(module), name, None)
        for module, filled_by in _FILLED_BY.items()
        for name in _INDUCTOR[module]
    )


def inductor_tables(*, unfilled: bool = False) -> dict[str, dict[Any, Any] | list[Any]]:
    """Tables that Inductor has besides, of what is imported of it; a set as the table that torch keeps it in.

    unfilled: those as well that torch has not filled yet.
    """
    found: dict[str, dict[Any, Any] | list[Any]] = {}
    for module, names in _INDUCTOR.items():
        for name in names if unfilled or _FILLED_BY.get(module, module) in sys.modules else ():
            table = getattr(sys.modules.get(module), name, None)
            table = getattr(table, "_dict", table)
            if isinstance(table, (dict, list)):
                found[f"{module.removeprefix('torch.')}.{name}"] = table
    return found


def generated_functions() -> dict[str, Any] | None:
    """The globals of functions that Inductor writes as text and executes (operations of its loops), if it did."""
    handlers: Any = sys.modules.get("torch._inductor.ops_handler")
    return handlers.DefaultHandler.abs.__globals__ if handlers is not None else None


def kernel_accesses() -> dict[str, Any]:
    """By a Triton operation, what Dynamo takes a kernel with it to read and write. Empty before torch 2.15."""
    wrapped: Any = sys.modules.get("torch._higher_order_ops.triton_kernel_wrap")
    return getattr(wrapped, "_KERNEL_ACCESS_OPS", _NONE)


LOWERINGS = "_inductor.lowering.lowerings"
FILLED_WHILE_COMPILING = (LOWERINGS, "_inductor.lowering._maybe_layout_constraints")


def is_made_while_compiling(target: Any, function: Any) -> bool:
    """Whether an entry is one that Inductor makes for an operator when it first meets it.

    A call of that very operator; or, for one that does not come with torch, the layout that its tags ask for.
    """
    handler = inspect.unwrap(function) if isinstance(function, FunctionType) else function
    name = getattr(handler, "__qualname__", "")
    if name.startswith(("constrain_to_", "require_contiguous")):
        return is_users(target) and handler is _constraint_by_tags(target)
    if not name.startswith(("fallback_handler.", "make_fallback.")):
        return False
    return any(cell.cell_contents is target for cell in handler.__closure__ or ())


def _constraint_by_tags(target: Any) -> Any:
    """The layout that Inductor asks for an operator of the user's by itself: by its tags, or by the setting."""
    lowering: Any = sys.modules["torch._inductor.lowering"]
    return lowering.tag_to_layout_constraint(lowering.get_layout_constraint_tag(target, with_default=True))


_SHARDING = ("op_to_rules", "op_strategy_funcs", "op_single_dim_strategy_funcs", "op_to_schema_info")


def _dispatcher() -> Any:
    """What runs the operators of DTensors, under tracing as well. None before DTensor is imported."""
    tensors: Any = sys.modules.get("torch.distributed.tensor")
    return getattr(getattr(tensors, "DTensor", None), "_op_dispatcher", None)


def sharding_rules() -> dict[str, dict[Any, Any]]:
    """Tables by which DTensor places an operator's results. Empty before it is imported."""
    rules = getattr(_dispatcher(), "sharding_propagator", None)
    return {f"sharding {name}": getattr(rules, name) for name in _SHARDING if hasattr(rules, name)}


def sharding_handlers() -> dict[Any, Any]:
    """By operator, what runs it for DTensors instead of the general way."""
    found: dict[Any, Any] = getattr(_dispatcher(), "_custom_op_handlers", {})
    return found


def exchanged_sharding() -> dict[str, str]:
    """Names of torch's own functions where torch does not begin with them: `loss_parallel` and `context_parallel` put
    them there.
    """
    dispatcher = _dispatcher()
    if dispatcher is None:
        return {}
    before, now = type(dispatcher)()._custom_op_handlers, sharding_handlers()
    changed = [operator for operator in {*before, *now} if before.get(operator) is not now.get(operator)]
    found = {f"handler of {operator}": _path(now.get(operator)) for operator in changed}
    for name, table in sharding_rules().items():
        for operator, rule in table.items():
            path = _path(getattr(rule, "func", rule))
            if path.startswith("torch.distributed.tensor.experimental."):
                found[f"{name} of {operator}"] = path
    return found


def _path(function: Any) -> str:
    return f"{getattr(function, '__module__', None)}.{getattr(function, '__qualname__', None)}"


def fake_rules() -> dict[str, Any]:
    """Rules by which fake tensors answer for several operators at once, by their number."""
    return {str(number): function for number, (_, function) in enumerate(fake_impls.op_implementations_checks)}


# --- single operators --------------------------------------------------------------------------------------


def operator_tables() -> Iterator[tuple[Any, dict[Any, Any]]]:
    """(operator, table) for every table that an operator of torch's has: Python kernels by key, mode, or transform."""
    for packet in _packets():
        for overload in tuple(vars(packet).values()):
            if isinstance(overload, OpOverload):
                yield overload, overload.py_kernels
                yield overload, overload.python_key_table
    for operator in _higher_order_ops.values():
        yield operator, operator.py_kernels
        yield operator, operator.python_key_table
        yield operator, operator.functorch_table


def _packets() -> Iterator[Any]:
    for namespace in tuple(vars(torch.ops).values()):
        if getattr(namespace, "name", None) in TORCH_NAMESPACES:
            yield from (item for item in tuple(vars(namespace).values()) if isinstance(item, OpOverloadPacket))


def name_of(operator: Any) -> str:
    """`aten::sin`, `higher_order::cond`."""
    return str(operator.name()) if isinstance(operator, OpOverload) else f"higher_order::{operator._name}"


def operators_of_namespaces() -> Iterator[dict[str, Any]]:
    """The tables that grow when an operator of torch's is first asked for: of a namespace, of an operator's name."""
    yield vars(torch.ops)
    yield _higher_order_ops
    for namespace in vars(torch.ops).values():
        if getattr(namespace, "name", None) in TORCH_NAMESPACES:
            yield vars(namespace)
    yield from map(vars, _packets())


def library_entries() -> Iterator[tuple[str, str, Any]]:
    """(operator, role, function) of what torch.library keeps for torch's own operators: fakes, rules of dispatch."""
    for name, entry in simple_registry.singleton._data.items():
        if name.partition("::")[0] in TORCH_NAMESPACES:
            if entry.fake_impl.kernel is not None:
                yield name, "fake", entry.fake_impl.kernel.func
            for kind, function in entry.torch_dispatch_rules._data.items():
                yield name, f"dispatch {kind.__module__}.{kind.__qualname__}", function


def fakes_of_primitives() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """(operator, fake, where it is kept) of torch's primitive operators, which carry their fakes themselves."""
    for packet in vars(torch.ops.prims).values():
        for overload in vars(packet).values() if isinstance(packet, OpOverloadPacket) else ():
            if isinstance(overload, OpOverload) and hasattr(overload, "prim_meta_impl"):
                yield overload.name(), overload.prim_meta_impl, vars(overload)


def registry_of_libraries() -> dict[str, Any]:
    """The table behind `library_entries`."""
    found: dict[str, Any] = simple_registry.singleton._data
    return found


# --- operators that do not come with torch -------------------------------------------------------------------


def autotuned_operators() -> list[Any]:
    """Operators for which the user has Inductor choose among implementations (`register_custom_op_autotuning`)."""
    lowering: Any = sys.modules.get("torch._inductor.lowering")
    if hasattr(lowering, "user_lowerings"):
        return list(lowering.user_lowerings)
    # torch 2.11 has them among all others, under names of torch's own; but their code lies where they are made.
    makes = sys.modules.get("torch._inductor.kernel.custom_op")
    found = getattr(lowering, "lowerings", {}).items() if makes is not None else ()
    return [target for target, function in found if getattr(function, "__globals__", None) is vars(makes)]
