"""The Dynamo backends: key -> load or compile -> run. The only room that knows torch's internals.

`torch.compile(model, backend="warmgraph")` and `backend="warmgraph_cudagraphs"` are found through the entry point
`torch_dynamo_backends`; nothing has to be imported. `adopt` takes over what names other backends (`warmgraph run`).
`Backend(compiler)` is a backend of one's own, through a `Compiler` (`warmgraph.testing.compilers` has what it must do).
Importing this package opens nothing, reads no settings and changes nothing of torch; naming a backend does.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .backend import Backend, warmgraph, warmgraph_cudagraphs
    from .torch_api.compile import unsupported
    from .torch_api.frames.seen import unsupported as frames_unsupported
    from .torch_api.versions import untested
    from .typing import Bypass, Compiler


def adopt(torch: ModuleType, begin: Callable[[], None]) -> None:
    """Let `torch.compile` use warmgraph where it would use Inductor or torch's `cudagraphs`.

    begin: called in each process (forked ones, too) before it compiles its first graph. Raises AttributeError on a
    torch that has other names for these things; nothing is patched then.
    """
    from .torch_api.entrances.redirect import redirect

    redirect(torch, begin, lambda: __getattr__("warmgraph"))


def pretend() -> None:
    """Make every process group of this process a fake one (`warmgraph warm`). Raises AttributeError as `adopt` does."""
    from .torch_api.ranks.pretended import pretend

    pretend()


def named(name: str) -> Any:
    """The backend of that name, as naming it in `torch.compile` gives it."""
    return __getattr__(name)


def __getattr__(name: str) -> Any:
    if name in ("warmgraph", "warmgraph_cudagraphs"):  # they import Dynamo, which `adopt` must not
        from .collection import uncollected

        try:
            with uncollected():  # 200 modules, beside a model
                from . import backend
        except (ImportError, AttributeError) as error:
            return _plain(name, str(error))
        backend.prepare()
        from .vllm.whole_models import skip_unusable_files

        skip_unusable_files()
        return getattr(backend, name)
    if name == "unsupported":
        try:
            from .torch_api.compile import unsupported
        except (ImportError, AttributeError) as error:
            why = _moved(str(error))
            return lambda: why
        return unsupported
    if name == "Backend":
        from .backend import Backend

        return Backend
    if name in ("Bypass", "Compiler"):
        from . import typing

        return getattr(typing, name)
    if name == "untested":
        from .torch_api.versions import untested

        return untested
    if name == "frames_unsupported":
        from .torch_api.frames.seen import unsupported

        return unsupported
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _moved(what: str) -> str:
    from .torch_api.versions.plain import not_as_needed

    return not_as_needed(what)


@functools.cache
def _plain(name: str, why: str) -> Any:
    """For a torch without a private name that we import: its own compiler, with a line that says so."""
    from .torch_api.versions.plain import Plain

    return Plain(name, _moved(why))


__all__ = [
    "Backend",
    "Bypass",
    "Compiler",
    "adopt",
    "frames_unsupported",
    "pretend",
    "unsupported",
    "untested",
    "warmgraph",
    "warmgraph_cudagraphs",
]
