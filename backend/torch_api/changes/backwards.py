"""Backwards that `torch.library.register_autograd` was given for operators of a Library's or of C++."""

from __future__ import annotations

from typing import Any

import torch
from torch._library import autograd as library_autograd
from warmgraph.hashing import bound_cells

from .kernel_functions import code_of, kernels_with_keys
from .kernels import registered


def generated_backward(overload: Any) -> tuple[Any, Any] | None:
    """Backward and `setup_context` of an operator. None where its kernel for Autograd is another.

    torch keeps them only within the class of `torch.autograd.Function` that it generates. Read on 2.11 to 2.15.
    """
    if f"{overload.name().replace('::', '/')}/Autograd" not in torch.library._impls:  # asked for each node of a trace
        return None
    ((kernel, _),) = kernels_with_keys([(overload.name(), "Autograd")])
    if kernel is not None:
        is_generated = getattr(code_of(kernel), "co_filename", "") == library_autograd.__file__
        made = [bound_cells(kernel)["Generated"]] if is_generated else []
    else:  # with arguments that cannot be made up
        made = _made_for(overload)
    infos = [_held_by_backward(kind)["info"] for kind in made]
    return (infos[0]._backward_fn, infos[0]._setup_context_fn) if len(infos) == 1 else None


def _made_for(overload: Any) -> list[Any]:
    """Classes that were generated for it, if torch itself registered the kernel that is in use."""
    if [file for _, file in registered(overload.name(), "Autograd")] != [torch.library.__file__]:
        return []
    name = f"GeneratedBackwardFor_{overload._namespace}_{overload._opname}_{overload._overloadname}"
    made = [one for one in torch.autograd.Function.__subclasses__() if one.__name__ == name]
    return [kind for kind in made if _held_by_backward(kind).get("op") is overload]


def _held_by_backward(kind: Any) -> dict[str, Any]:
    """What the generated `backward` reads; around it lies another one where there are lists of tensors."""
    function = vars(kind)["backward"]
    while True:
        function = getattr(function, "__func__", function)
        held = bound_cells(function)
        if "orig_backward" not in held:
            return held
        function = held["orig_backward"]
