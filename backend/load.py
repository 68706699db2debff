"""Bytes back to a callable: no compiler, no AOTAutograd, no Inductor lowering. Compiles nothing.

Follows torch's own load path (`BundledAOTAutogradResult.wrap_post_compile`) with two differences: the
C++ kernels come as `.so` files, and neither Inductor's lowerings nor its code generator is imported.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule
from warmgraph.cache import Hit
from warmgraph.hashing import Key, lifted_tensors

from . import guards
from . import torch_compat as compat
from .donated import spared, take_donated
from .generated import Payload, run_module
from .kernels import serving
from .unpickle import unpickle


@dataclass(slots=True)
class _Graph:
    """One compiled graph of a result; torch calls `load`, then `post_compile`."""

    graph: Any
    payload: Payload
    rename: Callable[[str], str]
    example_inputs: Sequence[Any] = field(default_factory=list)

    def load(self, example_inputs: Sequence[Any]) -> Any:
        self.example_inputs = example_inputs
        return self.graph

    def post_compile(self, graph: Any, fx_config: dict[str, Any]) -> Any:
        constants = compat.CompiledFxGraphConstants()
        if isinstance(graph, compat.CompiledFxGraph):
            _attach_code(graph, constants, self.payload, self.rename)
        graph.post_compile(self.example_inputs, constants, fx_config)
        policy = _cudagraph_policy()
        return graph if policy is None else policy.wrap_output(graph)


@dataclass(slots=True)
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
        return torch._dynamo.disable(compiled, reason="do not trace generated backwards pass")


def load(hit: Hit, key: Key, gm: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """The callable that `hit` holds, ready for Dynamo. Adds the entry's guards to this compile.

    Raises whatever torch raises while loading; the caller treats all of it alike.
    """
    rename = _renamer(hit.entry.symbols, key.slots)
    payload = unpickle(hit.blobs["result"], [*lifted_tensors(gm).values(), *inputs])
    result = payload.result
    forward, backward = result.compiled_fw, result.compiled_bw
    result.compiled_fw = _Graph(forward.result, payload, rename)
    if backward is not None:
        result.compiled_bw = _Backward(
            backward.result,
            payload,
            rename,
            backward_state_indices=backward.backward_state_indices,
            num_symints_saved_for_bw_=backward.num_symints_saved_for_bw_,
            without_cudagraphs=_backward_without_cudagraphs(gm),
            donated=take_donated(result),
        )
    args = list(inputs)
    with serving(hit.files), _loading():
        compiled = result.wrap_post_compile(args, result.sanitized_aot_config, _fx_config(gm))
    _replay_alias_guards(payload.alias_guards, gm)
    return _entry_point(compiled, gm)


def mutated_by(hit: Hit, gm: GraphModule, inputs: Sequence[Any]) -> frozenset[int]:
    """Positions of the inputs that the code of `hit` writes to. Raises as `load` does."""
    payload = unpickle(hit.blobs["result"], [*lifted_tensors(gm).values(), *inputs])
    return compat.mutated_inputs(payload.result)


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """The surroundings in which torch loads a cached result; with no compile worker and no benchmark."""
    with (
        torch._dynamo.compiled_autograd._disable(),
        compat.functorch_config.patch(unlift_effect_tokens=True),
        compat.inductor_config.patch(compile_threads=1, bundle_triton_into_fx_graph_cache=True),
    ):
        yield


def _fx_config(gm: GraphModule) -> dict[str, Any]:
    """The mutable boxes through which forward and backward agree on CUDA graphs."""
    annotation = gm.meta.get("cudagraph_annotation")
    wanted = compat.inductor_config.triton.cudagraphs
    if annotation is not None and annotation.fwd is not None:
        wanted = annotation.fwd
    return {
        "cudagraphs": compat.BoxedBool(wanted),
        "boxed_forward_device_index": compat.BoxedDeviceIndex(None),
        "compile_region_name": None,
    }


def _backward_without_cudagraphs(gm: GraphModule) -> bool:
    annotation = gm.meta.get("cudagraph_annotation")
    return annotation is not None and annotation.bwd is False


def _cudagraph_policy() -> Any:
    return getattr(compat.inductor_config, "cudagraph_policy", None)


def _replay_alias_guards(stored: Sequence[Any], gm: GraphModule) -> None:
    """Guards on which inputs overlap, which AOTAutograd adds while compiling and torch's caches forget."""
    context = compat.tracing_context()
    if stored and context is not None:
        made = guards.guards_from_positions(stored, compat.input_sources(gm))
        guards.alias_guards(context).extend(made)


def _entry_point(compiled: Callable[..., Any], gm: GraphModule) -> Callable[..., Any]:
    lifted = list(lifted_tensors(gm).values())  # what AOTAutograd passes before the graph's inputs

    if lifted:

        def run(*args: Any) -> Any:
            return compiled([*lifted, *args])
    else:

        def run(*args: Any) -> Any:
            return compiled(list(args))

    return torch._dynamo.disable(run, reason="do not trace AOT-compiled graph")  # type: ignore[no-any-return]


def _renamer(theirs: Mapping[str, str], ours: Mapping[str, str]) -> Callable[[str], str]:
    """Turns the symbol names of the process that compiled into those of this one, through their slots."""
    here = {slot: name for name, slot in ours.items()}
    names = {name: here[slot] for slot, name in theirs.items() if slot in here and here[slot] != name}
    if not names:
        return lambda text: text
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
    return lambda text: pattern.sub(lambda found: names[found.group(1)], text)


def _attach_code(graph: Any, constants: Any, payload: Payload, rename: Callable[[str], str]) -> None:
    """Run the generated module and hang its functions on `graph`, as torch's loader does."""
    if graph.output_strides is not None:
        graph.output_strides = [
            None if strides is None else tuple(rename(str(stride)) for stride in strides)
            for strides in graph.output_strides
        ]
    compat.emit_triton(graph)
    module = run_module(graph.source_code, payload.bytecode.get(graph.cache_key), constants.unwrap(graph))
    graph.current_callable = module.call
    graph.recursively_apply_fns = getattr(module, "recursively_apply_fns", None)
    graph.compiled_fn_runner = getattr(module, "runner", None)
    compat.count_as_compiled(graph)
