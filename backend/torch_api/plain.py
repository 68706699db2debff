"""torch's own compilers under our names, for a torch in which a private name that warmgraph imports is gone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

log = logging.getLogger(__name__)


class Plain:
    """What `torch.compile` calls in the place of `warmgraph` or `warmgraph_cudagraphs`. Keeps nothing."""

    def __init__(self, name: str, why: str) -> None:
        self.__name__ = name
        self._why = why
        self._told = False

    def __call__(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> Callable[..., Any]:
        if not self._told:
            self._told = True
            log.warning(
                "nothing is cached: torch %s is not as warmgraph needs it: %s; upgrade warmgraph or pin torch",
                torch.__version__,
                self._why,
            )
        compiler: Callable[..., Callable[..., Any]]
        if self.__name__ == "warmgraph_cudagraphs":
            compiler = torch._TorchCompileWrapper("cudagraphs", None, None, None)
        else:
            compiler = torch._TorchCompileInductorWrapper(mode, dict(options or {}), None)
        return compiler(gm, inputs)

    def reset(self) -> None:
        """Called by `torch._dynamo.reset()`."""
