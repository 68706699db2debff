"""What is seen while one frame is traced and cannot be asked of Dynamo afterwards. Changes nothing of the trace.

Restarts of the analysis begin anew with another OutputGraph; what the last one installed counts, what any of them
traced through is compared.
"""

from __future__ import annotations

import contextlib
import threading
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch._dynamo.source import is_from_skip_guard_source

from .. import patches


@dataclass(slots=True)
class Seen:
    """inlined: code that was traced through, with the globals it reads. marked: ids of tensors that the trace marked
    as static. unguarded: guards that torch leaves out. graphs: by backend id, where a compiled graph is kept, or why
    it is not. installed: globals of each OutputGraph, by its id.
    """

    inlined: dict[types.CodeType, dict[str, Any]] = field(default_factory=dict)
    marked: dict[int, Any] = field(default_factory=dict)
    unguarded: list[Any] = field(default_factory=list)
    graphs: dict[str, Any] = field(default_factory=dict)
    installed: dict[int, dict[str, Any]] = field(default_factory=dict)


_thread = threading.local()


def seen() -> Seen | None:
    """Of the frame that this thread is tracing; None when nobody wants to know."""
    return getattr(_thread, "seen", None)


@contextlib.contextmanager
def watching(into: Seen | None) -> Iterator[None]:
    before = seen()
    _thread.seen = into
    try:
        yield
    finally:
        _thread.seen = before


def install() -> None:
    """Once per process. Raises patches.Moved."""
    patches.install("inlining", _inlining)
    patches.install("static inputs", _marking)
    patches.install("guards left out", _guarding)
    patches.install("installed globals", _installing)


def _inlining(original: Callable[..., Any]) -> Callable[..., Any]:
    def init(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        current = seen()
        if current is not None:
            current.inlined[self.f_code] = self.f_globals

    return init


def _marking(original: Callable[..., Any]) -> Callable[..., Any]:
    def mark(self: Any, value: Any, guard: bool) -> Any:
        current = seen()
        if current is not None and not guard:
            current.marked[id(value)] = value
        return original(self, value, guard)

    return mark


def _guarding(original: Callable[..., Any]) -> Callable[..., Any]:
    def install_guard(*guards: Any, skip: int = 0) -> None:
        current = seen()
        if current is not None:
            current.unguarded += [guard for guard in guards if is_from_skip_guard_source(guard.originating_source)]
        original(*guards, skip=skip + 1)

    return install_guard


def _installing(original: Callable[..., Any]) -> Callable[..., Any]:
    def install(self: Any, name: str, value: Any) -> None:
        original(self, name, value)
        current = seen()
        if current is not None:
            current.installed.setdefault(id(self), {})[name] = value

    return install
