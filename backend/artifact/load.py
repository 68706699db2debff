"""Bytes back to a callable: no compiler, no AOTAutograd, no Inductor lowering. Compiles nothing.

Follows torch's own load path (`BundledAOTAutogradResult.wrap_post_compile`); what a compiler's code needs beside is
its own (`Compiler.unpack`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from warmgraph.cache import Hit
from warmgraph.hashing import lifted_tensors

from ..torch_api import compile as compat
from ..torch_api.entrances.compiled_autograd import TAKES_LIST
from ..torch_api.generated_code.wrapper_module import Payload
from ..torch_api.loading import (
    is_to_be_saved,
    no_compiled_autograd,
    no_trace_around,
    serialisable,
    with_graph_of_torch,
)
from ..torch_api.opaque import with_classes
from ..torch_api.ranks.places import with_groups_of
from ..typing import Compiler, Request
from . import guards
from .cpp_kernels import serving
from .unpickle import unpickle


def load(hit: Hit, request: Request, compiler: Compiler) -> Callable[..., Any]:
    """The callable that `hit` holds, ready for Dynamo. Adds the entry's guards to this compile.

    Raises whatever torch raises while loading; the caller treats all of it alike.
    """
    payload = _payload(hit, request, request.inputs)
    compiled = _with_code(payload, hit, request, compiler)
    _replay_alias_guards(payload.alias_guards, request.gm)
    run = _entry_point(compiled, [*lifted_tensors(request.gm).values()])
    return serialisable(run, lambda: _as_compiled(hit, request)) if is_to_be_saved() else run


def load_alone(
    hit: Hit, request: Request, compiler: Compiler, lifted: list[torch.Tensor], wrapping: Sequence[torch.Tensor]
) -> Callable[..., Any]:
    """As `load`, of a graph that nobody traced in this process (a restored frame's): `request` has an empty one.

    lifted: the tensors that the graph holds (an optimizer's). wrapping: inputs of the frame that wrap others. The
    frame's own guards hold all that the entry's say.
    """
    payload = _payload(hit, request, wrapping)
    payload.result.guards_expr = None
    with no_trace_around():
        compiled = _with_code(payload, hit, request, compiler)
    return _entry_point(compiled, lifted)


def _with_code(payload: Payload, hit: Hit, request: Request, compiler: Compiler) -> Callable[..., Any]:
    """AOTAutograd's callable around the code that `compiler` unpacks."""
    result = payload.result
    result.compiled_fw, result.compiled_bw = compiler.unpack(payload, hit, request)
    with serving(hit.files), _loading():
        config = _fx_config(request.gm)
        return result.wrap_post_compile(list(request.inputs), result.sanitized_aot_config, config)  # type: ignore[no-any-return]


def _as_compiled(hit: Hit, request: Request) -> Any:
    """AOTAutograd's result as a compile would hand it over, for torch to write to a file."""
    result = _payload(hit, request, request.inputs).result
    with_classes(result, request.gm)
    return with_graph_of_torch(result)


def mutated_by(hit: Hit, request: Request) -> frozenset[int]:
    """Positions of the inputs that the code of `hit` writes to. Raises as `load` does."""
    return compat.mutated_inputs(_payload(hit, request, request.inputs).result)


def _payload(hit: Hit, request: Request, inputs: Sequence[Any]) -> Payload:
    payload = unpickle(hit.blobs["result"], [*lifted_tensors(request.gm).values(), *inputs])
    ours = list(request.key.groups)
    theirs = json.loads(str(hit.entry.facts.get("groups", "[]")))
    return payload if theirs == ours else with_groups_of(payload, theirs, ours)


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """The surroundings in which torch loads a cached result; with no compile worker and no benchmark."""
    with (
        no_compiled_autograd(),
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


def _replay_alias_guards(stored: Sequence[Any], gm: GraphModule) -> None:
    """Guards on which inputs overlap, which AOTAutograd adds while compiling and torch's caches forget."""
    context = compat.tracing_context()
    if stored and context is not None:
        made = guards.guards_from_positions(stored, compat.input_sources(gm))
        guards.alias_guards(context).extend(made)


def _entry_point(compiled: Callable[..., Any], lifted: list[torch.Tensor]) -> Callable[..., Any]:
    """lifted: what AOTAutograd passes before the graph's inputs."""
    if lifted:

        def run(*args: Any) -> Any:
            return compiled([*lifted, *args])
    else:

        def run(*args: Any) -> Any:
            return compiled(list(args))

        setattr(run, TAKES_LIST, compiled)

    return torch.compiler.disable(run, reason="do not trace AOT-compiled graph")  # type: ignore[no-any-return]
