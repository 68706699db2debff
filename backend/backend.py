"""The object that `torch.compile` calls: takes mode and options, finds this process's engine."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from torch.fx import GraphModule
from warmgraph.cache import Mode, Reason, Settings, reset_in_child, settings

from . import named
from .collection import make_old, uncollected
from .compilers.inductor import Inductor
from .engine import Engine, refusal_of
from .pgo.profiles import FrameProfiles, watch_sizes
from .process_cache import opened
from .reporting.fail_open import MOVED, Failure, attempt, what_moved
from .reporting.report import Report, place_of
from .torch_api import compile as compat
from .torch_api.frames.ran import paused
from .torch_api.frames.seen import unsupported as frames_unsupported
from .torch_api.generated_code.lazy_module import use_lazy_debug_module
from .torch_api.ranks.places import listen
from .torch_api.settings import allow_long_chains, not_inductors
from .torch_api.versions.plain import compile_plainly, not_as_needed, tell_once
from .typing import Compiler

if TYPE_CHECKING:
    from .frames.frames import Frames


class Backend:
    """`torch.compile(model, backend="warmgraph", mode=..., options=...)`.

    Takes every mode and option of Inductor, and raises its errors for unknown ones. Settings are those
    of `warmgraph.configure()` at the time a graph is compiled.
    """

    def __init__(self, compiler: Compiler) -> None:
        # Dynamo names the backend by this, in logs and in guards on the backend.
        self.__name__ = compiler.name
        self._compiler = compiler
        self._engine: Engine | None = None
        self._profiles: FrameProfiles | None = None
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        """A fork while another thread makes the engine must not leave the child a lock that nobody releases."""
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: Any) -> Backend:
        """A copy of a compiled model (an average of its weights, a target network) is compiled for this one, too."""
        return self

    def __reduce__(self) -> tuple[Callable[[str], Any], tuple[str]]:
        """A compiled model that is saved, or sent to another process, names its backend, as it does with Inductor."""
        if globals().get(self.__name__) is not self:
            raise TypeError(
                f"backend {self.__name__!r} is none of warmgraph's own: compile the model where it is loaded"
            )
        return named, (self.__name__,)

    def __call__(
        self,
        gm: GraphModule,
        inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
        name: str | None = None,
        **unknown: Any,
    ) -> Callable[..., Any]:
        """name: of the region, for logs (`torch.compile(name=...)`, since 2.15). unknown: what a newer torch adds."""
        why = not_as_needed(f"it passes {', '.join(unknown)} on") if unknown else compat.unsupported()
        if why is not None:
            return self._plainly(why, gm, inputs, mode, options)
        patches = self._compiler.options(mode, options)
        current = settings()
        if current.mode is Mode.OFF:
            return self._compiler.compile(gm, inputs, patches, lambda reason, detail: None)
        if others := not_inductors(patches):
            self.note_bypass(gm, Reason.UNSUPPORTED_MODE, f"option {others[0]} is of a device from outside torch")
            return self._compiler.compile(gm, inputs, patches, lambda reason, detail: None)
        try:
            with paused():
                run = self._engine_for(current).compile(gm, inputs, patches)
        except MOVED as error:
            moved = what_moved(error)
            if current.strict or moved is None:
                raise
            return self._plainly(not_as_needed(moved), gm, inputs, mode, options)
        if self._profiles is not None:
            attempt("profile", current.strict, self._profiles.tell, gm)
        return run

    def _plainly(
        self, why: str, gm: GraphModule, inputs: Sequence[Any], mode: str | None, options: Mapping[str, Any] | None
    ) -> Callable[..., Any]:
        """As torch's own backend does. Told in one line per process, and in the journal for each graph."""
        tell_once(why)
        self.note_bypass(gm, Reason.UNSUPPORTED_TORCH, why)
        return compile_plainly(self.__name__, gm, inputs, mode, options)

    def note_bypass(self, gm: GraphModule, reason: Reason, why: str) -> None:
        """Journal a graph that is compiled without the cache being asked. Never raises."""

        def note() -> None:
            current = settings()
            if current.mode is not Mode.OFF:
                Report(opened(current).journal, place_of(gm), self.__name__).bypass(reason, why)

        attempt("journal", False, note)

    def prepare(self) -> None:
        """Called once, when `torch.compile` first names this backend. Raises ConfigError.

        A setting that cannot be is told now, and not in the middle of a training step; and the connection to a
        remote store is made while Dynamo traces.
        """
        current = settings()
        if compat.unsupported() is not None:
            return  # nothing of torch is touched
        use_lazy_debug_module()
        allow_long_chains()
        attempt("profile", current.strict, watch_sizes)
        attempt("ranks", current.strict, listen)
        if (current.frames or current.pgo) and frames_unsupported() is None:
            attempt("frame", current.strict, _watch_frames, current.frames)
        if current.url is not None and current.mode is not Mode.OFF:
            attempt("connect", current.strict, self._engine_for, current)

    def frame_profiles(self) -> FrameProfiles | None:
        """What is known of the sizes of frames that are compiled for this backend; None when that is not wanted."""
        current = settings()
        if not current.pgo or current.mode is Mode.OFF:
            return None
        made = attempt("profile", current.strict, self._engine_for, current)
        return None if isinstance(made, Failure) else self._profiles

    def frames(self) -> Frames | None:
        """What restores frames that are compiled for this backend; None when they are to be traced."""
        current = settings()
        if not current.frames or current.mode is Mode.OFF or not isinstance(self._compiler, Inductor):
            return None

        def make() -> Frames:
            from .frames.frames import Frames

            return Frames(self._engine_for(current), refusal_of)

        made = attempt("frame", current.strict, make)
        return None if isinstance(made, Failure) else made.value

    def reset(self) -> None:
        """Called by `torch._dynamo.reset()`: recordings of CUDA graphs belong to the process, not the store.

        Dynamo has forgotten which sizes vary; what the store knows of that is read again.
        """
        attempt("reset", False, compat.reset_cudagraphs)
        if self._profiles is not None:
            self._profiles.forget()

    def _engine_for(self, current: Settings) -> Engine:
        with self._lock:
            store = opened(current)
            if self._engine is None or self._engine.cache is not store.cache:
                self._engine = Engine(store.cache, store.journal, current, self._compiler)
                self._profiles = FrameProfiles(store.cache.learning, strict=current.strict)
            return self._engine


def _watch_frames(listening: bool) -> None:
    """Imported late: on a torch that frames do not know, these private names may be gone."""
    from .torch_api.frames import hook

    hook.install(listening=listening)


warmgraph = Backend(Inductor())


def __getattr__(name: str) -> Any:
    if name == "warmgraph_cudagraphs":  # few name it
        from .compilers.aot_cudagraphs import CudaGraphs

        return globals().setdefault(name, Backend(CudaGraphs()))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@functools.lru_cache(maxsize=1)
def prepare() -> None:
    """When a backend is first named. Raises ConfigError, then and each time after."""
    with uncollected():
        warmgraph.prepare()
        make_old()
