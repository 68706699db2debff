"""Compiling a graph beside a running step: in another thread, with no trace in the step. Judges nothing."""

from __future__ import annotations

import contextlib
import copy
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import torch
from msgspec import Struct
from torch.fx import GraphModule
from warmgraph.hashing import ambient_state

from ..torch_api import compile as compat
from ..torch_api import patches
from ..torch_api.capture import capture_result
from ..typing import Compiler
from .background import stop_point


def impossible_here() -> str | None:
    """Why this torch cannot compile beside a step; None where it can."""
    if compat.settings_are_per_thread():
        return None
    # 2.11: a fresh compile would lack what this graph was compiled with, and its own settings would be the step's, too.
    return f"torch {torch.__version__} has one set of settings for all threads, and a fresh compile needs its own"


def static_fakes(inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """A fake mode of its own and the inputs in it, with their sizes as they are. Holds none of their memory."""
    mode = compat.fake_mode()
    fakes = [mode.from_tensor(v, static_shapes=True, trace=False) if isinstance(v, torch.Tensor) else v for v in inputs]
    return mode, fakes


def compile_isolated(
    compiler: Compiler, gm: GraphModule, mode: Any, fakes: Sequence[Any]
) -> tuple[Callable[..., Any], frozenset[int]]:
    """`compiler` on the graph as it is now, without any cache; and the positions of inputs that it writes to.

    Without CUDA graphs, so that neither copies of inputs nor a second recording is needed.
    Raises what the compiler raises, and ValueError when it does not say what it made.
    """
    again = GraphModule(gm, copy.deepcopy(gm.graph))  # its passes may change the graph, which is still to be run
    context = compat.tracing(compat.TracingContext(mode))
    with compat.compile_lock(), context, _unseen(), compiler.without_cudagraphs(), capture_result() as results:
        run = compiler.compile(again, fakes, {}, lambda reason, detail: None)
    result = results.outermost()
    if result is None:
        raise ValueError(results.problem or "AOTAutograd did not hand over a result")
    return run, compat.mutated_inputs(result)


_isolated = threading.local()


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """While open, what torch does on this thread leaves no trace in what others are doing."""
    patches.install("seeds", _leave_seeds_alone)
    patches.install("tracer", _trace_in_private)
    for name in ("stop: phases", "stop: traced nodes", "stop: lowered nodes"):
        patches.install(name, _stop_there)
    _isolated.on = True
    try:
        yield
    finally:
        _isolated.on = False


def _leave_seeds_alone(original: Callable[[], Any]) -> Callable[[], Any]:
    """torch's compilers end by putting the random state back to what it was; the step has moved on by then."""

    def preserve_rng_state() -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if getattr(_isolated, "on", False) else original()

    return preserve_rng_state


def _trace_in_private(original: Callable[..., Any]) -> Callable[..., Any]:
    """A tracer says that it is at work in a global of its module, and compiled functions refuse to run meanwhile.

    The step would be taken down by it. So a trace apart writes into globals of its own.
    """
    inner = inspect.unwrap(original)  # Dynamo has wrapped it, so as not to trace it

    def trace(self: Any, *arguments: Any, **named: Any) -> Any:
        if not getattr(_isolated, "on", False):
            return original(self, *arguments, **named)
        own = dict(inner.__globals__)
        private = FunctionType(inner.__code__, own, inner.__name__, inner.__defaults__, inner.__closure__)
        private.__kwdefaults__ = inner.__kwdefaults__
        return torch.compiler.disable(private)(self, *arguments, **named)

    return trace


def _stop_there(original: Callable[..., Any]) -> Callable[..., Any]:
    """Where a compile can be given up. Called at each phase and node: of GPT-2's compile no 2 s are without."""

    def stop_or_go_on(*arguments: Any, **named: Any) -> Any:
        if getattr(_isolated, "on", False):
            stop_point()
        return original(*arguments, **named)

    return stop_or_go_on


class Ambient(Struct, frozen=True):
    """The modes of a thread that tracing depends on, to be entered in another."""

    grad: bool
    inference: bool
    autocast: tuple[tuple[str, torch.dtype], ...]
    device: torch.device

    @classmethod
    def now(cls) -> Ambient:
        autocast = tuple(ambient_state(uses_cpu=False)["autocast"].items())
        device = torch.get_default_device()
        return cls(torch.is_grad_enabled(), torch.is_inference_mode_enabled(), autocast, device)

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            stack.enter_context(torch.inference_mode(self.inference))
            stack.enter_context(torch.set_grad_enabled(self.grad))
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype=dtype))
            if self.device.type != "cpu":
                stack.enter_context(self.device)
            yield
