"""Listens where torch decides about CUDA graphs, for the graph at hand (`watching`). Changes none of its decisions.

Each place is wrapped once per process, and only when it is needed: nothing of Inductor's compiler or of a GPU's runtime
is imported for it. All of them are off the fast path: a replay passes none.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule

from ..reporting.fail_open import Failure, attempt
from ..torch_api import compile as compat
from ..torch_api import cudagraph_trees as cudagraphs
from ..torch_api import patches
from .skips import Unrecorded, in_words, mutation
from .watching import Choices, CudagraphTracker, OnSkip, Placeholder

__all__ = ["CudagraphTracker", "hear_partitions", "hear_skips", "watch_here", "watching"]

_here = threading.local()


@contextlib.contextmanager
def watching(
    gm: GraphModule,
    told: OnSkip,
    choices: Choices | None = None,
    *,
    strict: bool = False,
    names: Sequence[str | None] | None = None,
) -> Iterator[None]:
    """While open, what this thread compiles and loads for `gm` is listened to; and later, what becomes of it.

    names: of its inputs, where `gm` stands for a graph that is not there.
    """
    made = attempt("skip", strict, _begin, gm, told, choices, strict, names)
    before = watch_here()
    _here.watch = None if isinstance(made, Failure) else made.value
    try:
        yield
    finally:
        _here.watch = before


def _begin(
    gm: GraphModule, told: OnSkip, choices: Choices | None, strict: bool, names: Sequence[str | None] | None
) -> CudagraphTracker:
    _hear_compiles()
    return CudagraphTracker(gm, told, choices, strict=strict, names=names)


def watch_here() -> CudagraphTracker | None:
    return getattr(_here, "watch", None)


# -- the places that are listened at


def _hear_compiles() -> None:
    patches.install("post_compile", _post_compile)
    patches.install("late_generation", cudagraphs.late_generation)
    if cudagraphs.scheduler_is_imported():
        hear_partitions()


def hear_partitions() -> None:
    """Imports Inductor's scheduler: for who compiles anyway."""
    patches.install("partitions", _graph_partition)


def hear_skips() -> None:
    """Imports the CUDA-graph trees: for what goes into them anyway."""
    patches.install("skips", _log_skip)


def _post_compile(original: Callable[..., None]) -> Callable[..., None]:
    def post_compile(graph: Any, inputs: Any, constants: Any, kwargs: Any) -> None:
        watch = watch_here()
        if watch is None:
            original(graph, inputs, constants, kwargs)
        else:
            watch.follow(original, graph, inputs, constants, kwargs)
            if kwargs["cudagraphs"]:
                attempt("skip", False, hear_skips)

    return post_compile


def _graph_partition(original: Callable[..., Any]) -> Callable[..., Any]:
    def graph_partition(scheduler: Any) -> Any:
        found = original(scheduler)
        watch = watch_here()
        if watch is not None and compat.inductor_config.triton.cudagraphs:
            attempt("skip", False, _note_partitions, watch, scheduler, *found)
        return found

    return graph_partition


def _note_partitions(watch: CudagraphTracker, scheduler: Any, partitions: Any, signatures: Any) -> None:
    left_out = (piece for piece, signature in zip(partitions, signatures, strict=True) if signature.skip_cudagraph)
    for node in (node for piece in left_out for node in piece):
        why = scheduler.should_partition(node)
        if why is not None:
            origins = cudagraphs.origins(node)
            op = " ".join(dict.fromkeys(str(one.target) for one in origins)) or node.get_name()
            stack = next((one.meta["stack_trace"] for one in origins if one.meta.get("stack_trace")), "")
            watch.notes.append(Unrecorded(why, op, stack))


def _log_skip(original: Callable[[str], None]) -> Callable[[str], None]:
    def log_cudagraph_skip_and_bump_counter(msg: str) -> None:
        # The trees say it once per function; which one is in the frame that says it (checked by a test).
        attempt("skip", False, _tell_of_function, msg, sys._getframe(1).f_locals)
        original(msg)

    return log_cudagraph_skip_and_bump_counter


def _tell_of_function(message: str, caller: Mapping[str, Any]) -> None:
    manager, function_id = caller["self"], caller["function_id"]
    function = manager.ids_to_funcs[function_id]
    carrier = next((one for one in function.placeholders if isinstance(one, Placeholder)), None)
    if carrier is None:
        return
    watch, backward = carrier.watch, cudagraphs.is_backward(manager.id_to_mode.get(function_id))
    if "mutated inputs" in message and "inputs" in caller:
        places = cudagraphs.unmanaged_mutations(manager, function, caller["inputs"])
        written = [_written(function.placeholders[place]) for place in places]
        skip = mutation(written, () if backward else watch.names())
    else:
        skip = in_words(message)
    watch.skipped(skip, backward=backward)


def _written(placeholder: Any) -> tuple[int | None, str, str | None]:
    position = placeholder.position if isinstance(placeholder, Placeholder) else None
    return position, placeholder.name, placeholder.mutating_use_stack_trace
