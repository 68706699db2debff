"""What objects of compiled classes hold, for the walk: Python's own and numpy's, which have no dictionary."""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from typing import Any

from warmgraph.hashing import sha256_hex

from .containers import Lines, Walking


def nothing(walk: Walking, value: Any) -> Iterator[str]:
    return iter(())


def numpy_array(walk: Walking, value: Any) -> Iterator[str]:
    """Arrays are tensors to a trace, but those of another class (`matrix`, a masked one), which are read at once."""
    yield f"{getattr(value, 'dtype', '')} {len(getattr(value, 'shape', ()))}"
    if type(value).__name__ == "dtype":
        yield repr(value)
    elif hasattr(value, "tolist") and hasattr(value, "flags") and type(value).__name__ not in ("ndarray", "generic"):
        yield f"{value.shape} {sha256_hex(repr(value.tolist()).encode())}"


def builtin(walk: Walking, value: Any) -> Iterator[str]:
    yield f"{value.__qualname__} {walk.ref(value.__self__, '__self__')}"


def variable(walk: Walking, value: contextvars.ContextVar[Any]) -> Iterator[str]:
    yield f"{value.name} {walk.ref(value.get(None), 'get()')}"


def iterator(walk: Walking, value: Any) -> Iterator[str]:
    """What is left of it, without taking any."""
    yield from (walk.ref(part, "rest") for part in value.__reduce__()[1:])


def attributes(*names: str) -> Lines:
    def lines(walk: Walking, value: Any) -> Iterator[str]:
        for name in names:
            yield f"{name}={walk.ref(getattr(value, name), name)}"

    return lines
