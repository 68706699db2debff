"""One function, timed: through one CUDA graph, or eagerly where none can be recorded. For benchmarks, not a backend.

Not CUDA-graph trees: one function, one recording, inputs of one size. After torch's `cudagraphs_inner`, which its
benchmarks used, with nested inputs and outputs, a reason where nothing can be recorded, and callers' inputs left alone.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct

CUDA_GRAPH = "cuda graph"
EAGER = "eager"
_WARM_UPS = 3  # as torch.cuda.make_graphed_callables: libraries choose and allocate in the first calls


class NotRecordable(Exception):
    """The function cannot be recorded in a CUDA graph; the message says why."""


class Prepared(Struct, frozen=True):
    """A function that is ready to be timed.

    run: takes `inputs`, or with copied inputs others of their sizes. how: `cuda graph` or `eager`; why: what kept it
    from being recorded, None when it was.
    """

    run: Callable[..., Any]
    inputs: tuple[Any, ...]
    how: str
    why: str | None = None

    def __call__(self) -> Any:
        return self.run(*self.inputs)


def prepare(
    function: Callable[..., Any],
    inputs: Sequence[Any],
    *,
    copy_inputs: bool = True,
    copy_outputs: bool = True,
    channels_last: bool = False,
) -> Prepared:
    """`function` in a CUDA graph; where that cannot be, as it is, with the reason. Raises what `function` raises.

    inputs: tensors, also nested in lists, tuples and dicts; everything else is a constant of the recording.
    copy_inputs: each call copies its inputs into memory of the recording. Without, the recording reads, and a function
    that mutates its inputs writes, the memory of `inputs`, and no others may be given.
    copy_outputs: each call returns tensors of its own, detached. Without, they are overwritten by the next call.
    channels_last: four- and five-dimensional inputs are laid out so; `Prepared.inputs` are the converted ones.
    """
    given = tuple(inputs)
    if channels_last:
        given = _map(_channels_last, given)
    own = _map(_own_memory, given) if copy_inputs else given
    why = None
    try:
        replay = _record(function, own)
    except NotRecordable as refusal:
        why = str(refusal)

        def replay() -> Any:
            return function(*own)

    def run(*inputs: Any) -> Any:
        if copy_inputs:
            _fill(own, inputs)
        elif len(inputs) != len(own) or any(one is not other for one, other in zip(inputs, own, strict=True)):
            raise ValueError("without copies of inputs only the inputs it was prepared with can be given")
        outputs = replay()
        return _map(_copy, outputs) if copy_outputs else outputs

    return Prepared(run, given, CUDA_GRAPH if why is None else EAGER, why)


def seconds_per_call(prepared: Prepared, calls: int) -> float:
    """The mean of `calls` calls in a row, in seconds: on a GPU between two events, else by the clock."""
    if not _devices(prepared.inputs, "cuda"):
        begin = time.perf_counter()
        for _ in range(calls):
            prepared()
        return (time.perf_counter() - begin) / calls
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    for _ in range(calls):
        prepared()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1000 / calls


def interleaved(ways: Mapping[str, Prepared], *, rounds: int, calls: int) -> dict[str, list[float]]:
    """Seconds per call of each way, one value per round; a round runs every way, so that noise meets all of them."""
    found: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, prepared in ways.items():
            found[name].append(seconds_per_call(prepared, calls))
    return found


def _record(function: Callable[..., Any], inputs: tuple[Any, ...]) -> Callable[[], Any]:
    """What replays `function` on `inputs`, whose memory it keeps using. Raises NotRecordable."""
    on_gpu = _devices(inputs, "cuda")
    if not on_gpu:
        raise NotRecordable("no input is on a GPU")
    if len(_devices(inputs)) > 1:
        raise NotRecordable("inputs are on several devices: " + ", ".join(sorted(map(str, _devices(inputs)))))
    with torch.cuda.device(on_gpu.pop()):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        graph = torch.cuda.CUDAGraph()
        try:
            # Outermost, so that the stream is put back also where the end of a failed recording raises.
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
                    function(*inputs)
                with _waiting_refused():
                    function(*inputs)
                outputs = _capture(graph, stream, function, inputs)
        finally:
            torch.cuda.current_stream().wait_stream(stream)
            torch.cuda.synchronize()

    def replay() -> Any:
        graph.replay()
        return outputs

    return replay


def _capture(
    graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream, function: Callable[..., Any], inputs: tuple[Any, ...]
) -> Any:
    try:
        # Only this thread's calls count: another may be writing to the cache or compiling.
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            return function(*inputs)
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        raise NotRecordable(f"recording failed: {str(error).splitlines()[0]}") from error


@contextlib.contextmanager
def _waiting_refused() -> Iterator[None]:
    """A function that waits for the GPU is found out before it breaks a recording, which is hard to recover from."""
    before = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "a prototype feature"
        torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except torch.OutOfMemoryError:
        raise
    except RuntimeError as error:
        if "synchroniz" not in str(error):
            raise
        raise NotRecordable(f"it waits for the GPU: {str(error).splitlines()[0]}") from error
    finally:
        torch.cuda.set_sync_debug_mode(before)


def _map(change: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """`value` with its tensors changed. Tuples with names come back as plain ones."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        items = [_map(change, item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {name: _map(change, item) for name, item in value.items()}
    return value


def _tensors(value: Any) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    _map(found.append, value)
    return found


def _devices(value: Any, type: str | None = None) -> set[torch.device]:
    return {tensor.device for tensor in _tensors(value) if type in (None, tensor.device.type)}


def _channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if tensor.dim() not in formats:
        return tensor
    laid_out = tensor.detach().contiguous(memory_format=formats[tensor.dim()])
    return laid_out.requires_grad_(tensor.requires_grad)


def _own_memory(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, sizes and strides in other memory; also of an expanded tensor."""
    own = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    _copy_into(own, tensor.detach())
    return own.requires_grad_(tensor.requires_grad)


def _fill(own: tuple[Any, ...], given: tuple[Any, ...]) -> None:
    ours, theirs = _tensors(own), _tensors(given)
    if [tensor.shape for tensor in ours] != [tensor.shape for tensor in theirs]:
        raise ValueError(
            "it was prepared for inputs of sizes "
            f"{[tuple(tensor.shape) for tensor in ours]} and given {[tuple(tensor.shape) for tensor in theirs]}"
        )
    with torch.no_grad():
        for one, other in zip(ours, theirs, strict=True):
            _copy_into(one, other)


def _copy_into(own: torch.Tensor, other: torch.Tensor) -> None:
    """Values of `other` into `own`, of the same sizes. What an expanded tensor repeats is written once."""
    for dim in range(own.dim()):
        if own.stride(dim) == 0 and own.size(dim) > 1:
            if other.stride(dim) != 0:
                raise ValueError(f"it was prepared for an input expanded in dimension {dim} and given one that is not")
            own, other = own.narrow(dim, 0, 1), other.narrow(dim, 0, 1)
    own.copy_(other)


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone()
