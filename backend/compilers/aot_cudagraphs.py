"""The compiler of `warmgraph_cudagraphs`: none. AOTAutograd's graphs run as they are, in CUDA graphs where they can.

What torch's backend `cudagraphs` does, without Inductor. Kept is the graph itself, as data (`graph_data`), beside
AOTAutograd's result; forward and backward each a blob of its own.
"""

from __future__ import annotations

import contextlib
import contextvars
import copy
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct, field
from torch.fx import GraphModule
from warmgraph.cache import Hit, Reason, Role
from warmgraph.hashing import Key, changes_metadata, graph_modules

from ..cudagraphs.input_mutation import mutates_constants
from ..cudagraphs.listening import hear_skips, watch_here
from ..cudagraphs.recordable import Facts, Side, device_index, facts_of, verdict
from ..cudagraphs.skips import Skip
from ..cudagraphs.trees import after_recorded_forward, boxed, recorded
from ..cudagraphs.watching import CudagraphTracker
from ..reporting.fail_open import attempt
from ..torch_api import compile as compat
from ..torch_api import cudagraph_trees as cudagraphs
from ..torch_api.capture import is_capturing
from ..torch_api.generated_code.wrapper_module import Payload
from ..torch_api.settings import inductor_options
from ..typing import Bypass, Compiled, NotSerialisable, OnSkip, Packed, Request, Run
from .graph_codec import BadGraph, dump_graph, load_graph

_off: contextvars.ContextVar[bool] = contextvars.ContextVar("warmgraph_without_cudagraphs", default=False)


class EagerCode(cudagraphs.OutputCode):  # type: ignore[misc]  # torch's class is untyped
    """A graph of AOTAutograd's as its compiler returns it. places: of stack traces, in the graph that Dynamo traced."""

    def __init__(self, gm: GraphModule, facts: Facts, places: Mapping[str, int], run: Run) -> None:
        super().__init__()
        self.gm, self.facts, self.places = gm, facts, places
        self._run = run
        self._boxed_call = True  # on the instance: torch's wrappers copy its `__dict__`

    def __call__(self, inputs: Sequence[Any]) -> Any:
        return self._run(inputs)

    def prepare_for_serialization(self) -> None:
        """Nothing here is pickled; `pack` takes it out of the result."""

    def post_compile(self, *_: Any) -> None: ...

    def set_triton_bundle(self, triton_bundle: Any) -> None: ...


class CudaGraphs:
    """Takes Inductor's modes and options, of which only what they say on CUDA graphs has an effect."""

    name = "warmgraph_cudagraphs"

    def options(self, mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
        return inductor_options(mode, options)

    def settings(self) -> Mapping[str, Any]:
        return {"dynamo.cudagraph_backend_keep_input_mutation": cudagraphs.keeps_input_mutations()}

    def refusal(self) -> Bypass | None:
        if compat.inductor_config.triton.cudagraph_or_error:  # an error here would be taken for one of the entry
            return Bypass(Reason.UNSUPPORTED_MODE, "triton.cudagraph_or_error is set")
        return None

    def compile(self, gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any], told: OnSkip) -> Run:
        places = {trace: place for place, trace in reversed(list(enumerate(_traces(gm)))) if trace}
        sides, kept = _Sides(gm, told, dict(patches)), is_capturing()

        def compiled(side: Side, aot: GraphModule, _: Sequence[Any]) -> Run:
            aot.graph.set_codegen(cudagraphs._BoxedCodeGen())
            aot.recompile()
            facts = facts_of(aot, side)
            run = sides.run(aot, facts, side)
            return EagerCode(aot, facts, places, run) if kept else run

        names: dict[str, Side] = {"fw": "forward", "bw": "backward", "inference": "inference"}
        compilers = {f"{name}_compiler": functools.partial(compiled, side) for name, side in names.items()}
        # A new storage for an input cannot be given after the graph: torch's `cudagraphs` refuses it, or crashes.
        keep = cudagraphs.keeps_input_mutations() or changes_metadata(gm)
        return cudagraphs.aot_compile(gm, inputs, compilers, keep_mutations=keep, kept=EagerCode if kept else None)

    def pack(self, compiled: Compiled, key: Key) -> Packed:
        result: Any = copy.copy(compiled.result)
        if result.runtime_metadata.tokens:
            raise NotSerialisable("the order of its side effects is kept by tokens")
        blobs = []
        for attribute, name in (("compiled_fw", "forward"), ("compiled_bw", "backward")):
            holder = copy.copy(getattr(result, attribute))
            if holder is not None:
                blobs.append((Role.GRAPH, name, _data(holder.result)))
                holder.result = None
                setattr(result, attribute, holder)
        return Packed(result, {}, {}, tuple(blobs))

    def unpack(self, payload: Payload, hit: Hit, request: Request) -> tuple[Any, Any]:
        backward = payload.result.compiled_bw
        traces, sides = _traces(request.gm), _Sides(request.gm, request.report.skipped, dict(request.patches))
        forward = _Loaded(hit.blobs["forward"], traces, "inference" if backward is None else "forward", sides)
        if backward is None:
            return forward, None
        return forward, _LoadedBackward(
            hit.blobs["backward"],
            traces,
            "backward",
            sides,
            backward_state_indices=backward.backward_state_indices,
            num_symints_saved_for_bw_=backward.num_symints_saved_for_bw_,
        )

    @contextlib.contextmanager
    def without_cudagraphs(self) -> Iterator[None]:
        token = _off.set(True)
        try:
            yield
        finally:
            _off.reset(token)


def _traces(gm: GraphModule) -> list[str | None]:
    """Stack traces of the nodes that Dynamo traced. The same key has the same nodes in the same order."""
    return [node.meta.get("stack_trace") for module in graph_modules(gm) for node in module.graph.nodes]


def _data(code: Any) -> bytes:
    """Raises NotSerialisable, also if what is read back would not be the same program."""
    if not isinstance(code, EagerCode):
        raise NotSerialisable(f"AOTAutograd handed over a {type(code).__qualname__}")
    if (constant := mutates_constants(code.gm)) is not None:
        raise NotSerialisable(f"the graph writes to its constant {constant.target}")
    data = dump_graph(code.gm, code.facts.data(), code.places)
    try:
        again, facts = load_graph(data)
        Facts.of(facts, again)
    except (BadGraph, ValueError) as error:
        raise NotSerialisable(f"the graph cannot be read back: {error}") from error
    for path, module in again.named_modules():
        if isinstance(module, GraphModule) and module.code != code.gm.get_submodule(path).code:
            raise NotSerialisable(f"the graph {path} reads otherwise than it was written")
    return data


class _Loaded(Struct):
    """A stored graph; torch calls `load`, then `post_compile`."""

    data: bytes
    traces: Sequence[str | None]
    side: Side
    sides: _Sides

    def load(self, example_inputs: Sequence[Any]) -> tuple[GraphModule, Facts]:
        gm, facts = load_graph(self.data, self.traces)
        return gm, Facts.of(facts, gm)

    def post_compile(self, loaded: tuple[GraphModule, Facts], fx_config: Mapping[str, Any]) -> Run:
        return self.sides.run(*loaded, self.side)


class _LoadedBackward(_Loaded):
    backward_state_indices: list[int] = field(default_factory=list)
    num_symints_saved_for_bw_: int = 0

    def post_compile(self, loaded: tuple[GraphModule, Facts], fx_config: Mapping[str, Any]) -> Run:
        run = self.sides.run(*loaded, self.side)
        return torch.compiler.disable(run, reason="do not trace generated backwards pass")  # type: ignore[no-any-return]


class _Sides:
    """Forward and backward of one graph of Dynamo's, which agree on CUDA graphs. The forward is asked first."""

    def __init__(self, gm: GraphModule, told: OnSkip, patches: dict[str, Any]) -> None:
        self._annotation = gm.meta.get("cudagraph_annotation")
        self._watch = watch_here() or CudagraphTracker(gm, told)
        self._patches = patches
        self._off = _off.get()
        self._forward: int | None = None  # the GPU of a forward in CUDA graphs
        self._forward_skipped = False

    def run(self, gm: GraphModule, facts: Facts, side: Side) -> Run:
        """How `gm` runs from now on; tells why it does without CUDA graphs, if it does."""
        forward = gm.forward
        plain = boxed(lambda inputs: forward(inputs))
        backward = side == "backward"
        if self._off or (backward and self._forward_skipped):
            return plain
        if not backward:
            self._watch.inputs = len(gm.graph.find_nodes(op="placeholder"))
        with compat.inductor_config.patch(self._patches):  # a backward may be compiled long after its forward
            skip = self._disabled(backward) or verdict(gm, facts, () if backward else self._watch.names())
        if skip is not None:
            self._watch.skipped(skip, backward=backward)
            # torch itself is silent about graphs of the CPU alone.
            cudagraphs.count_skip(f"skipping cudagraphs due to {skip.detail}", aloud=_on_gpu(facts))
            self._forward_skipped = self._forward_skipped or not backward
            return plain if self._forward is None else after_recorded_forward(plain, self._forward)
        if side == "forward":
            self._forward = device_index(facts)
        attempt("skip", False, hear_skips)
        return recorded(gm, facts, side, self._watch.carried(cudagraphs.placeholders(gm)))

    def _disabled(self, backward: bool) -> Skip | None:
        annotation = self._annotation
        wanted = None if annotation is None else annotation.bwd if backward else annotation.fwd
        side = "bwd" if backward else "fwd"
        off = f"override_cudagraphs({side}=False) is around it"
        return Skip(Reason.SKIP_DISABLED, off) if wanted is False else None


def _on_gpu(facts: Facts) -> bool:
    return any(torch.device(device).type == "cuda" for device in facts.devices)
