"""Classes that generated code names to write down values of opaque types (`torch._library.opaque_object`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves
from warmgraph.hashing import graph_modules


def without_classes(graph: Any) -> None:
    """Keep of a compiled graph's classes the names alone: a class is the user's, and comes with the graph again."""
    if getattr(graph, "opaque_value_type_classes", None):
        graph.opaque_value_type_classes = dict.fromkeys(graph.opaque_value_type_classes)


def with_classes(result: Any, gm: GraphModule) -> None:
    """The other way, for both graphs of a result, from the values in the graph at hand. KeyError: one is not there."""
    for side in (result.compiled_fw, result.compiled_bw):
        if side is not None and getattr(side.result, "opaque_value_type_classes", None):
            found = dict(_classes_in(gm))
            side.result.opaque_value_type_classes = {n: found[n] for n in side.result.opaque_value_type_classes}


def _classes_in(gm: GraphModule) -> Iterator[tuple[str, type]]:
    registry: Any = sys.modules["torch._library.opaque_object"]
    is_constant = getattr(registry, "is_opaque_constant_type", None) or registry.is_opaque_value_type  # before 2.14
    for module in graph_modules(gm):
        for node in module.graph.nodes:
            for value in tree_leaves((node.args, node.kwargs)):
                if is_constant(type(value)):
                    yield from registry.get_opaque_obj_repr(value)[1].items()
