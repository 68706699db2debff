"""The digest of a function or class with all it reaches (`walk.py`)."""

from __future__ import annotations

import contextlib
import hashlib
import threading
import types
from collections.abc import Iterable, Iterator
from typing import Any

from ..encoding.encode import Uncacheable
from .facts import in_words
from .walk import Leaf, Walk

_thread = threading.local()


@contextlib.contextmanager
def noting_functions() -> Iterator[set[types.FunctionType]]:
    """All functions of which this thread makes digests meanwhile."""
    before = getattr(_thread, "noted", None)
    noted: set[types.FunctionType] = set()
    _thread.noted = noted
    try:
        yield noted
    finally:
        _thread.noted = before


def note_functions(functions: Iterable[types.FunctionType]) -> None:
    """Of which something else than a digest says what they do."""
    if (noted := getattr(_thread, "noted", None)) is not None:
        noted.update(functions)


def source_digest(
    code: Any,
    what: str,
    *,
    leaf: Leaf | None = None,
    strict: bool = False,
    protocol: bool = False,
    whole: bool = False,
) -> str:
    """Digest of a function or class with all it reaches. Raises Uncacheable, naming what cannot be seen.

    Facts of the process that the code reads are in the digest, and named behind it. `leaf` is asked about values that
    are neither code nor plain (tensors); it returns a text of its own or None. `strict` also refuses what the walk
    would pass over: state that the code changes, tables of variables. `protocol`: of the class `code`, only what torch
    calls counts, and what that leads to (a tensor subclass may well have a method that opens a file). `whole`: all
    members count of any class that it leads to, since other code is given it.
    """
    walk = Walk(leaf, strict)
    walk.whole = frozenset(code.__mro__) if isinstance(code, type) and not protocol else frozenset()
    walk.everything = whole
    try:
        walk.value(code)
        walk.follow()
        walk.owners.note()
    except Uncacheable as bad:
        raise Uncacheable(f"{what}: {bad}", bad.cause) from None
    except RecursionError:
        raise Uncacheable(f"{what}: it reaches values that hold themselves, or too deep") from None
    note_functions(walk.functions)
    facts = "".join(f" reads {in_words(name, walk.facts[name])}" for name in sorted(walk.facts))
    return hashlib.sha256("\n".join(walk.lines).encode()).hexdigest() + facts
