"""Kernels that Python gave to the dispatcher (`torch.library.Library.impl`): for which operators and dispatch keys."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch._library import simple_registry
from warmgraph.hashing import TORCH_NAMESPACES, comes_with_torch

# Library -> (how many kernels it had, whether they are torch's): asking the dispatcher takes 20 microseconds each.
_asked: weakref.WeakKeyDictionary[Any, tuple[int, bool]] = weakref.WeakKeyDictionary()


def kernels_from_outside() -> set[tuple[str, str]]:
    """(operator, dispatch key) of Python kernels for torch's own operators that code outside torch registered."""
    found = set()
    for finalizer in tuple(weakref.finalize._registry):  # type: ignore[attr-defined]
        library = (finalizer.peek() or (None,))[0]
        if not isinstance(library, torch.library.Library) or library.ns not in TORCH_NAMESPACES:
            continue
        kernels = [tuple(name.split("/")[1:]) for name in library._op_impls]
        count, is_torchs = _asked.get(library, (-1, False))
        if count != len(kernels):
            is_torchs = not kernels or _is_torchs(library.ns, kernels)
            _asked[library] = len(kernels), is_torchs
        if not is_torchs:
            found |= {(f"{library.ns}::{name}", key or "CompositeImplicitAutograd") for name, key in kernels}
    return found


def count_of_kernels() -> tuple[int, int]:
    """Changes when a Python kernel is registered or goes."""
    return len(torch.library._impls), len(weakref.finalize._registry)  # type: ignore[attr-defined]


def _is_torchs(namespace: str, kernels: list[tuple[str, ...]]) -> bool:
    """Whether a library's kernels were registered from a file of torch's; a few are asked, since all came together."""
    return any(
        not any(
            _is_from_outside(namespace, file)
            for _, file in registered(f"{namespace}::{name}", key or "CompositeImplicitAutograd")
        )
        for name, key in kernels[:3]
    )


# Where `torch.library.register_vmap` and its like make a library for the user's kernel.
_FOR_USERS = (torch.library.__file__, simple_registry.__file__.rpartition("/")[0])


def _is_from_outside(namespace: str, file: str) -> bool:
    """Whether a kernel was registered in a Python file that is none of torch's."""
    if namespace == "aten" and file.startswith(_FOR_USERS):
        return True
    return is_python(file) and not comes_with_torch(file)


def is_python(file: str) -> bool:
    return file.endswith((".py", ">"))  # `<stdin>`


def registered(name: str, only: str = "") -> Iterator[tuple[str, str]]:
    """(dispatch key, file) of each kernel of an operator that is in use, as torch notes it. only: for this key."""
    for row in torch._C._dispatch_dump(name).splitlines()[3:]:
        if row.startswith(only):
            place, noted, rest = row.partition(": registered at ")
            key = place.partition("[")[0]
            if noted and only in ("", key):
                yield key, rest.partition(" :: ")[0].rpartition(":")[0]


def library_kernels(name: str) -> set[str]:
    """Dispatch keys for which Python registered a kernel through `torch.library.Library` (by default: composite)."""
    prefix = name.replace("::", "/") + "/"
    keys = (key.rpartition("/")[2] for key in torch.library._impls if key.startswith(prefix))
    return {key or "CompositeImplicitAutograd" for key in keys}


def kernels_over(name: str) -> set[str]:
    """Dispatch keys of an operator whose Python kernel is from a file outside torch (`Library.impl` of the user's)."""
    return {key for key, file in registered(name) if _is_from_outside("", file)}


def kernels_from(name: str, places: tuple[str, ...]) -> set[str]:
    """Dispatch keys of an operator whose kernel was registered in a file below these folders."""
    return {key for key, file in registered(name) if places and file.startswith(places)}


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
