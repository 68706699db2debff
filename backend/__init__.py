"""The Dynamo backends: key -> load or compile -> run. The only room that knows torch's internals.

`torch.compile(model, backend="warmgraph")` and `backend="warmgraph_cudagraphs"` are found through the entry point
`torch_dynamo_backends`; nothing has to be imported. `adopt` takes over what names other backends (`warmgraph run`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .redirect import adopt

if TYPE_CHECKING:
    from .backend import warmgraph, warmgraph_cudagraphs
    from .torch_api.compile import unsupported


def __getattr__(name: str) -> Any:
    if name in ("warmgraph", "warmgraph_cudagraphs"):  # they import Dynamo, which `adopt` must not
        from . import backend

        return getattr(backend, name)
    if name == "unsupported":
        from .torch_api.compile import unsupported

        return unsupported
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = ["adopt", "unsupported", "warmgraph", "warmgraph_cudagraphs"]
