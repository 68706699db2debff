"""What is seen while one frame is traced and cannot be asked of Dynamo afterwards. Changes nothing of the trace.

Restarts of the analysis begin anew with another OutputGraph; what the last one installed counts, what any of them
traced through is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.source import is_from_skip_guard_source

from .. import patches
from .seen import seen


def install() -> None:
    """Once per process. Raises patches.Moved."""
    patches.install("inlining", _inlining)
    patches.install("values", _looking)
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


def _looking(original: Callable[..., Any]) -> Callable[..., Any]:
    def build(self: Any, value: Any) -> Any:
        current = seen()
        if current is not None:
            current.looked_at[self.source] = None
        return original(self, value)

    return build


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
