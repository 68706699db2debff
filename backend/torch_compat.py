"""Every private corner of torch that warmgraph touches, and nothing else. Read on 2.11.0 and 2.13.0.

Private names move. Each one is imported here, used through a function that says what it is for, and
checked by `tests/backend/test_torch_compat.py`, which fails loudly when one is gone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
import torch._inductor.debug  # a loaded graph looks there at every call
import torch._logging
from torch._dynamo.exc import ShortenTraceback, SkipFrame, TensorifyScalarRestartAnalysis
from torch._dynamo.utils import counters
from torch._functorch._aot_autograd.autograd_cache import (
    AOTAutogradCache,
    AOTAutogradCacheInfo,
    BypassAOTAutogradCache,
    check_cacheable,
)
from torch._guards import DuplicateInputs, StorageOverlap, TracingContext, detect_fake_mode
from torch._inductor.codecache import BypassFxGraphCache, CppPythonBindingsCodeCache, FxGraphCache
from torch._inductor.cudagraph_utils import BoxedDeviceIndex
from torch._inductor.metrics import CachedMetricsHelper
from torch._inductor.output_code import CompiledFxGraph, CompiledFxGraphConstants
from torch._inductor.triton_bundler import TritonBundler
from torch._inductor.utils import BoxedBool
from torch._library import simple_registry
from torch._library.custom_ops import OPDEFS
from torch.fx import GraphModule, Node
from torch.fx.experimental import symbolic_shapes

__all__ = ["CompiledFxGraph", "CompiledFxGraphConstants", "CppPythonBindingsCodeCache", "inductor_config"]

FIRST, LAST = (2, 11), (2, 13)

output_code_log = torch._logging.getArtifactLogger("torch._inductor.codecache", "output_code")

# Dynamo and AOTAutograd steer by these; they are not failures and are never caught.
CONTROL_FLOW = (TensorifyScalarRestartAnalysis, SkipFrame, ShortenTraceback)

# A function of its own since 2.12; before, the node's property.
_guarding_hint = getattr(symbolic_shapes, "guarding_hint_or_throw", None) or (lambda value: value.node.hint)

# Settings that say how to compile, not what; or where files lie. All others are part of the key.
_IGNORED_SETTINGS = frozenset(
    """
    fx_graph_cache fx_graph_remote_cache autotune_local_cache autotune_remote_cache
    bundled_autotune_remote_cache force_disable_caches remote_gemm_autotune_cache compile_threads
    worker_start_method verbose_progress disable_progress quiesce_async_compile_pool
    quiesce_async_compile_time compile_worker_wait_timeout cudagraph_policy
    force_disable_cudagraph_TESTING_ONLY cutlass.cutlass_dir cuda.cutlass_dir xpu.cutlass_dir
    enable_autograd_cache enable_remote_autograd_cache strict_autograd_cache bundled_autograd_cache
    bundle_triton_into_fx_graph_cache force_non_lazy_backward_lowering bypass_autograd_cache_key
    autograd_cache_normalize_inputs force_autograd_cache trace.upload_tar pre_grad_pass_timing
    """.split()
)
_IGNORED_PREFIXES = ("trace.", "test_configs.", "aot_inductor.")


def unsupported() -> str | None:
    """None on a torch that warmgraph was read on, else one line on what to do."""
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if FIRST <= version <= LAST:
        return None
    return (
        f"torch {torch.__version__} is not between {FIRST[0]}.{FIRST[1]} and {LAST[0]}.{LAST[1]}; "
        "compiling as plain Inductor does. Upgrade warmgraph or pin torch"
    )


def inductor_options(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """What `torch.compile(backend="inductor", mode=..., options=...)` would patch into Inductor's settings.

    Raises torch's own errors for an unknown mode or option.
    """
    return dict(torch._TorchCompileInductorWrapper(mode, dict(options or {}), None).config)


def patched_settings(patches: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    return inductor_config.patch(dict(patches)) if patches else contextlib.nullcontext()


def settings_in_force() -> dict[str, Any]:
    """Every Inductor and functorch setting that can reach generated code, by `module.name`."""
    found: dict[str, Any] = {}
    for prefix, module in (("inductor", inductor_config), ("functorch", functorch_config)):
        for name, value in module.get_config_copy().items():
            if name not in _IGNORED_SETTINGS and not name.startswith(_IGNORED_PREFIXES):
                found[f"{prefix}.{name}"] = _identify_passes(value)
    return found


def _identify_passes(value: Any) -> Any:
    """Custom passes by their `uuid()`; one without stays as it is, and the encoder refuses it."""
    if isinstance(value, (list, tuple)):
        return type(value)(_identify_passes(item) for item in value)
    uuid = getattr(value, "uuid", None)
    if callable(uuid) and not isinstance(value, type) and (identity := uuid()) is not None:
        return ["uuid", f"{type(value).__module__}.{type(value).__qualname__}", identity]
    return value


def caches_disabled() -> bool:
    return bool(torch.compiler.config.force_disable_caches)


def fakify_first_call() -> bool:
    """Whether DDP's optimizer is at work: it compiles pieces of a graph on fake inputs."""
    context = TracingContext.try_get()
    return context is not None and bool(context.fakify_first_call)


def freezing() -> bool:
    return bool(inductor_config.freezing) and not torch.is_grad_enabled()


def unsafe_reason(gm: GraphModule, inputs: Sequence[Any]) -> str | None:
    """Why torch itself would not cache this graph, in its words; None when it would."""
    takes_inputs = len(inspect.signature(FxGraphCache._check_can_cache).parameters) > 1
    try:
        with inductor_config.patch(fx_graph_cache=True):
            check_cacheable(gm)
            FxGraphCache._check_can_cache(gm, inputs) if takes_inputs else FxGraphCache._check_can_cache(gm)
    except (BypassAOTAutogradCache, BypassFxGraphCache) as refusal:
        return " ".join(str(refusal).split())
    return None


# --- symbols and fakes -----------------------------------------------------------------------------


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


def backed_symints(inputs: Sequence[Any]) -> list[Any]:
    """The symbolic inputs that guards speak of, in their order (`L['t0']`, `L['t1']`, ...)."""
    return list(AOTAutogradCache._filter_backed_symints(inputs))


def hints(symints: Sequence[Any]) -> list[Any]:
    """This call's concrete values of `symints`, without adding guards. Raises where one has none."""
    found = [_guarding_hint(value) for value in symints]
    if any(hint is None for hint in found):
        raise ValueError("a symbolic input without a concrete value")
    return found


def evaluate_guards(env: Any, guards: str, values: Sequence[Any]) -> bool:
    """Whether a stored guard expression holds. With SymInts as `values` it is also added to `env`."""
    return bool(env.evaluate_guards_expression(guards, values))


# --- AOTAutograd's alias guards: made while compiling, lost by a load unless we replay them --------


def overlapping(tensors: list[torch.Tensor]) -> list[list[int]]:
    """Positions of tensors that overlap another, by torch's quick rule (for dynamic sizes) and its exact one."""
    compute = torch._C._dynamo.guards.compute_overlapping_tensors
    return [sorted(compute(tensors, symbolic=symbolic)) for symbolic in (True, False)]


def alias_guards(context: TracingContext | None) -> list[Any]:
    return context.guards_context.aotautograd_guards if context is not None else []


def guards_to_positions(guards: Sequence[Any], sources: Sequence[Any]) -> list[list[Any]]:
    """Alias guards with sources replaced by input positions, so that they mean the same elsewhere."""
    where = {source: position for position, source in enumerate(sources) if source is not None}
    stored: list[list[Any]] = []
    for guard in guards:
        if isinstance(guard, DuplicateInputs):
            stored.append(["duplicate", where[guard.input_source_a], where[guard.input_source_b]])
        elif isinstance(guard, StorageOverlap):
            groups = guard.overlapping_sources, guard.non_overlapping_sources
            stored.append(["overlap", *[sorted(where[source] for source in group) for group in groups]])
        else:
            raise NotImplementedError(f"an alias guard of type {type(guard).__name__}")
    return stored


def guards_from_positions(stored: Sequence[Sequence[Any]], sources: Sequence[Any]) -> list[Any]:
    made: list[Any] = []
    for kind, first, second in stored:
        if kind == "duplicate":
            made.append(DuplicateInputs(sources[first], sources[second]))
        else:
            made.append(StorageOverlap([sources[i] for i in first], [sources[i] for i in second]))
    return made


def input_sources(gm: GraphModule) -> list[Any]:
    """Dynamo's source of each placeholder (None where it has none)."""
    return [getattr(node, "_dynamo_source", None) for node in gm.graph.find_nodes(op="placeholder")]


# --- compiling, with the result kept ----------------------------------------------------------------

_capture = threading.local()


class Results:
    """What AOTAutograd handed over on one thread, by the order in which it began."""

    def __init__(self) -> None:
        self.begun = 0
        self.saved: dict[str, Any] = {}

    def begin(self) -> str:
        self.begun += 1
        return f"warmgraph-{self.begun}"

    def outermost(self) -> Any | None:
        """The result of the first compile begun: a nested one (inside another's lowering) is not it."""
        return self.saved.get("warmgraph-1")


@contextlib.contextmanager
def capture_result() -> Iterator[Results]:
    """While open, what AOTAutograd would put into its own cache on this thread lands in the results.

    torch's caches are neither read nor written meanwhile: a wrong hit of theirs must not be published
    under a right key of ours, and a graph is not hashed twice.
    """
    _install_interceptors()
    previous = getattr(_capture, "results", None)
    _capture.results = results = Results()
    try:
        with (
            functorch_config.patch(
                bundled_autograd_cache=True, force_non_lazy_backward_lowering=True, enable_autograd_cache=True
            ),
            inductor_config.patch(bundle_triton_into_fx_graph_cache=True),
        ):
            yield results
    finally:
        _capture.results = previous


def _try_load(original: Callable[..., Any]) -> Callable[..., Any]:
    def try_load(mod: Any, args: Any, aot_config: Any, *rest: Any, **named: Any) -> Any:
        results = getattr(_capture, "results", None)
        if results is None:
            return original(mod, args, aot_config, *rest, **named)
        symints = AOTAutogradCache._filter_backed_symints(args)
        info = AOTAutogradCacheInfo(results.begin(), time.time_ns(), forward_symints=symints)
        if dataclasses.fields(aot_config) and aot_config.__dataclass_params__.frozen:
            return None, dataclasses.replace(aot_config, cache_info=info)  # since 2.13: (fn, new config)
        aot_config.cache_info = info
        return None

    return try_load


def _save(original: Callable[..., Any]) -> Callable[..., Any]:
    def save(key: str, entry: Any, remote: bool) -> None:
        results = getattr(_capture, "results", None)
        if results is None:
            original(key, entry, remote)
            return
        entry.pre_save()
        results.saved[key] = entry

    return save


_installed = threading.Lock()


def _install_interceptors() -> None:
    with _installed:
        if not hasattr(AOTAutogradCache.try_load, "_warmgraph"):
            for name, wrap in (("try_load", _try_load), ("save", _save)):
                replacement = wrap(getattr(AOTAutogradCache, name))
                replacement._warmgraph = True  # type: ignore[attr-defined]
                setattr(AOTAutogradCache, name, staticmethod(replacement))


def compile_fx(gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any]) -> Callable[..., Any]:
    """Inductor, as `torch.compile(backend="inductor")` calls it."""
    from torch._inductor.async_compile import maybe_warm_pool
    from torch._inductor.compile_fx import compile_fx as inductor

    maybe_warm_pool()
    return inductor(gm, inputs, config_patches=dict(patches))  # type: ignore[no-any-return]


# --- loading ------------------------------------------------------------------------------------------


def no_dispatch_modes() -> contextlib.AbstractContextManager[Any]:
    return torch.utils._python_dispatch._disable_current_modes()  # type: ignore[no-any-return]


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """The surroundings in which torch loads a cached result; with no compile worker and no benchmark."""
    with (
        torch._dynamo.compiled_autograd._disable(),
        functorch_config.patch(unlift_effect_tokens=True),
        inductor_config.patch(compile_threads=1, bundle_triton_into_fx_graph_cache=True),
    ):
        yield


def fx_config(gm: GraphModule) -> dict[str, Any]:
    """The mutable boxes through which forward and backward agree on CUDA graphs."""
    annotation = gm.meta.get("cudagraph_annotation")
    wanted = inductor_config.triton.cudagraphs
    if annotation is not None and annotation.fwd is not None:
        wanted = annotation.fwd
    return {
        "cudagraphs": BoxedBool(wanted),
        "boxed_forward_device_index": BoxedDeviceIndex(None),
        "compile_region_name": None,
    }


def reset_cudagraphs() -> None:
    """Forget this process's CUDA-graph recordings, if there can be any."""
    if torch.cuda.is_available():
        from torch._inductor.cudagraph_trees import reset_cudagraph_trees

        reset_cudagraph_trees()


def cudagraph_policy() -> Any:
    return getattr(inductor_config, "cudagraph_policy", None)


def emit_triton(graph: Any) -> None:
    """Put the entry's cubins and chosen configurations where Triton looks for them."""
    if graph._triton_bundle:
        TritonBundler.read_and_emit(graph._triton_bundle)


def count_as_compiled(graph: Any) -> None:
    """Keep torch's own counters as they would be after a compile."""
    CachedMetricsHelper.apply_deltas(graph.metrics_deltas)
    counters["inductor"] += graph.counter_deltas
    output_code_log.debug("Output code (from warmgraph): \n%s", graph.source_code)


# --- user code in graphs -----------------------------------------------------------------------------


def overloads(target: Any) -> list[Any]:
    """The dispatcher operators that a call target stands for."""
    if isinstance(target, torch._ops.OpOverload):
        return [target]
    if isinstance(target, torch._ops.OpOverloadPacket):
        return [getattr(target, name) for name in target.overloads()]
    return []


def python_implementations(overload: Any) -> dict[str, Any]:
    """Role -> Python function that tracing a custom operator may inline or rely on (`torch.library`).

    Not the implementation proper, which compiled code calls by the operator's name.
    """
    name = overload.name().split(".")[0]
    found: dict[str, Any] = {}
    definition = OPDEFS.get(name)
    if definition is not None:
        found = {
            "fake": definition._abstract_fn,
            "backward": definition._backward_fn,
            "setup_context": definition._setup_context_fn,
            "vmap": definition._vmap_fn,
        }
    kernel = simple_registry.singleton.find(name).fake_impl.kernel
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
    """What a user-defined Triton kernel call means: the kernel's source closure, its configurations and
    constant arguments."""
    from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table
    from torch._inductor.codegen.wrapper import user_defined_triton_kernel_transitive_closure_source_code
    from triton.runtime.autotuner import Autotuner

    kernel = kernel_side_table.get_kernel(node.kwargs["kernel_idx"])
    configs: list[str] = []
    if isinstance(kernel, Autotuner):
        configs = [", ".join(sorted(map(str, config.all_kwargs().items()))) for config in kernel.configs]
        kernel = kernel.fn
    return {
        "kernel_idx": {
            "source": user_defined_triton_kernel_transitive_closure_source_code(kernel),
            "configs": configs,
        },
        "constant_args_idx": kernel_side_table.get_constant_args(node.kwargs["constant_args_idx"]),
    }
