"""Which inputs a graph of AOTAutograd's writes to, by the schemas of what it calls. Decides nothing.

torch's `find_input_mutations`, and what it leaves out: tensors within lists (`_foreach_add_`, `_fused_adam_`), Triton
kernels that write in place, and the graphs nested in higher-order operators.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..torch_api import cudagraph_trees as cudagraphs

Storages = set[Any]


def mutated_inputs(gm: GraphModule) -> list[int]:
    """Positions of the inputs whose memory is written to, by whatever view."""
    written = _written(gm)
    placeholders = gm.graph.find_nodes(op="placeholder")
    return [position for position, node in enumerate(placeholders) if _storages(node) & written]


def mutates_constants(gm: GraphModule) -> Node | None:
    """A constant of the graph that it writes to, and so is none; or None."""
    written = _written(gm)
    return next((node for node in gm.graph.find_nodes(op="get_attr") if _storages(node) & written), None)


def _written(gm: GraphModule) -> Storages:
    found: Storages = set()
    for node in gm.graph.nodes:
        for argument in _written_arguments(gm, node):
            found |= _storages(argument)
    return found


def _storages(node: Node) -> Storages:
    """Of the values of a node, as they were when it was traced."""
    value = node.meta.get("val", node.meta.get("fake_result"))
    values = value if isinstance(value, (tuple, list)) else (value,)
    tensors = [item for item in values if isinstance(item, torch.Tensor) and item.layout is torch.strided]
    return {cudagraphs.StorageWeakRef(item.untyped_storage()) for item in tensors}


def _written_arguments(gm: GraphModule, node: Node) -> Iterator[Node]:
    if node.op != "call_function":
        return
    schema = getattr(node.target, "_schema", None)
    if schema is not None:
        for place, argument in enumerate(schema.arguments):
            given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            # Of a list, the schema says that it holds tensors that are written to.
            if argument.alias_info is not None and argument.alias_info.is_write:
                yield from _nodes(given)
    elif isinstance(node.target, cudagraphs.HigherOrderOperator):
        nested = [_module(gm, given) for given in node.all_input_nodes]
        if "mutation" in node.target.name() or any(module is not None and _mutates(module) for module in nested):
            yield from node.all_input_nodes  # which of them, nobody says


def _mutates(gm: GraphModule) -> bool:
    return any(any(_written_arguments(gm, node)) for node in gm.graph.nodes)


def _module(gm: GraphModule, node: Node) -> GraphModule | None:
    found = getattr(gm, str(node.target), None) if node.op == "get_attr" else None
    return found if isinstance(found, GraphModule) else None


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from _nodes(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from _nodes(item)
