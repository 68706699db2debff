"""The Dynamo backend: key -> load or compile -> run. The only room that knows torch's internals.

`torch.compile(model, backend="warmgraph")` finds `warmgraph` through the entry point
`torch_dynamo_backends`; nothing has to be imported.
"""

from .backend import warmgraph

__all__ = ["warmgraph"]
