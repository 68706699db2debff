"""`warmgraph.cache_hash`: a hash of what a function does, where torch asks users to invent a string."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .encoding.values import place_of
from .parts.tensors import held_tensor
from .source_code.digest import source_digest


def cache_hash(function: Callable[..., Any]) -> str:
    """A string that is the same in every process and changes when `function` may do something else.

    Covers its code, its closure's values and its defaults (tensors by content), the globals that it reads, and
    all of this again for each function and class that it reaches, outside torch and the standard library. Not
    comments, names and places of files. Meant for what torch calls while it traces and cannot see into:

        node.meta["user_cache_hash"] = warmgraph.cache_hash(pack)     # a torch.fx.wrap call in a saved-tensors hook
        context_fn.cache_hash = warmgraph.cache_hash(context_fn)      # a checkpoint policy, also as functools.partial

    Raises `warmgraph.Uncacheable`, with the reason and the place, for what it cannot see: compiled code outside
    torch, objects without a stable identity, custom operators, state that the function changes, files, the
    environment. Values are taken as they are now: ask again after changing one. About a millisecond.
    """
    if not callable(function):
        raise TypeError(f"cache_hash takes a function, a class or a functools.partial, not a {type(function).__name__}")
    return "source-" + source_digest(function, f"no hash of {place_of(function)}", leaf=held_tensor, strict=True)
