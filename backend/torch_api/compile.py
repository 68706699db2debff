"""A compile as Dynamo begins it: settings, inputs and their symbols, tracing contexts, results. Read on 2.11 to 2.15.

Private names move. Each one is used through a function that says what it is for, and checked by
`tests/backend/torch_api/test_torch_compat.py`, which fails loudly when one is gone; `surface.py` looks before the first
graph.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
import torch._inductor.config_comms
import torch._logging
import torch.distributed.config
import torch.fx.experimental._config
from torch._dynamo import pgo
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.exc import (
    BackendCompilerFailed,
    ShortenTraceback,
    SkipFrame,
    TensorifyScalarRestartAnalysis,
    exceptions_allowed_to_be_fallback,
)
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd.aot_autograd_result import BundledAOTAutogradResult
from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache, AOTAutogradCacheInfo
from torch._functorch._aot_autograd.utils import saved_tensors_hooks_are_inlineable, top_saved_tensors_hooks
from torch._guards import DuplicateInputs, StorageOverlap, TracingContext, detect_fake_mode, tracing
from torch._inductor.cudagraph_utils import BoxedDeviceIndex
from torch._inductor.output_code import CompiledFxGraph, CompiledFxGraphConstants
from torch._inductor.utils import BoxedBool
from torch._ops import OpOverload, OpOverloadPacket
from torch.fx import GraphModule, Node
from torch.fx.experimental import symbolic_shapes
from torch.serialization import _get_layout as layout_named
from torch.utils._config_module import _UNSET_SENTINEL as UNSET
from torch.utils._ordered_set import OrderedSet
from torch.utils._pytree import tree_leaves

from .surface import broken
from .versions import too_old
from .versions.plain import compile_plainly, not_as_needed

__all__ = [
    "UNSET",
    "AOTAutogradCache",
    "AOTAutogradCacheInfo",
    "BackendCompilerFailed",
    "BoxedBool",
    "BoxedDeviceIndex",
    "BundledAOTAutogradResult",
    "CompiledFxGraph",
    "CompiledFxGraphConstants",
    "DuplicateInputs",
    "OpOverload",
    "OpOverloadPacket",
    "OrderedSet",
    "StorageOverlap",
    "TracingContext",
    "config_modules",
    "counters",
    "dynamo_utils",
    "functorch_config",
    "inductor_config",
    "layout_named",
    "pgo",
    "tracing",
    "tree_leaves",
]

output_code_log = torch._logging.getArtifactLogger("torch._inductor.codecache", "output_code")
trace_structured = torch._logging.trace_structured

# Dynamo and AOTAutograd steer by these; they are not failures and are never caught.
CONTROL_FLOW = (TensorifyScalarRestartAnalysis, SkipFrame, ShortenTraceback)

# What a compile may raise that Dynamo answers itself (a graph break, the user's own IndexError).
COMPILE_ERRORS = (IndexError, *exceptions_allowed_to_be_fallback)

# Every settings module of torch that can reach generated code, and how keys call it.
config_modules = {
    "inductor": inductor_config,
    "comms": torch._inductor.config_comms,
    "functorch": functorch_config,
    "shapes": torch.fx.experimental._config,
    "distributed": torch.distributed.config,
}

# A function of its own since 2.12; before, the node's property.
_guarding_hint = getattr(symbolic_shapes, "guarding_hint_or_throw", None) or (lambda value: value.node.hint)


def unsupported() -> str | None:
    """None on a torch that has all that is needed, tested or not; else one line on what to do."""
    if (old := too_old()) is not None:
        return old
    moved = broken()
    return None if moved is None else not_as_needed(moved)


def caches_disabled() -> bool:
    return bool(torch.compiler.config.force_disable_caches)


def bisecting() -> bool:
    """Whether torch's compiler bisector is at work, which turns passes on and off behind the settings."""
    bisector = sys.modules.get("torch._inductor.compiler_bisector")
    return bisector is not None and bool(bisector.CompilerBisector.bisection_enabled)


# Settings under which ranks talk to each other while they compile, by module.
_TOGETHER = (
    ("functorch", "_sync_decision_cross_ranks"),
    ("functorch", "_sync_cache_decision_cross_ranks"),  # since 2.15: torch's own caches agree on what is a hit
    ("inductor", "distributed_max_autotune_gemm"),
    ("comms", "runtime_estimations_align_across_all_distributed_ranks"),
    ("inductor", "aten_distributed_optimizations.enable_overlap_scheduling"),
    ("inductor", "aten_distributed_optimizations.spmd_check"),
)
# What such a setting needs beside it: `spmd_check` is on by default in 2.12, and does nothing alone. (With overlap
# scheduling, too, which counts by itself.)
_ONLY_WITH = {"aten_distributed_optimizations.spmd_check": "reorder_for_compute_comm_overlap"}


def ranks_compile_together() -> str | None:
    """A setting under which a rank that loads would leave those that compile waiting for it; None without one."""
    distributed = torch.distributed
    if not (distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1):
        return None
    for module, name in _TOGETHER:
        if setting(module, name) and (name not in _ONLY_WITH or setting(module, _ONLY_WITH[name])):
            return f"{module}.{name} makes ranks talk to each other while they compile, and one that loads would not"
    return None


def setting(module: str, name: str) -> Any:
    """A setting of `module` by its dotted name; None where this torch has none of that name."""
    settings = config_modules[module]
    return functools.reduce(getattr, name.split("."), settings) if name in settings._config else None


def odd_graph(gm: GraphModule, inputs: Sequence[Any]) -> str | None:
    """What Inductor would wrap in a way that a load does not: graphs that Dynamo itself never makes."""
    (returned,) = next(node for node in reversed(gm.graph.nodes) if node.op == "output").args
    if not isinstance(returned, (tuple, list)):
        return "the graph returns a single value instead of a tuple"
    if hasattr(gm.graph._codegen, "pytree_info"):
        return "the graph packs and unpacks its own inputs (torch.export)"
    if any(isinstance(value, (list, tuple, dict)) for value in inputs):
        return "an input is a container"
    return None


def freezing() -> bool:
    return bool(inductor_config.freezing) and not torch.is_grad_enabled()


def saved_tensors_hooks() -> tuple[GraphModule, GraphModule] | None:
    """The pair (pack, unpack) that AOTAutograd would inline now: the innermost one, if both are GraphModules."""
    if torch._dynamo.compiled_autograd.in_compiled_autograd_region:
        return None
    hooks = top_saved_tensors_hooks()
    return hooks if saved_tensors_hooks_are_inlineable(hooks) else None


def tracing_context() -> TracingContext | None:
    return TracingContext.try_get()


def shape_env(inputs: Sequence[Any]) -> Any:
    """The ShapeEnv of this compile, or None when nothing is dynamic."""
    for value in inputs:
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return value.node.shape_env
    mode = detect_fake_mode(inputs)
    return mode.shape_env if mode is not None else None


def symbol_facts(env: Any, symbol: Any) -> tuple[str | None, dict[str, Any]]:
    """A symbol's first source name (None if unbacked), and what Inductor may assume of it."""
    sources = env.var_to_sources.get(symbol) if env is not None else None
    facts: dict[str, Any] = {"integer": bool(symbol.is_integer)}
    if env is not None:
        bounds = env.var_to_range.get(symbol)
        if bounds is not None:
            facts["range"] = [bounds.lower, bounds.upper]
        facts["size_like"] = symbol in env.size_like
        override = getattr(env, "var_to_hint_override", {}).get(symbol)
        if override is not None:
            facts["hint_override"] = override
    return (source_name(sources[0]) if sources else None), facts


def is_of_stand_ins(env: Any, expression: Any) -> bool:
    """Whether a guard speaks of nothing but tensors that a view's function holds (`_nested_get_jagged_dummy`).

    torch makes these afresh whenever it makes a view fake, and cannot guard on them either. They are no inputs.
    """
    sources = [env.var_to_sources.get(symbol, ()) for symbol in expression.free_symbols]
    return all(found and all(_STAND_IN in source_name(source) for source in found) for found in sources)


_STAND_IN = "<ephemeral: tensor_visitor_fn>"


def is_known_by_source(env: Any, expression: Any) -> bool:
    """Whether a guard says what was known already of the same sizes by other symbols.

    A gradient of an input gets symbols from Dynamo, and others when AOTAutograd makes the input fake again.
    """
    first: dict[str, Any] = {}
    same = {
        symbol: first.setdefault(source_name(sources[0]), symbol)
        for symbol, sources in env.var_to_sources.items()
        if sources
    }
    known = expression.xreplace({symbol: same.get(symbol, symbol) for symbol in expression.free_symbols})
    return bool(known != expression and env.replace(known) == True)  # noqa: E712 - sympy's own truth, not Python's


def source_name(source: Any) -> str:
    name = source.name
    return str(name() if callable(name) else name)  # a method in 2.11, a property since


def fresh_fake(node: Node, real: torch.Tensor) -> torch.Tensor:
    """`real` made fake as Dynamo did before it traced (torch's own cure for metadata mutation, #113605)."""
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    if mode is None:
        mode = torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True)
    symbolic = context.tensor_to_context.get(real) if context is not None else None
    source = symbolic.tensor_source if symbolic is not None else None
    return mode.from_tensor(real, symbolic_context=symbolic, source=source, trace=False)


def fake_mode() -> Any:
    """A mode for fake tensors with symbols of its own."""
    return torch._subclasses.FakeTensorMode(shape_env=symbolic_shapes.ShapeEnv(), allow_non_fake_inputs=True)


def settings_are_per_thread() -> bool:
    """Since torch 2.12."""
    return isinstance(inductor_config._config["triton.cudagraphs"].user_override, contextvars.ContextVar)


def backed_symints(inputs: Sequence[Any]) -> list[Any]:
    """The symbolic inputs that guards speak of, in their order (`L['t0']`, `L['t1']`, ...)."""
    return list(AOTAutogradCache._filter_backed_symints(inputs))


def hints(symints: Sequence[Any]) -> list[Any]:
    """This call's concrete values of `symints`, without adding guards. Raises where one has none."""
    found = [_guarding_hint(value) for value in symints]
    if any(hint is None for hint in found):
        raise ValueError("a symbolic input without a concrete value")
    return found


def input_sources(gm: GraphModule) -> list[Any]:
    """Dynamo's source of each placeholder (None where it has none)."""
    return [getattr(node, "_dynamo_source", None) for node in gm.graph.find_nodes(op="placeholder")]


def compile_fx(gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any]) -> Callable[..., Any]:
    """Inductor, as `torch.compile(backend="inductor")` calls it."""
    try:
        from torch._inductor.async_compile import maybe_warm_pool
        from torch._inductor.compile_fx import compile_fx as inductor
    except ImportError:
        return compile_plainly("warmgraph", gm, inputs, None, patches)
    maybe_warm_pool()
    return inductor(gm, inputs, config_patches=dict(patches))  # type: ignore[no-any-return]


def mutated_inputs(result: Any) -> frozenset[int]:
    """Positions of the inputs that a result writes to, as AOTAutograd saw it."""
    infos = enumerate(result.runtime_metadata.input_info)
    return frozenset(position for position, info in infos if info.mutates_data or info.mutates_metadata)


def compile_lock() -> contextlib.AbstractContextManager[Any]:
    """Held by Dynamo while it compiles."""
    return torch._dynamo.convert_frame.compile_lock  # type: ignore[no-any-return]


# --- loading ------------------------------------------------------------------------------------------


def overlapping(tensors: list[torch.Tensor], *, symbolic: bool) -> set[int]:
    """Positions of tensors that overlap another: by torch's quick rule for dynamic sizes, or by its exact one."""
    return set(torch._C._dynamo.guards.compute_overlapping_tensors(tensors, symbolic=symbolic))


def no_dispatch_modes() -> contextlib.AbstractContextManager[Any]:
    return torch.utils._python_dispatch._disable_current_modes()  # type: ignore[no-any-return]


def graph_is_kept() -> bool:  # inside a backward: called with `retain_graph` or `create_graph`, so it may run again
    return bool(torch._C._autograd._get_current_graph_task_keep_graph())


def reset_cudagraphs() -> None:
    """Forget this process's CUDA-graph recordings, if there can be any."""
    if torch.cuda.is_available():
        from torch._inductor.cudagraph_trees import reset_cudagraph_trees

        reset_cudagraph_trees()


def sm_carveout() -> int | None:
    """Multiprocessors that generated kernels must leave alone (baked into persistent ones), or None."""
    return torch._C._get_sm_carveout_experimental()  # type: ignore[no-any-return]


def custom_ops_profile() -> Any:
    """Shapes of custom operators as `torch.export`'s draft mode saw them, used instead of their fakes; or None."""
    return torch._dynamo.config._custom_ops_profile
