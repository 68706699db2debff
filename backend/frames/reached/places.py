"""Modules that a trace knows by a source, and where the walk comes by them.

The walk says the hooks of a module with it, so that they have no hooks needs no fact of its own, of which there are six
for each: once its digests are what they were, a module at the same place is what it was.
"""

from __future__ import annotations

import torch

from ...torch_api.frames.sources import Source, is_dynamos, is_of_frame, place_in_base, root_of
from ..rules import Looking
from .containers import TABLES
from .objects import HOOKS


def module_with(hooks: Source, look: Looking) -> Source | None:
    """The source of the module whose table of hooks this is, where the walk says that with the module."""
    base, name = place_in_base(hooks) or (None, None)
    if base is None or name not in HOOKS or not base.name:
        return None
    module, root = look.live(base), root_of(base)
    if not isinstance(module, torch.nn.Module) or not is_of_frame(root) or is_dynamos(root):
        return None
    held = object.__getattribute__(module, "__dict__").get(name)
    return base if held is look.live(hooks) and id(type(held)) in TABLES else None
