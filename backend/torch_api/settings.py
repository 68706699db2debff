"""Settings of Inductor that are read otherwise than one by one. Read on 2.11 to 2.15."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch.utils._config_module import _UNSET_SENTINEL as UNSET

from . import patches


def allow_long_chains() -> None:
    """Give Inductor's recursion along a chain of nodes the room that it has without us, where Python 3.12 has little.

    Its first three releases allow 1,500 calls through C, and with Dynamo's hook in place each call of Python's is one.
    Inductor compiles a backward later, without the hook; we compile it with its forward, so that some 700 nodes one
    after another were too many. The limit is that of Python 3.12.3; a user's own stays.
    """
    set_limit = getattr(torch._dynamo, "set_recursion_limit", None)
    if (3, 12) <= sys.version_info < (3, 12, 3) and set_limit is not None:
        if torch._dynamo.get_recursion_limit() == -1:
            set_limit(10_000)


def inductor_options(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """What `torch.compile(backend="inductor", mode=..., options=...)` would patch into Inductor's settings.

    Raises torch's own errors for an unknown mode or option.
    """
    return dict(torch._TorchCompileInductorWrapper(mode, dict(options or {}), None).config)


def not_inductors(options: Mapping[str, Any]) -> list[str]:
    """Options that are settings of a device of the user's own (`mydevice.level`, since 2.15)."""
    return [name for name in options if name not in inductor_config._config]


def values_of(module: Any) -> dict[str, Any]:
    """The settings of one of torch's settings modules, without aliases, as they are in force now."""
    try:
        return module.get_config_copy()  # type: ignore[no-any-return]
    except TypeError:  # a custom pass may hold what cannot be copied: a process group
        return {name: getattr(module, name) for name, entry in module._config.items() if entry.alias is None}


def partitions_are_wrapped() -> bool:
    """Whether somebody records the parts of a graph between its partitions (vLLM): Inductor then splits it for them.

    That is no setting: `set_customized_partition_wrappers` leaves it in a module of Inductor's.
    """
    wrapper = getattr(sys.modules.get("torch._inductor.utils"), "_unstable_customized_partition_wrapper", None)
    return getattr(wrapper, "wrapper", None) is not None


def registered_choices() -> Any:
    """torch's own key for whoever decides about fusion and tiling in Inductor's stead (`register_inductor_choices`).

    None where nobody does, and before torch 2.15. Raises RuntimeError or TypeError for one without a `uuid()`.
    """
    key = getattr(sys.modules.get("torch._inductor.choices"), "inductor_choices_cache_key", None)
    return None if key is None else key(inductor_config.inductor_choices_class)


def deciding_classes(*, is_said: bool) -> Iterator[type]:
    """Classes that decide so without a setting: put there for this thread (`V.set_choices_handler`), or registered
    for a template (`register_template_heuristic`). torch's own among them. is_said: whether a setting or the registry
    says which choices this thread has.
    """
    virtualized: Any = sys.modules.get("torch._inductor.virtualized")
    if virtualized is not None and not is_said:
        handler = getattr(virtualized.threadlocal, virtualized._choices._key, None)
        if handler is not None:
            yield type(handler)
    for name in ("heuristics", "template_heuristics"):  # since 2.14, before
        registry = getattr(sys.modules.get(f"torch._inductor.{name}.registry"), "_TEMPLATE_HEURISTIC_REGISTRY", {})
        yield from registry.values()


def read_at_import() -> Iterator[tuple[str, Any]]:
    """Limits of a pass that are read when its module is imported, where these are not what the settings say now."""
    module: Any = sys.modules.get("torch._inductor.fx_passes.decompose_mem_bound_mm")
    options = inductor_config.post_grad_fusion_options.get("decompose_mm_pass", {})
    for name, value in vars(module).items() if module is not None else ():
        default = getattr(module, name.upper(), None) if name.islower() else None
        if isinstance(default, int) and options.get(name, default) != value:
            yield f"decompose_mm_pass.{name}", value


def code_generators() -> Any:
    """The module with which devices are registered, or None: who registers one has imported it."""
    return sys.modules.get("torch._inductor.codegen.common")


def let_patches_win() -> None:
    """Who switches torch's caches off by an environment variable may still want this one, which needs their machinery.

    Such a variable wins over every patch; as a default it holds wherever we do not compile.
    """
    inductor, functorch = inductor_config._config, functorch_config._config
    for name, entries in (("fx_graph_cache", inductor), ("enable_autograd_cache", functorch)):
        entry = entries[name]
        forced = entry.env_value_force
        if forced is not UNSET:
            patches.replace(f"force {name}", entry, "env_value_default", forced)
            patches.replace(f"force {name}", entry, "env_value_force", UNSET)
