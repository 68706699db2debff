"""torch's own compilers under our names, for a torch that is not as warmgraph needs it. Keeps nothing."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

log = logging.getLogger(__name__)

_told = threading.Event()


def tell_once(why: str) -> None:
    """One line per process, whatever is compiled and however often something else is found to have moved."""
    if not _told.is_set():
        _told.set()
        log.warning("nothing is cached: %s", why)


def not_as_needed(what: str) -> str:
    """The line on a torch in which something has moved."""
    return f"torch {torch.__version__} is not as warmgraph needs it: {what}; upgrade warmgraph or pin torch"


def compile_plainly(
    name: str, gm: torch.fx.GraphModule, inputs: Sequence[Any], mode: str | None, options: Mapping[str, Any] | None
) -> Callable[..., Any]:
    """As `torch.compile` would with torch's own backend. name: of ours. Uses nothing that `torch.compile` does not."""
    if name == "warmgraph_cudagraphs":
        return torch._dynamo.lookup_backend("cudagraphs")(gm, inputs)  # type: ignore[no-any-return]

    class Inductor(torch._TorchCompileInductorWrapper):  # type: ignore[misc]
        """A subclass: `warmgraph run` leaves these as they are, and would lead torch's own back to us."""

    return Inductor(mode, dict(options or {}), None)(gm, inputs)  # type: ignore[no-any-return]


class Plain:
    """What `torch.compile` calls in the place of `warmgraph` or `warmgraph_cudagraphs`."""

    def __init__(self, name: str, why: str) -> None:
        self.__name__ = name
        self._why = why

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> Callable[..., Any]:
        tell_once(self._why)
        return compile_plainly(self.__name__, gm, inputs, mode, options)

    def reset(self) -> None:
        """Called by `torch._dynamo.reset()`."""
