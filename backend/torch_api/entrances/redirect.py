"""`torch.compile` calls that name Inductor come to warmgraph: for `warmgraph run`. Not how a graph is compiled.

Patched is what stands between `torch.compile` and Inductor: the object that carries mode and options. So
`torch.compile` resolves its arguments, defaults and errors as ever, and Inductor itself is as it was. Imports nothing
of torch: it is called while torch is being imported, when a program may still set what torch reads later.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .. import patches

log = logging.getLogger(__name__)

# torch's own backend that records CUDA graphs without Inductor, and ours.
_CUDAGRAPHS = ("cudagraphs", "warmgraph_cudagraphs")
_FRAME_PROFILES = "frame_profiles"  # a method that only a patched wrapper has
_begins: list[Callable[[], None]] = []  # what `redirect` was given


def redirected(torch: ModuleType) -> bool:
    """Whether what names Inductor comes to warmgraph in this process."""
    return hasattr(torch._TorchCompileInductorWrapper, _FRAME_PROFILES)


def begin() -> None:
    """For who hands over graphs without `torch.compile`: this process is about to compile."""
    for once in _begins:
        once()


def redirect(torch: ModuleType, begin: Callable[[], None], backend: Callable[[], Any]) -> None:
    """Let `torch.compile` use warmgraph where it would use Inductor or torch's `cudagraphs`.

    begin: called in each process (forked ones, too) before it compiles its first graph. backend: gives what compiles;
    not called before `torch.compile` is used, since it imports Dynamo (0.8 s). Raises AttributeError on a torch that
    has other names for these things; nothing is patched then.
    """
    inductor, other = torch._TorchCompileInductorWrapper, torch._TorchCompileWrapper
    if redirected(torch):
        return  # done before
    once = _PerProcess(begin)
    _begins[:] = [once]
    patched = _inductor_methods(torch, inductor, once, backend)
    init = _cudagraphs_init(other, once)
    for name, method in patched.items():
        patches.replace("inductor by name", inductor, name, method)
    patches.replace("cudagraphs by name", other, "__init__", init)


class _PerProcess:
    """Calls a function once in each process."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function
        self._done_in: int | None = None

    def __call__(self) -> None:
        if self._done_in != os.getpid():
            self._done_in = os.getpid()
            self._function()


def _inductor_methods(
    torch: ModuleType, inductor: Any, once: Callable[[], None], backend: Callable[[], Any]
) -> dict[str, Callable[..., Any]]:
    """What `_TorchCompileInductorWrapper` does otherwise. Its subclasses (AOTInductor's) are left as they are."""
    init, call, reset = inductor.__init__, inductor.__call__, inductor.reset

    def left_alone(self: Any) -> bool:
        return type(self) is not inductor or _result_is_kept_by_torch(torch)

    @functools.wraps(init)
    def begin_init(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)  # an unknown mode or option is refused here, by torch
        if type(self) is inductor:
            once()  # before the cache is opened: what is called at the end is called in reverse
            backend()  # as `backend="warmgraph"` does: settings are checked, and a connection is begun

    @functools.wraps(call)
    def compile_graph(self: Any, gm: Any, inputs: Any, *, config_patches: Any = None) -> Any:
        if left_alone(self):
            given = {} if config_patches is None else {"config_patches": config_patches}  # unknown to torch 2.11
            return call(self, gm, inputs, **given)
        once()
        return backend()(gm, inputs, options={**self.config, **(config_patches or {})})

    @functools.wraps(reset)
    def reset_both(self: Any) -> None:
        reset(self)
        if type(self) is inductor:
            backend().reset()

    def frame_profiles(self: Any) -> Any:
        """What `profiles` asks a backend for: sizes are not made to vary for a compiler that is torch's own."""
        return None if left_alone(self) else backend().frame_profiles()

    def frames(self: Any) -> Any:
        """What the hook on frames asks a backend for."""
        return None if left_alone(self) else backend().frames()

    return {
        "__init__": begin_init,
        "__call__": compile_graph,
        "reset": reset_both,
        _FRAME_PROFILES: frame_profiles,
        "frames": frames,
    }


def _cudagraphs_init(other: Any, once: Callable[[], None]) -> Callable[..., None]:
    """`_TorchCompileWrapper` looks a backend up by its name: it is given another name."""
    init = other.__init__
    theirs, ours = _CUDAGRAPHS

    @functools.wraps(init)
    def renamed(self: Any, backend: Any, *args: Any, **kwargs: Any) -> None:
        if not (isinstance(backend, str) and backend == theirs):
            init(self, backend, *args, **kwargs)
            return
        once()
        init(self, ours, *args, **kwargs)
        if self.kwargs:  # torch's takes any mode and option, with a warning and without a look; ours would refuse some
            log.warning("cudagraphs backend ignoring extra kwargs %s", self.kwargs)
            self.kwargs = {}

    return renamed


def _result_is_kept_by_torch(torch: ModuleType) -> bool:
    """Whether torch is about to write down Inductor's result itself (`aot_compile`, precompiling): it needs its own."""
    precompiling = getattr(torch._dynamo.config, "caching_precompile", False)
    return bool(precompiling or torch._functorch.config.bundled_autograd_cache)
