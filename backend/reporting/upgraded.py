"""Entries of another torch: why a process finds none of its own, said once. Such entries are never loaded."""

from __future__ import annotations

import threading

import torch
from msgspec.structs import replace
from warmgraph.cache import Cache, Entry, Miss

_said = threading.Event()


def name_other_torch(miss: Miss, cache: Cache) -> Miss:
    """`miss` with the version that the nearest entry was made with in its detail, where that is another one.

    Said of the first such miss of a process. Of that entry its facts are read, and nothing else.
    """
    if _said.is_set() or miss.nearest is None or miss.detail is not None or "toolchain" not in miss.differs:
        return miss
    found: list[str] = []

    def note(entry: Entry) -> bool:
        found.append(str(entry.facts.get("torch")))
        return False  # not one to take

    cache.lookup(miss.nearest.key, note)
    other = next((version for version in found if version != str(torch.__version__)), None)
    if other is None:
        return miss
    _said.set()
    why = f"what torch {other} compiled is never used by torch {torch.__version__}, which begins anew"
    return replace(miss, detail=why)
