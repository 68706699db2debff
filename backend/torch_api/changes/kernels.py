"""Kernels that Python gave to the dispatcher (`torch.library.Library.impl`): for which operators and dispatch keys."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch._library import simple_registry
from warmgraph.hashing import TORCH_NAMESPACES, comes_with_torch

# A library of torch's -> how many kernels it had: asking takes 20 microseconds each.
_of_torch: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def kernels_from_outside() -> set[tuple[str, str]]:
    """(operator, dispatch key) of Python kernels for torch's own operators that code outside torch registered."""
    found = set()
    for _, library in _libraries():
        if _of_torch.get(library) != len(library._op_impls):
            others = _from_outside(library)
            found |= others
            if not others:
                _of_torch[library] = len(library._op_impls)
    return found


def state_of_kernels() -> list[tuple[int, int]]:
    """Changes when a Python kernel for one of torch's operators is registered or goes. Of each library its number and
    how many kernels it has: torch's own list of kernels is a set, where one that replaces another does not show.
    """
    return [(number, len(library._op_impls)) for number, library in _libraries()]


def _libraries() -> Iterator[tuple[int, Any]]:
    """Those for namespaces of torch's, each with a number that no other one gets."""
    for info in tuple(weakref.finalize._registry.values()):  # type: ignore[attr-defined]
        library = info.weakref()
        if type(library) is torch.library.Library and library.ns in TORCH_NAMESPACES and library.m is not None:
            yield info.index, library


def _from_outside(library: Any) -> set[tuple[str, str]]:
    """All kernels of a library, unless they are torch's: a few are asked, since all came together."""
    kernels = [tuple(name.split("/")[1:]) for name in library._op_impls]
    found = {(f"{library.ns}::{name}", key or "CompositeImplicitAutograd") for name, key in kernels}
    is_torchs = all(any(_is_torchs(library.ns, file) for _, file in registered(*one)) for one in sorted(found)[:3])
    return set() if is_torchs else found


# Where `torch.library.register_vmap` and its like make a library for the user's kernel.
_FOR_USERS = (torch.library.__file__, simple_registry.__file__.rpartition("/")[0])


def _is_torchs(namespace: str, file: str) -> bool:
    return not _is_from_users(file) and not (namespace == "aten" and file.startswith(_FOR_USERS))


def _is_from_users(file: str) -> bool:
    """Whether a kernel was registered in a Python file that is none of torch's."""
    return not file.endswith(_OF_CPP) and not comes_with_torch(file)


# A program's file may have any name.
_OF_CPP = (".cpp", ".cc", ".cxx", ".c", ".cu", ".cuh", ".h", ".hh", ".hpp", ".inl", ".mm", ".hip")


def is_python(file: str) -> bool:
    """For certain."""
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
    """Dispatch keys of a custom operator whose kernel is from another file than where torch makes those of its own.

    `torch.library.impl` makes a library for the user's kernel.
    """
    return {key for key, file in registered(name) if _is_from_users(file) or file == torch.library.__file__}


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
