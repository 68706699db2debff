"""What decides about CUDA graphs in torch, records and replays them, or is recorded. Read on 2.13.0.

Imported on a hit: what it takes from here at once costs nothing, and what imports a GPU's runtime or Inductor's
compiler is imported when it is asked for. Checked by `tests/backend/torch_api/test_torch_compat.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch._inductor.config as inductor_config
from torch._guards import CompileContext, TracingContext
from torch._inductor import cudagraph_utils, output_code
from torch._inductor import utils as inductor_utils
from torch._inductor.cudagraph_utils import PlaceholderInfo
from torch._inductor.output_code import OutputCode
from torch._ops import HigherOrderOperator, _OpNamespace
from torch.fx import GraphModule, Node
from torch.fx.graph import _BoxedCodeGen
from torch.multiprocessing.reductions import StorageWeakRef

__all__ = [
    "HigherOrderOperator",
    "OutputCode",
    "PlaceholderInfo",
    "StorageWeakRef",
    "_BoxedCodeGen",
    "_OpNamespace",
    "output_code",
]


def policy() -> Any | None:
    """The user's own way of making CUDA graphs (a setting since 2.12), or None."""
    return getattr(inductor_config, "cudagraph_policy", None)


def trees() -> Any:
    """The module that records and replays."""
    from torch._inductor import cudagraph_trees

    return cudagraph_trees


def scheduler_is_imported() -> bool:
    """Inductor's scheduler parts a graph into what is recorded and what is not; a hit does without it."""
    return "torch._inductor.scheduler" in sys.modules


def origins(node: Any) -> list[Any]:
    """The FX nodes that a node of the scheduler computes, in a fixed order."""
    computed = [] if node.node is None else [*node.node.get_origins()]
    nodes = [one for one in computed if one.op in ("call_function", "call_method")]
    return sorted(nodes, key=lambda one: one.name)


def is_backward(mode: Any) -> bool:
    """mode: of a function in the trees."""
    return getattr(mode, "name", "") == "BACKWARD"


def unmanaged_mutations(manager: Any, function: Any, inputs: list[Any]) -> list[int]:
    """Which inputs `check_for_mutation` refused: written to, and neither static nor from an earlier recording."""
    recorded = manager._get_cuda_graph_recorded_tensor_checker()
    static = set(function.static_input_idxs)
    return [place for place in function.mutated_input_idxs if place not in static and not recorded(inputs[place])]


def late_generation(original: Callable[..., None]) -> Callable[..., None]:
    """`maybe_handle_backward_generation` for a backward that is compiled or loaded before the forward ever ran.

    A backward that is skipped still tells the trees that it runs. torch looks for them when it compiles the backward,
    expects them to be there, and fails if they are not; here they are looked for once more when it runs.
    """

    def maybe_handle_backward_generation(graph: Any, device: Any) -> None:
        backward = graph.fx_kwargs["is_backward"] and inductor_config.triton.cudagraph_trees
        index = None if device is None else device.value
        if not backward or index is None or trees().get_manager(index, create_if_none_exists=False) is not None:
            original(graph, device)
            return
        run = graph.current_callable

        def run_backward(inputs: list[Any]) -> Any:
            manager = trees().get_manager(index, create_if_none_exists=False)
            if manager is not None:
                manager.set_to_running_backward()
            return run(inputs)

        graph.current_callable = run_backward

    return maybe_handle_backward_generation


# --- graphs without Inductor --------------------------------------------------------------------------


def aot_compile(
    gm: GraphModule,
    inputs: Sequence[Any],
    compilers: Mapping[str, Callable[..., Any]],
    *,
    keep_mutations: bool,
    kept: type[OutputCode] | None,
) -> Callable[..., Any]:
    """AOTAutograd as torch's backend `cudagraphs` calls it; `compilers` for forward, backward and inference.

    keep_mutations: in the graph, instead of by a copy after it.

    kept: the class that the compilers return, if the result is to be handed over. Otherwise torch is not told that it
    could be kept: its own cache does not know compilers apart.
    """
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler

    given = {name: SerializableAOTDispatchCompiler(kept, made) if kept else made for name, made in compilers.items()}
    return aot_autograd(**given, keep_inference_input_mutations=keep_mutations)(gm, inputs)  # type: ignore[no-any-return]


def keeps_input_mutations() -> bool:
    return bool(torch._dynamo.config.cudagraph_backend_keep_input_mutation)


def supports_input_mutations() -> bool:
    return bool(torch._dynamo.config.cudagraph_backend_support_input_mutation)


def static_inputs(gm: GraphModule) -> list[int]:
    """Positions of the inputs of AOTAutograd's forward that stay where they are: parameters and buffers.

    Inductor's rule. (torch's `cudagraphs` counts inputs that Dynamo did not have; since it inlines modules, there are
    none, and every parameter would be copied at every call.)
    """
    context = TracingContext.try_get()
    metadata = None if context is None else context.fw_metadata
    return [] if metadata is None else list(metadata.static_input_indices or ())


def saved_inputs(backward: GraphModule) -> list[int]:
    """Positions of what the forward saved for AOTAutograd's backward, and of parameters and buffers."""
    return list(range(inductor_utils.count_tangents(backward)))


def first_unsafe(gm: GraphModule) -> Node | None:
    """The first node that cannot be recorded, by torch's rule."""
    return inductor_utils.get_first_incompatible_cudagraph_node(gm)


def placeholders(gm: GraphModule) -> list[PlaceholderInfo]:
    return list(cudagraph_utils.get_placeholder_info(gm.graph))


def count_skip(message: str, *, aloud: bool) -> None:
    """In torch's own counters. Raises RuntimeError if the user wants CUDA graphs or an error."""
    if aloud or inductor_config.triton.cudagraph_or_error:
        cudagraph_utils.log_cudagraph_skip_and_bump_counter(message)
    else:
        output_code.counters["inductor"]["cudagraph_skips"] += 1


def uncached_allocator() -> bool:
    """Whether memory is not taken from the caching allocator, without which nothing can be recorded."""
    check = getattr(cudagraph_utils, "check_caching_allocator_for_cudagraphs", None)
    return check is not None and check() is not None


def compile_id() -> Any:
    return CompileContext.current_compile_id()


def may_scale(kernel: Any) -> bool:
    """Whether an autotuner, once loaded, might compile another configuration of a reduction to compare with."""
    told = getattr(kernel, "_could_rblock_scale", None)
    if told is not None:
        return bool(told)
    # Before 2.13 the same is asked within `_dynamic_scale_rblock`; what that asks of the device, any newer one has.
    return (
        kernel.heuristic_type is not None
        and kernel.heuristic_type.name == "REDUCTION"
        and kernel.size_hints is not None
        and not kernel.deterministic_mode
        and bool(kernel.inductor_meta.get("dynamic_scale_rblock", True))
        and not kernel.inductor_meta.get("persistent_reduction")
    )


def descends(kernel: Any) -> bool:
    """Whether coordinate descent tries other configurations of an autotuner at its first launch."""
    return bool(kernel.inductor_meta.get("coordinate_descent_tuning"))


def cache_dir() -> str:
    """Where Inductor keeps its files in this process."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir as of_inductor

    return str(of_inductor())


def config_values(config: Any) -> Any:
    """What tells a Triton kernel's configurations apart."""
    from torch._inductor.runtime.runtime_utils import triton_config_to_hashable

    return triton_config_to_hashable(config)
