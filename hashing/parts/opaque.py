"""Objects whose class is registered with torch as opaque: custom operators take them, and nothing looks inside.

torch distinguishes *values*, which are constants of a graph and say themselves how they are written, and *references*,
which are passed through as inputs (`torch/_library/opaque_object.py`).
"""

from __future__ import annotations

import sys
from typing import Any

from .. import torch_names
from ..encoding.distributed import on_every_rank
from ..encoding.encode import Uncacheable, encode, importable_name
from ..source_code.digest import source_digest


def opaque_text(value: Any) -> str | None:
    """Text of an opaque object; None for anything else. Never by its address.

    One that is passed through unseen is told by its class alone. Raises Uncacheable for a class whose members code
    may ask for while it is traced; a mesh or a process group says all of them, but its place (`places.py`).
    """
    if (shared := on_every_rank(value)) is not None:
        return f"<opaque {type(value).__name__} {encode(shared)}>"
    registry: Any = sys.modules.get(torch_names.OPAQUE)  # who registers a class has imported it
    kind = type(value)
    if registry is None or not _ask(registry, torch_names.IS_OPAQUE, kind):
        return None
    name = importable_name(kind)
    of_class = f"{name} code {source_digest(kind, f'opaque class {name}', whole=True)}"
    if registry.should_hoist(kind) and not registry.has_members(kind):
        return f"<opaque {of_class}>"
    if _ask(registry, torch_names.IS_OPAQUE_CONSTANT, kind):
        text, names = registry.get_opaque_obj_repr(value)
        classes = {
            short: f"{importable_name(one)} {source_digest(one, short, whole=True)}" for short, one in names.items()
        }
        return f"<opaque value {encode(text)} {encode(classes)} {of_class}>"
    if registry.has_members(kind):
        raise Uncacheable(f"an opaque object of class {name}, whose members may be read while it is traced")
    return f"<opaque reference {of_class}>"


def _ask(registry: Any, names: tuple[str, ...], kind: type) -> bool:
    return bool(next(getattr(registry, name) for name in names if hasattr(registry, name))(kind))
