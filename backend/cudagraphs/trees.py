"""A graph run in CUDA graphs: torch's trees, called as Inductor calls them. What needs a GPU is here, and little else.

`torch/_dynamo/backends/cudagraphs.py` and `torch/_inductor/compile_fx.py` (`cudagraphify`). As in the latter, the trees
are told of a graph at its first call: they ask which inputs are plain integers, and a recording is made for each value.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from ..torch_api import compile as compat
from ..torch_api import cudagraph_trees as cudagraphs
from ..typing import Run
from .recordable import Facts, Side, device_index


def recorded(gm: GraphModule, facts: Facts, side: Side, placeholders: Sequence[Any]) -> Run:
    """`gm` (which takes one list) in CUDA graphs, one per thread and size."""
    options = {
        "device_index": device_index(facts),
        "is_backward": side == "backward",
        "is_inference": side == "inference",
        "stack_traces": _output_traces(gm),
        "constants": tuple(_constants(gm)),
        "placeholders": placeholders,
        "mutated_input_idxs": tuple(facts.mutated),
        "compile_id": cudagraphs.compile_id(),
    }
    here = threading.local()

    def run(inputs: list[Any]) -> Any:
        made = getattr(here, "made", None)
        if made is None:
            with compat.dynamo_utils.preserve_rng_state():
                made = cudagraphs.trees().cudagraphify_impl(gm, inputs, tuple(facts.static), **options)
            here.made = made
        return made(inputs)

    return boxed(run)


def after_recorded_forward(run: Run, device: int) -> Run:
    """A backward without CUDA graphs, whose forward has them: the trees must know that a backward runs."""

    def run_backward(inputs: list[Any]) -> Any:
        manager = cudagraphs.trees().get_manager(device, create_if_none_exists=False)
        if manager is not None:
            manager.set_to_running_backward()
        return run(inputs)

    return boxed(run_backward)


def boxed(run: Run) -> Run:
    """Marked as taking its inputs as one list, which it may empty."""
    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _output_traces(gm: GraphModule) -> list[str | None]:
    (returned,) = gm.graph.output_node().args
    if not isinstance(returned, (tuple, list)):
        return []
    return [one.meta.get("stack_trace") if isinstance(one, torch.fx.Node) else None for one in returned]


def _constants(gm: GraphModule) -> list[torch.Tensor]:
    held = [getattr(gm, str(node.target)) for node in gm.graph.find_nodes(op="get_attr")]
    return [value for value in held if isinstance(value, torch.Tensor)]
