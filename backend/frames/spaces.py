"""Which names a module's namespace has, of those that traced code asks for: a name that appears is another trace."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import Any

from warmgraph.hashing import sha256_hex

from .classes import is_library


def space_text(space: Mapping[str, Any], asked: Collection[str]) -> str:
    """A digest. Modules in torch and in the standard library do not count: they come and go as they are imported."""
    names = sorted(name for name in asked if name in space)
    module = str(space.get("__name__", ""))
    if module.partition(".")[0] == "torch" or is_library(module):
        names = [name for name in names if not isinstance(space[name], types.ModuleType)]
    return sha256_hex("\n".join(names).encode("utf-8", "surrogatepass"))[:16]
