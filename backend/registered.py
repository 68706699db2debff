"""What was registered for operators in this process, by torch or by users. Only reads torch's tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import torch


def replaced_kernels() -> set[tuple[str, str]]:
    """Name and dispatch key of Python kernels for aten operators, less those that torch registers itself."""
    names = (name for name in torch.library._impls if name.startswith("aten/") and not name.endswith("/Meta"))
    parts = [name.split("/") for name in names]
    return {(name, key or "CompositeImplicitAutograd") for _, name, key in parts if not key.startswith("FuncTorch")}


def compile_rules() -> Iterator[tuple[str, Any, Any]]:
    """Table, operator and function of every rule by which Inductor compiles operators, where it is imported.

    Who adds a rule has imported it; so a process that only loads has none, and need not import it to know.
    """
    tables = {
        "torch._inductor.lowering": ("lowerings", "_maybe_layout_constraints"),
        "torch._inductor.decomposition": ("decompositions",),
    }
    for module, names in tables.items():
        loaded = sys.modules.get(module)
        for name in names:
            for target, function in getattr(loaded, name, {}).items():
                if function is not None:
                    yield name, target, function


def autotuned_operators() -> list[Any]:
    """Operators for which the user has Inductor choose among implementations (`register_custom_op_autotuning`)."""
    lowering: Any = sys.modules.get("torch._inductor.lowering")
    if hasattr(lowering, "user_lowerings"):
        return list(lowering.user_lowerings)
    # torch 2.11 has them among all others, under names of torch's own; but their code lies where they are made.
    makes = sys.modules.get("torch._inductor.kernel.custom_op")
    found = getattr(lowering, "lowerings", {}).items() if makes is not None else ()
    return [target for target, function in found if getattr(function, "__globals__", None) is vars(makes)]


def library_kernels(name: str) -> set[str]:
    """Dispatch keys for which Python registered a kernel through `torch.library.Library` (by default: composite)."""
    prefix = name.replace("::", "/") + "/"
    keys = (key.rpartition("/")[2] for key in torch.library._impls if key.startswith(prefix))
    return {key or "CompositeImplicitAutograd" for key in keys}


def traced_kernels(overload: Any) -> set[str]:
    """Dispatch keys whose kernels of an operator run while AOTAutograd traces it."""
    keys = (
        "CompositeImplicitAutograd",
        "CompositeExplicitAutograd",
        "Autograd",
        "AutogradCPU",
        "AutogradCUDA",
        "Meta",
    )
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    return {key for key in keys if has(overload.name(), key)}
