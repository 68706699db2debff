"""A GraphModule from its source text, node for node. Read on 2.11 to 2.15.

torch runs the text with a tracer (`torch.fx.graph_module.reduce_graph_module`). A call that takes no value of the
graph is computed there and then, and its result becomes a constant: `aten.full`, or the random numbers of that moment.
Here it stays a call, and the graph is what it was.
"""

from __future__ import annotations

from typing import Any

from torch._ops import OpOverload
from torch.fx import GraphModule, Tracer
from torch.fx.graph_module import reduce_graph_module
from torch.overrides import TorchFunctionMode


class _KeepCalls(TorchFunctionMode):  # type: ignore[misc]
    def __init__(self, tracer: Tracer) -> None:
        super().__init__()
        self._tracer = tracer

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, OpOverload):
            return self._tracer.create_proxy("call_function", func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def graph_module(body: dict[str, Any], imports: str) -> GraphModule:
    """What `imports` and the text in `body` say; `body` is what the module's `__reduce__` gave."""
    kind = body.get("_tracer_cls") or Tracer

    class Keeping(kind):  # type: ignore[misc, valid-type]
        def trace(self, *args: Any, **kwargs: Any) -> Any:
            with _KeepCalls(self):
                return super().trace(*args, **kwargs)

    gm: GraphModule = reduce_graph_module({**body, "_tracer_cls": Keeping}, imports)
    gm.graph._tracer_cls = body.get("_tracer_cls")
    return gm
