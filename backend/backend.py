"""The object that `torch.compile` calls: takes mode and options, finds this process's engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule
from warmgraph.cache import Journal, Mode, Settings, journal_dir, open_cache, reset_in_child, settings

from . import torch_compat as compat
from .compiler_settings import inductor_options
from .engine import Engine
from .fallback import Failure, attempt
from .profiles import FrameProfiles, watch_sizes


class Backend:
    """`torch.compile(model, backend="warmgraph", mode=..., options=...)`.

    Takes every mode and option of Inductor, and raises its errors for unknown ones. Settings are those
    of `warmgraph.configure()` at the time a graph is compiled.
    """

    # Dynamo names the backend by this, in logs and in guards on the backend.
    __name__ = "warmgraph"

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._profiles: FrameProfiles | None = None
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        """A fork while another thread opens the cache must not leave the child a lock that nobody releases."""
        self._lock = threading.Lock()

    def __call__(
        self,
        gm: GraphModule,
        inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        patches = inductor_options(mode, options)
        current = settings()
        if current.mode is Mode.OFF:
            return compat.compile_fx(gm, inputs, patches)
        run = self._engine_for(current).compile(gm, inputs, patches)
        if self._profiles is not None:
            attempt("profile", current.strict, self._profiles.tell, gm)
        return run

    def prepare(self) -> None:
        """Called once, when `torch.compile` first names this backend. Raises ConfigError.

        A setting that cannot be is told now, and not in the middle of a training step; and the connection to a
        remote store is made while Dynamo traces.
        """
        current = settings()
        if compat.unsupported() is None:
            watch_sizes()
        if current.url is not None and current.mode is not Mode.OFF:
            attempt("connect", current.strict, self._engine_for, current)

    def frame_profiles(self) -> FrameProfiles | None:
        """What is known of the sizes of frames that are compiled for this backend; None when that is not wanted."""
        current = settings()
        if not current.pgo or current.mode is Mode.OFF:
            return None
        opened = attempt("profile", current.strict, self._engine_for, current)
        return None if isinstance(opened, Failure) else self._profiles

    def reset(self) -> None:
        """Called by `torch._dynamo.reset()`: recordings of CUDA graphs belong to the process, not the store.

        Dynamo has forgotten which sizes vary; what the store knows of that is read again.
        """
        compat.reset_cudagraphs()
        if self._profiles is not None:
            self._profiles.forget()

    def _engine_for(self, current: Settings) -> Engine:
        with self._lock:
            if self._engine is None or self._engine.settings != current:
                cache = open_cache(current)
                # A folder that is not ours to write, or was refused, is not journaled in either.
                writes = current.mode in (Mode.READWRITE, Mode.REFRESH) and "disk" not in cache.health()
                self._engine = Engine(cache, Journal(journal_dir(current)) if writes else None, current)
                self._profiles = FrameProfiles(cache.learning, strict=current.strict)
            return self._engine


warmgraph = Backend()
warmgraph.prepare()
