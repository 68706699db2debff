"""What a hit asks of torch while it is loaded. Read on 2.11 to 2.13."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._dynamo
from torch._functorch._aot_autograd.aot_autograd_result import serialize_graph_module
from torch._guards import TracingContext, tracing
from torch._inductor.metrics import CachedMetricsHelper
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .compile import counters, functorch_config, output_code_log


def no_compiled_autograd() -> contextlib.AbstractContextManager[Any]:
    return torch._dynamo.compiled_autograd._disable()  # type: ignore[no-any-return]


@contextlib.contextmanager
def no_trace_around() -> Iterator[None]:
    """A tracing context with nothing in it, where torch asks for one and nothing is traced."""
    with tracing(TracingContext(FakeTensorMode(shape_env=ShapeEnv()))):
        yield


def is_to_be_saved() -> bool:
    """Whether torch will write what this compile gives to a file: `aot_compile`, its precompilation."""
    return bool(functorch_config.bundled_autograd_cache and functorch_config.force_autograd_cache)


def serialisable(run: Callable[..., Any], result: Callable[[], Any]) -> Callable[..., Any]:
    """`run` with what torch asks when it writes a compiled function to a file. result: gives AOTAutograd's."""
    run.serialize = result  # type: ignore[attr-defined]
    return run


def with_graph_of_torch(result: Any) -> Any:
    """`result`, whose backward as a graph is made by torch's own function, and not by the unpickler's."""
    if result.serialized_bw_module is not None:
        result.serialized_bw_module = serialize_graph_module(result.serialized_bw_module.deserialize())
    return result


def rebuild_tensor(storage: Any, *args: Any) -> torch.Tensor:
    """A tensor as `torch.save` wrote it. Newer dtypes come with an untyped storage, and the dtype as an argument."""
    typed = isinstance(storage, torch.TypedStorage)
    rebuild = torch._utils._rebuild_tensor_v2 if typed else torch._utils._rebuild_tensor_v3
    return rebuild(storage, *args)


def variables_of_kernels() -> dict[str, str]:
    """Environment variables that a C++ kernel's generated init function reads: the way to a tensor's memory."""
    pointer = torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr
    return {"_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR": str(pointer)}


def count_as_compiled(graph: Any) -> None:
    """Keep torch's own counters as they would be after a compile."""
    CachedMetricsHelper.apply_deltas(graph.metrics_deltas)
    counters["inductor"] += graph.counter_deltas
    # Who asks for the code (`run_and_get_code`) has imported it.
    lowering: Any = getattr(sys.modules.get("torch._inductor.graph"), "GraphLowering", None)
    if (save := getattr(lowering, "save_output_code", None)) is not None:
        save(graph.source_code)
    output_code_log.debug("Output code (from warmgraph): \n%s", graph.source_code)
