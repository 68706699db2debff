"""What warmgraph relies on in torch beside the names that it imports: attributes, fields, parameters, settings.

Looked at once per process, before the first graph. Where something needed is gone or takes other arguments, graphs are
compiled as plain Inductor does, and one line says what; where something optional is, that feature is off.
`python -m warmgraph.backend.torch_api.surface` prints the differences for the torch at hand.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from .patches import PATCHES, Moved, check

_RESULT = "torch._functorch._aot_autograd.aot_autograd_result"
_SCHEMAS = "torch._functorch._aot_autograd.schemas"
_CACHE = "torch._functorch._aot_autograd.autograd_cache"
_OUTPUT = "torch._inductor.output_code"


class Need(Struct, frozen=True):
    """An object of torch's by module and path, and what it must have.

    parameters: with which its signature begins. fields: of a dataclass or class, as annotated. names: attributes.
    needed_for: None where nothing works without.
    """

    module: str
    path: str
    parameters: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    needed_for: str | None = None

    def __str__(self) -> str:
        return f"{self.module}.{self.path}" if self.path else self.module


SURFACE = (
    # keys
    Need(_CACHE, "AOTAutogradCache", names=("_filter_backed_symints",)),
    Need("torch._inductor.codecache", "FxGraphCache", names=("_check_can_cache",)),
    Need("torch._dynamo.config", "", names=("_custom_ops_profile",)),
    Need(
        "torch._C",
        "",
        names=(
            "_get_nnpack_enabled",
            "_get_overrideable_sdp_enabled",
            "_get_sdp_priority_order",
            "_get_sm_carveout_experimental",
        ),
    ),
    Need(
        "torch.distributed.distributed_c10d",
        "",
        names=("_get_default_group",),
        needed_for="how long ranks wait for each other",
    ),
    Need("torch._C._dynamo.guards", "", names=("compute_overlapping_tensors", "dict_version")),
    Need("torch.fx.node", "", names=("_side_effectful_functions",)),
    Need("torch.fx.experimental.symbolic_shapes", "ShapeEnv.evaluate_guards_expression", ("self", "code", "args")),
    Need(
        "torch.fx.experimental.symbolic_shapes",
        "ShapeEnv.produce_guards_expression",
        ("self", "placeholders", "guards"),
    ),
    # compiling
    Need("torch", "_TorchCompileInductorWrapper", ("mode", "options", "dynamic")),
    Need(_CACHE, "AOTAutogradCacheInfo", ("cache_key", "start_time_ns", "forward_symints")),
    Need("torch._dynamo.convert_frame", "", names=("compile_lock",)),
    Need(
        "torch._inductor.config",
        "_config",
        names=("fx_graph_cache", "bundle_triton_into_fx_graph_cache", "compile_threads", "cpp_wrapper", "freezing"),
    ),
    Need(
        "torch._functorch.config",
        "_config",
        names=(
            "bundled_autograd_cache",
            "force_non_lazy_backward_lowering",
            "enable_autograd_cache",
            "unlift_effect_tokens",
        ),
    ),
    # loading
    Need(
        _RESULT,
        "GenericAOTAutogradResult",
        fields=("compiled_fw", "compiled_bw", "guards_expr", "sanitized_aot_config", "runtime_metadata"),
    ),
    Need(_RESULT, "GenericAOTAutogradResult.wrap_post_compile", ("self", "args", "aot_config", "fx_config")),
    Need(
        _OUTPUT,
        "CompiledFxGraph",
        fields=(
            "current_callable",
            "recursively_apply_fns",
            "compiled_fn_runner",
            "cache_key",
            "source_code",
            "constants",
            "output_strides",
            "mutated_input_idxs",
            "device_idxs",
            "device_types",
            "disabled_cudagraphs_reason",
            "metrics_deltas",
            "counter_deltas",
            "cudagraph_info",
            "fx_kwargs",
            "partition_maps",
            "_triton_bundle",
        ),
    ),
    Need(_SCHEMAS, "ViewAndMutationMeta", fields=("input_info", "bw_donated_idxs")),
    Need(_SCHEMAS, "InputAliasInfo", fields=("mutates_data", "mutates_metadata")),
    Need("torch._dynamo.compiled_autograd", "", names=("_disable", "in_compiled_autograd_region")),
    Need("torch._dynamo.compiled_autograd", "", names=("Op", "ops"), needed_for="graphs of compiled autograd"),
    Need("torch.fx.graph_module", "", names=("reduce_graph_module",)),
    Need("torch._C._dynamo.guards", "", names=("_torchinductor_pyobject_tensor_data_ptr",), needed_for="C++ kernels"),
    # the rest
    Need("torch._dynamo.pgo", "FrameStateSizeEntry", fields=("scalar", "size", "stride"), needed_for="profiles"),
)
_NEEDED = ("try_load", "save", "kernels")  # of PATCHES


@functools.lru_cache(maxsize=1)
def broken() -> str | None:
    """The first thing that nothing works without and that this torch does not have; None where all is there."""
    return next((what for what, needed_for in differences() if needed_for is None), None)


def differences(*, everything: bool = False) -> Iterator[tuple[str, str | None]]:
    """(what is missing, what for; None where nothing works without).

    everything: also what would have to be imported for it.
    """
    for need in SURFACE:
        if need.needed_for is None or everything or need.module in sys.modules:
            yield from ((f"{need}: {what}", need.needed_for) for what in _missing(need))
    for name, patch in PATCHES.items():
        needed = name in _NEEDED
        if patch.parameters is not None and (needed or everything or patch.module in sys.modules):
            try:
                check(name)
            except Moved as moved:
                yield str(moved), None if needed else patch.needed_for


def _missing(need: Need) -> Iterator[str]:
    try:
        found: Any = importlib.import_module(need.module)
        for part in need.path.split(".") if need.path else ():
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        yield f"gone ({error})"
        return
    there = found if isinstance(found, dict) else {name for name in need.names if hasattr(found, name)}
    gone = [name for name in need.names if name not in there]
    annotated = {name for base in getattr(found, "__mro__", ()) for name in getattr(base, "__annotations__", ())}
    gone += [name for name in need.fields if name not in annotated]
    if gone:
        yield f"no {', '.join(gone)}"
    if need.parameters:
        try:
            takes = tuple(inspect.signature(found).parameters)
        except (TypeError, ValueError) as error:
            yield f"is another thing ({error})"
            return
        if takes[: len(need.parameters)] != need.parameters:
            yield f"takes ({', '.join(takes)}) and not ({', '.join(need.parameters)}, ...)"


def main() -> int:
    """Print what this process's torch has otherwise; 1 where something needed is."""
    import torch

    importlib.import_module(f"{__package__}.compile")  # names that are imported are checked by importing them

    found = list(differences(everything=True))
    for what, needed_for in found:
        sys.stdout.write(f"{'NEEDED' if needed_for is None else f'optional ({needed_for})'}: {what}\n")
    sys.stdout.write(f"torch {torch.__version__}: {len(found)} differences\n")
    return int(any(needed_for is None for _, needed_for in found))


if __name__ == "__main__":
    sys.exit(main())
