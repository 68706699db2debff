"""Compiling with the result kept: AOTAutograd's own cache is bent, on this thread, to hand results to us.

Nothing of torch's caches is read or written meanwhile. Which names are replaced is checked against torch's
source by `tests/backend/torch_api/test_torch_compat.py`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from . import compile as compat
from . import patches
from .donated_buffers import protect_donated_buffers
from .settings import let_patches_win

_capture = threading.local()


class Results:
    """What AOTAutograd handed over on one thread, by the order in which it began."""

    def __init__(self) -> None:
        self.begun = 0
        self.saved: dict[str, Any] = {}
        self.problem: str | None = None

    def begin(self) -> str:
        self.begun += 1
        return f"warmgraph-{self.begun}"

    def outermost(self) -> Any | None:
        """The result of the first compile begun: a nested one (inside another's lowering) is not it."""
        return self.saved.get("warmgraph-1")


@contextlib.contextmanager
def capture_result() -> Iterator[Results]:
    """While open, what AOTAutograd would put into its own cache on this thread lands in the results.

    torch's caches are neither read nor written meanwhile: a wrong hit of theirs must not be published
    under a right key of ours, and a graph is not hashed twice.
    """
    _install_interceptors()
    previous = getattr(_capture, "results", None)
    _capture.results = results = Results()
    try:
        with (
            compat.functorch_config.patch(
                bundled_autograd_cache=True, force_non_lazy_backward_lowering=True, enable_autograd_cache=True
            ),
            compat.inductor_config.patch(bundle_triton_into_fx_graph_cache=True),
        ):
            yield results
    finally:
        _capture.results = previous


def is_capturing() -> bool:
    """Whether results of this thread are being captured."""
    return getattr(_capture, "results", None) is not None


def _try_load(original: Callable[..., Any]) -> Callable[..., Any]:
    def try_load(mod: Any, args: Any, aot_config: Any, *rest: Any, **named: Any) -> Any:
        results = getattr(_capture, "results", None)
        if results is None:
            return original(mod, args, aot_config, *rest, **named)
        symints = compat.AOTAutogradCache._filter_backed_symints(args)
        info = compat.AOTAutogradCacheInfo(results.begin(), time.time_ns(), forward_symints=symints)
        if aot_config.__dataclass_params__.frozen:
            return None, dataclasses.replace(aot_config, cache_info=info)  # since 2.13: (fn, new config)
        aot_config.cache_info = info
        return None

    return try_load


def _save(original: Callable[..., Any]) -> Callable[..., Any]:
    def save(key: str, entry: Any, remote: bool) -> None:
        results = getattr(_capture, "results", None)
        if results is None:
            original(key, entry, remote)
            return
        try:
            protect_donated_buffers(entry)  # before pre_save takes the live graphs out of it
            entry.pre_save()
        except Exception as error:  # noqa: BLE001 - as torch's own: the compile is good, only keeping it is not
            results.problem = f"{type(error).__name__}: {error}"
        else:
            results.saved[key] = entry

    return save


def _install_interceptors() -> None:
    let_patches_win()
    patches.install("try_load", _try_load)
    patches.install("save", _save)
