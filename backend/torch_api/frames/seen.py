"""What is noted of the frame that a thread is tracing. Names nothing of torch: it is there on every version."""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Iterator
from typing import Any

import torch
from msgspec import Struct, field

from ..versions import at_hand


def unsupported() -> str | None:
    """Why frames are traced as ever on this torch; None where they are recorded and restored."""
    if at_hand() in _SERVED:
        return None
    known = ", ".join(".".join(map(str, version)) for version in _SERVED)
    return f"frames are restored on torch {known} only; this is {torch.__version__}"


_SERVED = ((2, 11), (2, 12), (2, 13), (2, 14), (2, 15))


class Seen(Struct):
    """looked_at: sources of values that the trace asked anything of, guarded or not. inlined: code that was traced
    through, with the globals it reads. marked: ids of tensors that the trace marked as static. unguarded: guards
    that torch leaves out. sourceless: classes, modules and members of enums by id that the trace reached through no
    source, so that nothing about them has a guard; functions: such functions that it traced through. chance: what
    it folded in that is something else in each process. ran: code of the user's that ran and was not traced. names:
    that it asked modules for; asked_modules: of those what a module has not itself, with the module's source. owners:
    the class on which Dynamo found an attribute last, by the attribute's id and name. operators: custom ones whose
    fakes ran. called: functions of the user's, by id, that its graphs call as they are. policies: each `context_fn` of
    a checkpoint in its graphs, and what it does, by id. assumed: what
    `assume_constant_result` called and folded in: the function; its arguments and what it gave as plain data, or None
    where they are none. copied: sources of values whose address was asked for, and whether `copy`
    alone did; shows_memo: whether code of the user's is given those addresses. untraced: of functions that are called,
    and of tensors that wrap others, what was said of their code before any of it ran, by id; known: what was looked at
    for that. shuffled: whether it went over a set of texts that it
    made. watched_sets: sources of sets, where going over them is noted; sorting: whether one of texts is being sorted,
    which does not count. graphs: by backend id, for each piece of a compiled graph where it is kept, or why it is not.
    ranks: sources of meshes and groups of ranks that its graphs take. optimizers: of each whose groups it asked for, by
    source, how it had the state made. nested: how what functions that are not traced strictly gave nests, by id.
    tells_rank: whether a function of torch's ran that may tell which rank this process is, or the record speaks of a
    group, a mesh or a placement. installed: globals of each OutputGraph, by its id.
    """

    looked_at: dict[Any, None] = field(default_factory=dict)
    inlined: dict[types.CodeType, dict[str, Any]] = field(default_factory=dict)
    marked: dict[int, Any] = field(default_factory=dict)
    unguarded: list[Any] = field(default_factory=list)
    sourceless: dict[int, Any] = field(default_factory=dict)
    functions: dict[int, types.FunctionType] = field(default_factory=dict)
    chance: list[str] = field(default_factory=list)
    ran: list[Any] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    asked_modules: dict[Any, None] = field(default_factory=dict)
    owners: dict[tuple[int, str], type] = field(default_factory=dict)
    called: dict[int, Any] = field(default_factory=dict)
    policies: dict[int, tuple[Any, str]] = field(default_factory=dict)
    assumed: list[tuple[Any, Any]] = field(default_factory=list)
    copied: dict[Any, bool] = field(default_factory=dict)
    shows_memo: bool = False
    untraced: dict[int, tuple[Any, str]] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)
    operators: set[str] = field(default_factory=set)
    shuffled: bool = False
    watched_sets: set[Any] = field(default_factory=set)
    sorting: bool = False
    graphs: dict[str, list[Any]] = field(default_factory=dict)
    ranks: list[Any] = field(default_factory=list)
    optimizers: dict[Any, list[Any]] = field(default_factory=dict)
    tells_rank: bool = False
    nested: dict[int, Any] = field(default_factory=dict)
    installed: dict[int, dict[str, Any]] = field(default_factory=dict)


_thread = threading.local()


@contextlib.contextmanager
def describing(current: Seen) -> Iterator[None]:
    """While open, the record of what was seen is made in this thread."""
    before, _thread.described = getattr(_thread, "described", None), current
    try:
        yield
    finally:
        _thread.described = before


def note_ranks() -> None:
    """The record that is being made, if one is, speaks of ranks."""
    if (current := getattr(_thread, "described", None)) is not None:
        current.tells_rank = True


def seen() -> Seen | None:
    """Of the frame that this thread is tracing; None when nobody wants to know."""
    return getattr(_thread, "seen", None)


def note_chance(what: str) -> None:
    """Tell the frame that is being traced of something that each process has otherwise."""
    if (current := seen()) is not None:
        current.chance.append(what)


@contextlib.contextmanager
def watching(into: Seen | None) -> Iterator[None]:
    before = seen()
    _thread.seen = into
    try:
        yield
    finally:
        _thread.seen = before
