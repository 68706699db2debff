"""In which order Python goes over a set: by hashes, and those of texts and addresses are others in each process."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable
from typing import Any

SAME, SEEDED, NEVER = range(3)  # in every process; under one PYTHONHASHSEED; in no two


def order_of(items: Iterable[Any]) -> int:
    """The worst of a set's items. They may be constants of code, or values of a trace."""
    found = [_of(item) for item in items]
    return max(found) if len(found) > 1 else SAME


def _of(item: Any) -> int:
    kind: Any = type(item)
    if kind in (bool, int, float, complex) or (item is None and sys.version_info >= (3, 12)):
        return SAME
    if kind in (str, bytes):
        return SEEDED
    if kind in (tuple, frozenset):
        return max(map(_of, item), default=SAME)
    own: Any = kind.__hash__
    if isinstance(item, enum.Enum) and own is enum.Enum.__hash__:
        return SEEDED
    return SAME if isinstance(item, enum.Enum) and own is int.__hash__ else NEVER


def hash_seed() -> int:
    """A number that two processes share only where they put texts into sets in the same order (PYTHONHASHSEED)."""
    return hash("warmgraph")
