"""The compiler of `warmgraph`: Inductor. How its code is taken out of a result, and hung on one again without it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from msgspec import Struct, field
from torch.fx import GraphModule
from warmgraph.cache import Hit, Reason, Role
from warmgraph.hashing import Key, for_current_device

from ..artifact.cpp_kernels import built_files
from ..cudagraphs.autotune_choices import apply_autotune_choice, hear_bundling
from ..cudagraphs.listening import hear_partitions
from ..key.compiler_settings import patched_settings
from ..reporting.fail_open import attempt
from ..torch_api import compile as compat
from ..torch_api.changes.tables import import_inductor
from ..torch_api.donated_buffers import spared, take_donated
from ..torch_api.generated_code.triton_bundle import binaries_alone, emit_triton, without_launchers
from ..torch_api.generated_code.wrapper_module import Payload, dump_module, run_module
from ..torch_api.loading import count_as_compiled, is_to_be_saved
from ..torch_api.opaque import with_classes, without_classes
from ..torch_api.settings import inductor_options
from ..typing import Bypass, Compiled, NotSerialisable, OnSkip, Packed, Request, Run
from .any_device import text_without_device, to_current_device, without_device
from .names import renamer

if TYPE_CHECKING:
    from .frozen_weights import Frozen


class Inductor:
    """`torch.compile`'s own compiler, with all of its modes and options."""

    name = "warmgraph"

    def options(self, mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
        return inductor_options(mode, options)

    def settings(self) -> Mapping[str, Any]:
        return {}

    def refusal(self) -> Bypass | None:
        if compat.freezing() and compat.inductor_config.freezing_discard_parameters:
            return Bypass(Reason.FREEZING, "the weights are taken away; set freezing_discard_parameters=False")
        if compat.freezing() and is_to_be_saved():
            return Bypass(Reason.FREEZING, "a result that is written to a file has no weights to make its constants of")
        return None

    def compile(self, gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any], told: OnSkip) -> Run:
        # Whatever is not where we listen (in a torch that nobody read), the graph is compiled.
        attempt("tables", False, import_inductor)
        attempt("skip", False, hear_partitions)
        attempt("tuning", False, hear_bundling)
        if compat.freezing():
            from ..torch_api.generated_code.frozen import keep_frozen  # few graphs are, here and below

            attempt("freezing", False, keep_frozen)
        return compat.compile_fx(gm, inputs, patches)

    def pack(self, compiled: Compiled, key: Key) -> Packed:
        """Kernels that are still being built are waited for."""
        if compiled.kernels and not key.uses_cpu:
            raise NotSerialisable("C++ kernels in a graph whose key does not speak of the CPU")
        result, making = _without_constants(compiled.result)
        result, texts = _without_texts(result)
        graphs = [h.result for h in (result.compiled_fw, result.compiled_bw) if h is not None]
        kept = ("_serialized_original_gm", "_original_gm")  # the latter still there on torch 2.12
        if any(getattr(graph, name, None) is not None for graph in graphs for name in kept):
            raise NotSerialisable("wrap_inductor_compiled_regions keeps a graph as a pickle of its own")
        # Parsing their source again would be a third of a load.
        bytecode = {g.cache_key: dump_module(g.source_code) for g in graphs if isinstance(g, compat.CompiledFxGraph)}
        files = built_files(compiled.kernels).items()
        kernels = tuple((Role.CPP_KERNEL, name, Path(path).read_bytes()) for name, path in files)
        return Packed(result, texts, bytecode, (*kernels, *making))

    def unpack(self, payload: Payload, hit: Hit, request: Request) -> tuple[Any, Any]:
        result, rename = payload.result, renamer(hit.entry.symbols, request.key.slots)
        with_classes(result, request.gm)
        forward, backward = result.compiled_fw, result.compiled_bw
        if backward is None:
            return _Graph(forward.result, payload, rename, frozen=_frozen(hit, request)), None
        return _Graph(forward.result, payload, rename), _Backward(
            backward.result,
            payload,
            rename,
            backward_state_indices=backward.backward_state_indices,
            num_symints_saved_for_bw_=backward.num_symints_saved_for_bw_,
            without_cudagraphs=_backward_without_cudagraphs(request.gm),
            donated=take_donated(result),
        )

    def without_cudagraphs(self) -> contextlib.AbstractContextManager[Any]:
        return patched_settings({"triton.cudagraphs": False})


def _without_constants(result: Any) -> tuple[Any, tuple[tuple[Role, str, bytes], ...]]:
    if isinstance(result.compiled_fw.result, compat.CompiledFxGraph):
        return result, ()
    from .frozen_weights import without_constants

    return without_constants(result)


def _frozen(hit: Hit, request: Request) -> Frozen | None:
    if "constants" not in hit.blobs:
        return None
    from .frozen_weights import constants_of

    return constants_of(hit.blobs["constants"], request.gm)


# --- out of a result ----------------------------------------------------------------------------------

_GRAPH_TEXTS = (
    "runnable_graph_str",
    "inductor_post_grad_graph_str",
    "inductor_provenance_mapping_str",
    "inductor_provenance_stack_traces_str",
)


def _without_texts(result: Any) -> tuple[Any, dict[str, str]]:
    """A copy of `result` without what no load reads, and of that what people read."""
    texts: dict[str, str] = {}
    result = copy.copy(result)
    result.forward_time_taken_ns = result.backward_time_taken_ns = 0  # ranks that compile the same keep the same bytes
    for side in ("compiled_fw", "compiled_bw"):
        holder = getattr(result, side)
        if holder is None or not isinstance(holder.result, compat.CompiledFxGraph):
            continue
        holder = copy.copy(holder)
        holder.result = graph = copy.copy(holder.result)
        setattr(result, side, holder)
        graph.cache_linemap = None
        attempt("kernels", False, without_launchers, graph)
        attempt("kernels", False, binaries_alone, graph)
        without_classes(graph)
        # The rest of these are for compiling; one of them drags Inductor's decompositions into every load.
        graph.fx_kwargs = {name: value for name, value in graph.fx_kwargs.items() if not callable(value)}
        if for_current_device():
            without_device(graph)
        for name in _GRAPH_TEXTS:
            if getattr(graph, name, None):
                texts[f"{side}.{name}"] = getattr(graph, name)
                setattr(graph, name, "")
    if for_current_device():
        texts = {name: text_without_device(text) for name, text in texts.items()}
    return result, texts


# --- and back -----------------------------------------------------------------------------------------


class _Graph(Struct):
    """One compiled graph of a result; torch calls `load`, then `post_compile`."""

    graph: Any
    payload: Payload
    rename: Callable[[str], str]
    example_inputs: Sequence[Any] = field(default_factory=list)
    frozen: Frozen | None = None

    def load(self, example_inputs: Sequence[Any]) -> Any:
        self.example_inputs = example_inputs
        return self.graph

    def post_compile(self, graph: Any, fx_config: dict[str, Any]) -> Any:
        constants = self.frozen.constants if self.frozen else compat.CompiledFxGraphConstants()
        if isinstance(graph, compat.CompiledFxGraph):
            _attach_code(graph, constants, self.payload, self.rename)
            if graph.cudagraph_info is None and not graph.disabled_cudagraphs_reason:
                # Inductor compiled it as one without CUDA graphs (cpp_wrapper does); it has nothing to make them from.
                fx_config = {**fx_config, "cudagraphs": compat.BoxedBool(False)}
        graph.post_compile(self.example_inputs, constants, fx_config)
        policy = _cudagraph_policy()
        run = graph if policy is None else policy.wrap_output(graph)
        return self.frozen.taking(run) if self.frozen else run


class _Backward(_Graph):
    backward_state_indices: list[int] = field(default_factory=list)
    num_symints_saved_for_bw_: int = 0
    without_cudagraphs: bool = False
    donated: tuple[int, ...] = ()

    def post_compile(self, graph: Any, fx_config: dict[str, Any]) -> Any:
        if self.without_cudagraphs:  # override_cudagraphs(bwd=False): its own decision, as in a compile
            fx_config = {**fx_config, "cudagraphs": compat.BoxedBool(False)}
        # `slots` recreate the class, so the zero-argument super() has no cell to look in.
        compiled = spared(_Graph.post_compile(self, graph, fx_config), self.donated)
        return torch.compiler.disable(compiled, reason="do not trace generated backwards pass")


def _backward_without_cudagraphs(gm: GraphModule) -> bool:
    annotation = gm.meta.get("cudagraph_annotation")
    return annotation is not None and annotation.bwd is False


def _cudagraph_policy() -> Any:
    return getattr(compat.inductor_config, "cudagraph_policy", None)


def _attach_code(graph: Any, constants: Any, payload: Payload, rename: Callable[[str], str]) -> None:
    """Run the generated module and hang its functions on `graph`, as torch's loader does."""
    if graph.output_strides is not None:
        graph.output_strides = [
            None if strides is None else tuple(rename(str(stride)) for stride in strides)
            for strides in graph.output_strides
        ]
    attempt("tuning", False, apply_autotune_choice, graph)
    if for_current_device():
        to_current_device(graph)
    emit_triton(graph)
    module = run_module(graph.source_code, payload.bytecode.get(graph.cache_key), constants.unwrap(graph))
    graph.current_callable = module.call
    graph.recursively_apply_fns = getattr(module, "recursively_apply_fns", None)
    graph.compiled_fn_runner = getattr(module, "runner", None)
    count_as_compiled(graph)
