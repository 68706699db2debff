"""Settings of Inductor that are read otherwise than one by one. Read on 2.11 to 2.13."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch._inductor.config as inductor_config


def inductor_options(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """What `torch.compile(backend="inductor", mode=..., options=...)` would patch into Inductor's settings.

    Raises torch's own errors for an unknown mode or option.
    """
    return dict(torch._TorchCompileInductorWrapper(mode, dict(options or {}), None).config)


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
