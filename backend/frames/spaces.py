"""Which names a module's namespace has, of those that traced code asks for: a name that appears is another trace."""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import Any

from warmgraph.hashing import sha256_hex

from .classes import is_known


def space_text(space: Mapping[str, Any], asked: Collection[str], looked_for: Collection[str]) -> str:
    """A digest. looked_for: names of which traced code asks whether they are there. Others do not count where they are
    modules in torch or in the standard library: those come and go as they are imported.
    """
    names = sorted(name for name in asked if name in space)
    module = str(space.get("__name__", ""))
    if is_known(module):
        names = [name for name in names if name in looked_for or not isinstance(space[name], types.ModuleType)]
    if "__getattr__" in space and "__getattr__" not in asked:
        names.append("__getattr__")
    return sha256_hex("\n".join(names).encode("utf-8", "surrogatepass"))[:16]
