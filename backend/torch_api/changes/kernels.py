"""Kernels that Python gave to the dispatcher (`torch.library.Library.impl`): for which operators and dispatch keys."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch._library import simple_registry
from warmgraph.hashing import TORCH_NAMESPACES, comes_with_torch

# Library -> (how many kernels it had, those of them that are not torch's): asking takes 20 microseconds each.
_asked: weakref.WeakKeyDictionary[Any, tuple[int, set[tuple[str, str]]]] = weakref.WeakKeyDictionary()


def kernels_from_outside() -> set[tuple[str, str]]:
    """(operator, dispatch key) of Python kernels for torch's own operators that code outside torch registered."""
    found = set()
    for library in _libraries():
        count, others = _asked.get(library, (-1, set()))
        if count != len(library._op_impls):
            others = _from_outside(library)
            _asked[library] = len(library._op_impls), others
        found |= others
    return found


def _libraries() -> Iterator[Any]:
    """Those for namespaces of torch's."""
    for finalizer in tuple(weakref.finalize._registry):  # type: ignore[attr-defined]
        library = (finalizer.peek() or (None,))[0]
        if isinstance(library, torch.library.Library) and library.ns in TORCH_NAMESPACES and library.m is not None:
            yield library


def _from_outside(library: Any) -> set[tuple[str, str]]:
    """All kernels of a library, unless they are torch's: a few are asked, since all came together."""
    kernels = [tuple(name.split("/")[1:]) for name in library._op_impls]
    found = {(f"{library.ns}::{name}", key or "CompositeImplicitAutograd") for name, key in kernels}
    is_torchs = all(any(_is_torchs(library.ns, file) for _, file in registered(*one)) for one in sorted(found)[:3])
    return set() if is_torchs else found


def state_of_kernels() -> frozenset[str]:
    """Changes when a Python kernel is registered or goes."""
    return frozenset(torch.library._impls)


# Where `torch.library.register_vmap` and its like make a library for the user's kernel.
_FOR_USERS = (torch.library.__file__, simple_registry.__file__.rpartition("/")[0])


def _is_torchs(namespace: str, file: str) -> bool:
    return not _is_from_users(file) and not (namespace == "aten" and file.startswith(_FOR_USERS))


def _is_from_users(file: str) -> bool:
    """Whether a kernel was registered in a Python file that is none of torch's."""
    return is_python(file) and not comes_with_torch(file)


def is_python(file: str) -> bool:
    return file.endswith((".py", ">"))  # `<stdin>`


def registered(name: str, only: str = "") -> Iterator[tuple[str, str]]:
    """(dispatch key, file) of each kernel of an operator that is in use, as torch notes it. only: for this key."""
    for row in torch._C._dispatch_dump(name).splitlines():
        place, noted, rest = row.partition(": registered at ") if row.startswith(only) else ("", "", "")
        key = place.removesuffix("[alias]")
        if noted and key != "debug" and "(" not in key and only in ("", key):  # "(inactive)"
            yield key, rest.partition(" :: ")[0].rpartition(":")[0]


def library_kernels(name: str) -> set[str]:
    """Dispatch keys for which Python registered a kernel through `torch.library.Library` (by default: composite).

    torch's own list lacks those that came back when a Library that took their place went.
    """
    prefix = name.replace("::", "/") + "/"
    keys = (key.rpartition("/")[2] for key in torch.library._impls if key.startswith(prefix))
    return {key or "CompositeImplicitAutograd" for key in keys} | {k for k, file in registered(name) if is_python(file)}


def kernels_over(name: str) -> set[str]:
    """Dispatch keys of an operator whose Python kernel is from a file outside torch (`Library.impl` of the user's)."""
    return {key for key, file in registered(name) if _is_from_users(file)}


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
