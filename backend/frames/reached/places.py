"""Where the walk comes by values that a trace knows by a source.

What it says of them needs no fingerprint beside it: once its digests are what they were, an object at the same place is
what it was, and holds what it held.
"""

from __future__ import annotations

import collections
import types
from collections.abc import Iterable
from typing import Any

import torch

from ...torch_api.frames.sources import Source, is_dynamos, is_of_frame, place_in_base, with_roots
from ..classes import is_told_by_type
from ..rules import Looking
from .containers import is_environment
from .objects import HOOKS, says_names
from .walk import Walk

_CONTAINERS = (dict, collections.OrderedDict, list, tuple)


def places_of(sources: Iterable[Source], look: Looking, walk: Walk) -> dict[Source, int]:
    """By source the number of the object in the walk."""
    found = {}
    counts: dict[int, bool] = {}  # by the id of a root
    for source, root in with_roots([*sources]):
        if id(root) not in counts:
            counts[id(root)] = is_of_frame(root) and not is_dynamos(root)
        if source.name and counts[id(root)] and (place := walk.place(look.live(source))) is not None:
            found[source] = place
    return found


def has_hooks_said(source: Source, look: Looking) -> Source | None:
    """The source of a module, where this one is of a table of its hooks that the walk says with it."""
    base, name = place_in_base(source) or (None, None)
    module = look.live(base) if base is not None else None
    if not isinstance(module, torch.nn.Module) or name not in HOOKS:
        return None
    held = object.__getattribute__(module, "__dict__").get(name)
    return base if held is look.live(source) and type(held) in _CONTAINERS else None


def are_names_said(value: Any, walk: Walk) -> bool:
    """Whether the walk says, of an object that it comes by, the names or keys that it has."""
    if type(value) in _CONTAINERS:
        return not is_environment(value)
    if walk.everything:  # of a package's objects it says those that code asks for
        return False
    return type(value) is types.FunctionType or (is_told_by_type(value) and says_names(walk, value))
