"""Inductor's settings: what mode and options patch, and what of all settings enters the key."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import Any

import torch

from . import torch_compat as compat

# Settings that say how to compile, not what; or where files lie. All others are part of the key.
_IGNORED_SETTINGS = frozenset(
    """
    fx_graph_cache fx_graph_remote_cache autotune_local_cache autotune_remote_cache
    bundled_autotune_remote_cache remote_gemm_autotune_cache compile_threads
    worker_start_method verbose_progress disable_progress quiesce_async_compile_pool
    quiesce_async_compile_time compile_worker_wait_timeout cudagraph_policy
    force_disable_cudagraph_TESTING_ONLY cutlass.cutlass_dir cuda.cutlass_dir xpu.cutlass_dir
    enable_autograd_cache enable_remote_autograd_cache strict_autograd_cache bundled_autograd_cache
    bundle_triton_into_fx_graph_cache force_non_lazy_backward_lowering bypass_autograd_cache_key
    autograd_cache_normalize_inputs force_autograd_cache trace.upload_tar pre_grad_pass_timing
    aot_inductor.output_path aot_inductor.model_name_for_generated_files
    reorder_iterative_debug_memory_recompute reorder_sink_verbose_logging env_str
    print_specializations translation_validation translation_validation_timeout
    extended_debug_guard_added extended_debug_create_symbol extended_debug_cpp extended_debug_current_loc
    """.split()
)


def inductor_options(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """What `torch.compile(backend="inductor", mode=..., options=...)` would patch into Inductor's settings.

    Raises torch's own errors for an unknown mode or option.
    """
    return dict(torch._TorchCompileInductorWrapper(mode, dict(options or {}), None).config)


def patched_settings(patches: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    return compat.inductor_config.patch(dict(patches)) if patches else contextlib.nullcontext()


def settings_in_force() -> dict[str, Any]:
    """Every Inductor and functorch setting that can reach generated code, by `module.name`."""
    found: dict[str, Any] = {}
    for prefix, module in compat.config_modules.items():
        for name, value in module.get_config_copy().items():
            if name not in _IGNORED_SETTINGS and not name.startswith("trace."):
                found[f"{prefix}.{name}"] = _identify_passes(value)
    found["inductor.trace.provenance_tracking_level"] = compat.inductor_config.trace.provenance_tracking_level
    found["compiler.cache_key_tag"] = torch.compiler.config.cache_key_tag
    codegen = sys.modules.get("torch._inductor.codegen.common")  # who registers a backend has imported it
    for name in ("custom_backend_passes", "custom_backend_codegen_configs"):
        for device, value in getattr(codegen, name, {}).items():
            if value is not None:
                found[f"{name}.{device}"] = _identify_passes(value)
    return found


def _identify_passes(value: Any) -> Any:
    """Custom passes by their `uuid()`; one without stays as it is, and the encoder refuses it."""
    if isinstance(value, (list, tuple)):
        return type(value)(_identify_passes(item) for item in value)
    uuid = getattr(value, "uuid", None)
    if callable(uuid) and not isinstance(value, type) and (identity := uuid()) is not None:
        return ["uuid", f"{type(value).__module__}.{type(value).__qualname__}", identity]
    return value
