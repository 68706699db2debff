"""One compile as bytes: AOTAutograd's result, the graphs as text, the kernels. Made here, loaded elsewhere.

The result is torch's `BundledAOTAutogradResult` (forward and backward in one). What a load does not need
(readable graphs, logs) is kept apart, so that a hit reads little.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgpack  # type: ignore[import-untyped]
from torch.fx import GraphModule
from warmgraph.cache import Role
from warmgraph.hashing import Key, lifted_tensors

from . import guards
from . import torch_compat as compat
from .capture import capture_result
from .generated import Payload, dump_module
from .kernels import built_files, noting
from .unpickle import NotAllowed, unpickle


class NotSerialisable(Exception):
    """The compile worked and its result cannot be kept. `str()` says what is in the way."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """guards: over the graph's symbolic inputs, or None. blobs: (role, name, content)."""

    guards: str | None
    blobs: tuple[tuple[Role, str, bytes], ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A fresh compile: the callable to run now, and what is needed to keep it.

    alias_guards: those that AOTAutograd added, on `sources` (one per input). lost_guards: those that an entry
    cannot hold. problem: why there is no result, if it is known. inputs: of the graph, lifted ones first.
    """

    run: Callable[..., Any]
    result: Any | None
    kernels: Mapping[str, Callable[[], Any]]
    alias_guards: Sequence[Any]
    sources: Sequence[Any]
    lost_guards: Sequence[str]
    problem: str | None
    inputs: Sequence[Any]


def compile_kept(gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any]) -> Compiled:
    """Compile with Inductor and keep hold of what it made. Raises what Inductor raises."""
    context = compat.tracing_context()
    env = compat.shape_env(inputs)
    before, guards_before = len(guards.alias_guards(context)), guards.guard_count(env)
    with noting() as kernels, capture_result() as results:
        run = compat.compile_fx(gm, inputs, patches)
    return Compiled(
        run=run,
        result=results.outermost(),
        kernels=kernels,
        alias_guards=guards.alias_guards(context)[before:],
        sources=compat.input_sources(gm),
        lost_guards=guards.lost_guards(env, guards_before, inputs),
        problem=results.problem,
        inputs=[*lifted_tensors(gm).values(), *inputs],
    )


# Text that torch keeps with a result for logs and tlparse; (owner, field).
_RESULT_TEXTS = ("aot_joint_graph_str", "aot_forward_graph_str", "aot_backward_graph_str", "min_cut_info_str")
_GRAPH_TEXTS = (
    "runnable_graph_str",
    "inductor_post_grad_graph_str",
    "inductor_provenance_mapping_str",
    "inductor_provenance_stack_traces_str",
)


def pack(compiled: Compiled, key: Key) -> Artifact:
    """The bytes of a compile. Quick (a few milliseconds): called while the training step waits.

    Raises NotSerialisable.
    """
    if compiled.result is None:
        raise NotSerialisable(compiled.problem or "AOTAutograd did not hand over a result")
    if compiled.lost_guards:
        raise NotSerialisable(f"the code holds only under guards that no entry can say: {compiled.lost_guards}")
    if compiled.kernels and not key.uses_cpu:
        raise NotSerialisable("C++ kernels in a graph whose key does not speak of the CPU")
    try:
        alias_guards = guards.guards_to_positions(compiled.alias_guards, compiled.sources)
    except (KeyError, NotImplementedError) as error:
        raise NotSerialisable(f"a guard on overlapping inputs that no entry can say: {error}") from error
    result = copy.copy(compiled.result)
    texts = _take_texts(result)
    blobs = [
        (Role.AOT_RESULT, "result", _pickled(Payload(result, alias_guards, _bytecode(result)), compiled.inputs)),
        (Role.PART_TEXTS, "parts", msgpack.packb(key.texts())),
        (Role.GRAPH_TEXT, "graphs", msgpack.packb(texts, unicode_errors="surrogatepass")),
    ]
    for name, path in built_files(compiled.kernels).items():
        blobs.append((Role.CPP_KERNEL, name, Path(path).read_bytes()))
    return Artifact(result.guards_expr, tuple(blobs))


def _take_texts(result: Any) -> dict[str, str]:
    """Move the readable graphs out of `result` (a shallow copy) and its compiled graphs."""
    texts: dict[str, str] = {}
    for name in _RESULT_TEXTS:
        if getattr(result, name, None):
            texts[name] = getattr(result, name)
            setattr(result, name, None)
    for side in ("compiled_fw", "compiled_bw"):
        holder = getattr(result, side)
        if holder is None or not isinstance(holder.result, compat.CompiledFxGraph):
            continue
        holder = copy.copy(holder)
        holder.result = graph = copy.copy(holder.result)
        setattr(result, side, holder)
        graph.cache_linemap = None
        # The rest of these are for compiling; one of them drags Inductor's decompositions into every load.
        graph.fx_kwargs = {name: value for name, value in graph.fx_kwargs.items() if not callable(value)}
        for name in _GRAPH_TEXTS:
            if getattr(graph, name, None):
                texts[f"{side}.{name}"] = getattr(graph, name)
                setattr(graph, name, "")
    return texts


def _graphs(result: Any) -> list[Any]:
    holders = (result.compiled_fw, result.compiled_bw)
    return [h.result for h in holders if h is not None and isinstance(h.result, compat.CompiledFxGraph)]


def _bytecode(result: Any) -> dict[str, bytes]:
    """Generated modules, compiled: parsing their source again would be a third of a load."""
    return {graph.cache_key: dump_module(graph.source_code) for graph in _graphs(result)}


def _pickled(payload: Payload, inputs: Sequence[Any]) -> bytes:
    """The payload's bytes, read back once: what a hit would refuse is not kept, or it would fail on each."""
    if any(getattr(graph, "_serialized_original_gm", None) is not None for graph in _graphs(payload.result)):
        raise NotSerialisable("wrap_inductor_compiled_regions keeps a graph as a pickle of its own")
    try:
        with compat.no_dispatch_modes():
            data = pickle.dumps(payload, protocol=5)
    except (pickle.PicklingError, TypeError, AttributeError, NotImplementedError) as error:
        raise NotSerialisable(f"{_culprit(payload.result)}: {error}") from error
    try:
        with compat.no_dispatch_modes():
            unpickle(data, inputs)
    except NotAllowed as error:
        raise NotSerialisable(str(error)) from error
    return data


def _culprit(result: Any) -> str:
    """Which field of the result does not pickle."""
    fields: dict[str, Any] = vars(result)
    for name, value in fields.items():
        try:
            pickle.dumps(value)
        except Exception:  # noqa: BLE001 - any failure names the field
            return name
    return "the result"
