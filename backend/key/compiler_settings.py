"""Inductor's settings: what mode and options patch, and what of all settings enters the key."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Node
from warmgraph.hashing import Uncacheable, foreign, graph_modules, is_torch_or_stdlib, sha256_hex

from ..torch_api import compile as compat
from ..torch_api.settings import (
    code_generators,
    deciding_classes,
    partitions_are_wrapped,
    read_at_import,
    registered_choices,
    values_of,
)

_TORCH_CACHES = "torch's own caches are neither read nor written while we compile"
_HOW = "how many workers compile, and how long they are waited for; not what"
_SHOWS = "shows or logs the compile; changes nothing of it"
_WHERE = "where files lie on this host"
_PATCHED = "patched to one value whenever we compile"

# Settings that never reach generated code or what it does, each with the reason. All others are in the key, known or
# not: a needless difference costs a compile, a forgotten one a wrong result. Read in the sources of 2.11 to 2.15.
IGNORED_SETTINGS: Mapping[str, str] = {
    "inductor.fx_graph_cache": _TORCH_CACHES,
    "inductor.fx_graph_remote_cache": _TORCH_CACHES,
    "inductor.non_blocking_remote_cache_write": _TORCH_CACHES,
    "functorch.enable_autograd_cache": _TORCH_CACHES,
    "functorch.enable_remote_autograd_cache": _TORCH_CACHES,
    "functorch.strict_autograd_cache": _TORCH_CACHES,
    "functorch.force_autograd_cache": _TORCH_CACHES,
    "functorch.bypass_autograd_cache_key": _TORCH_CACHES,
    "functorch.autograd_cache_normalize_inputs": _TORCH_CACHES,
    "functorch.bundled_autograd_cache": _PATCHED,
    "functorch.force_non_lazy_backward_lowering": _PATCHED,
    "inductor.bundle_triton_into_fx_graph_cache": _PATCHED,
    "inductor.compile_threads": _HOW,  # by default the number of CPUs
    "inductor.worker_start_method": _HOW,
    "inductor.quiesce_async_compile_pool": _HOW,
    "inductor.quiesce_async_compile_time": _HOW,
    "inductor.compile_worker_wait_timeout": _HOW,
    "inductor.compile_worker_watchdog_interval_seconds": _HOW,
    "inductor.compile_worker_mode": _HOW,
    "inductor.file_lock_timeout": _HOW,
    "inductor.worker_suppress_logging": _SHOWS,
    "inductor.verbose_progress": _SHOWS,
    "inductor.disable_progress": _SHOWS,
    "comms.reorder_sink_verbose_logging": _SHOWS,
    "shapes.print_specializations": _SHOWS,
    "shapes.extended_debug_guard_added": _SHOWS,
    "shapes.extended_debug_create_symbol": _SHOWS,
    "shapes.extended_debug_cpp": _SHOWS,
    "shapes.extended_debug_current_loc": _SHOWS,
    "inductor.torchinductor_worker_logpath": _WHERE,
    "inductor.worker_log_path": _WHERE,
    "functorch.memory_budget_pareto_dir": _WHERE,
    "inductor.cutlass.cutlass_dir": _WHERE,
    "inductor.cuda.cutlass_dir": _WHERE,
    "inductor.xpu.cutlass_dir": _WHERE,
    "inductor.aot_inductor.output_path": _WHERE,
    "comms.env_str": "a variable that torch's settings file leaves behind; the setting made from it is in the key",
}

# Debug output of a compile: nothing of it is written on a hit, whose code is the same. But provenance is kept in the
# result, and since 2.14 it may be written into the code.
_IGNORED_PREFIX = "inductor.trace."
_PROVENANCE = "inductor.trace.provenance_tracking"

# Settings that name a file whose content steers the compiler.
_BY_CONTENT = frozenset({"inductor.aten_distributed_optimizations.profile_guided_estimations_profile_path"})


def patched_settings(patches: Mapping[str, Any]) -> contextlib.AbstractContextManager[Any]:
    return compat.inductor_config.patch(dict(patches)) if patches else contextlib.nullcontext()


@functools.lru_cache(maxsize=4096)
def _reaches_code(module: str, name: str) -> str | None:
    """A setting's full name, or None for one that no compiled code depends on."""
    full = f"{module}.{name}"
    ignored = full.startswith(_IGNORED_PREFIX) and not full.startswith(_PROVENANCE)
    return None if ignored or full in IGNORED_SETTINGS else full


def settings_in_force() -> dict[str, Any]:
    """Every setting of torch that can reach generated code, by `module.name`. Raises Uncacheable."""
    found: dict[str, Any] = {}
    for prefix, module in compat.config_modules.items():
        for name, value in values_of(module).items():
            full = _reaches_code(prefix, name)
            if full is None:
                continue
            found[full] = _identify(full, value)
            if isinstance(value, dict) and len(value) > 1:
                found[f"{full}.__order__"] = list(value)  # in which the passes that it names are run
    found.update(_of_torch_compiler())
    found["sm_carveout"] = compat.sm_carveout()
    found["dynamo.custom_ops_profile"] = compat.custom_ops_profile()
    found.update(_registered())
    found.update(_deciding())
    found.update(read_at_import())
    if partitions_are_wrapped():
        found["partitions_are_wrapped"] = True
    return found


def seen_by_passes(gm: GraphModule, found: Mapping[str, Any]) -> dict[str, Any]:
    """What a graph's own passes may look at and nothing else of a key says: modules, and before AOTAutograd, names.

    found: as `settings_in_force` gives it.
    """
    if not any(_is_own(value) for value in found.values()):
        return {}
    before = _is_own(found.get("inductor.pre_grad_custom_pass"))
    lines = [
        f"{node.name if before else ''} {[[str(part) for part in place] for place in _modules_of(node)]}"
        for module in graph_modules(gm)
        for node in module.graph.nodes
    ]
    return {"seen by passes": sha256_hex("\n".join(lines).encode())}


def _is_own(value: Any) -> bool:
    """Whether a setting is, or holds, a pass with a `uuid`. vLLM's look at no names: its layers are compiled once."""
    if isinstance(value, (list, tuple)):
        if value[:1] == ["uuid"]:
            return not value[1].startswith("vllm.")
        return any(map(_is_own, value))
    return isinstance(value, dict) and any(map(_is_own, value.values()))


def _modules_of(node: Node) -> list[Any]:
    found = node.meta.get("nn_module_stack")
    return list(found.values()) if isinstance(found, dict) else []


# Of `torch.compiler.config`: where profiles are kept, and what has reached the graph before it comes here.
_ELSEWHERE = frozenset(
    """
    job_id pgo_extra_read_key pgo_extra_write_key force_disable_caches dynamic_sources dynamic_values unbacked_sources
    static_sources
    """.split()
)


def _of_torch_compiler() -> Iterator[tuple[str, Any]]:
    """Settings of `torch.compiler.config` that reach code (`compile_on_one_rank` is one since torch 2.14)."""
    for name, value in torch.compiler.config.get_config_copy().items():
        if name not in _ELSEWHERE:
            yield f"compiler.{name}", _identify(f"compiler.{name}", value)


def _registered() -> Iterator[tuple[str, Any]]:
    """What extensions registered with Inductor's code generators."""
    codegen = code_generators()
    for name in ("custom_backend_passes", "custom_backend_codegen_configs"):
        for device, value in getattr(codegen, name, {}).items():
            if value is not None:
                yield f"{name}.{device}", _identify(name, value)
    for device, generator in getattr(codegen, "device_codegens", {}).items():
        for role, made_by in vars(generator).items():
            if made_by is not None and foreign(made_by) is not None:
                raise Uncacheable(
                    f"code for {device} is generated by {made_by!s:.80} ({role}), from outside torch; "
                    "nothing says when it changes"
                )


def _deciding() -> Iterator[tuple[str, Any]]:
    """Who decides about fusion and tiling in Inductor's stead."""
    try:
        key = registered_choices()
    except (RuntimeError, TypeError) as error:
        raise Uncacheable(f"choices registered with Inductor: {error}") from None
    if key is not None:
        yield "registered_choices", _identify("registered_choices", key)
    is_said = key is not None or compat.inductor_config.inductor_choices_class is not None
    for cls in deciding_classes(is_said=is_said):
        if not is_torch_or_stdlib(getattr(cls, "__module__", None)):
            raise Uncacheable(f"{cls!s:.80} decides for Inductor; nothing says when it changes")


_PLAIN = frozenset({bool, int, float, str, type(None)})


def _identify(name: str, value: Any) -> Any:
    """Custom passes by their `uuid()`; one without stays as it is, and the encoder refuses it."""
    if name in _BY_CONTENT and value:
        return _content(name, value)
    if type(value) in _PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return type(value)(_identify(name, item) for item in value)
    if isinstance(value, type) and not is_torch_or_stdlib(value.__module__):
        return _identify(name, _instance(name, value))  # by its name alone an edited class would stay the same
    uuid = getattr(value, "uuid", None)
    if callable(uuid) and not isinstance(value, type) and (identity := uuid()) is not None:
        return ["uuid", f"{type(value).__module__}.{type(value).__qualname__}", identity]
    return value


def _instance(name: str, factory: type) -> Any:
    """As torch does for `inductor_choices_class`: the class is made, and asked for its `uuid()`."""
    if not hasattr(factory, "uuid"):
        raise Uncacheable(f"{name}: {factory.__qualname__} has no uuid() that says when it changes; give it one")
    return factory()


def _content(name: str, path: str) -> list[str]:
    try:
        return ["file", sha256_hex(Path(path).read_bytes())]
    except OSError as error:
        raise Uncacheable(f"{name}: {path} cannot be read ({error})") from None
