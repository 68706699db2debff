"""Compiling a graph beside a running step: in another thread, with no trace in the step. Judges nothing."""

from __future__ import annotations

import contextlib
import contextvars
import copy
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch.fx import GraphModule
from warmgraph.hashing import ambient_state

from ..torch_api import compile as compat
from ..torch_api.capture import capture_result
from ..typing import Compiler


def impossible_here() -> str | None:
    """Why this torch cannot compile beside a step; None where it can."""
    setting = compat.inductor_config._config["triton.cudagraphs"]
    if isinstance(setting.user_override, contextvars.ContextVar):
        return None
    # 2.11: a fresh compile would lack what this graph was compiled with, and its own settings would be the step's, too.
    return f"torch {torch.__version__} has one set of settings for all threads, and a fresh compile needs its own"


def static_fakes(inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """A fake mode of its own and the inputs in it, with their sizes as they are. Holds none of their memory."""
    env = compat.symbolic_shapes.ShapeEnv()
    mode = torch._subclasses.FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(v, static_shapes=True, trace=False) if isinstance(v, torch.Tensor) else v for v in inputs]
    return mode, fakes


def compile_apart(
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


_apart = threading.local()


@contextlib.contextmanager
def _unseen() -> Iterator[None]:
    """While open, what torch does on this thread leaves no trace in what others are doing."""
    _leave_seeds_alone()
    _trace_in_private()
    _apart.on = True
    try:
        yield
    finally:
        _apart.on = False


def _leave_seeds_alone() -> None:
    """torch's compilers end by putting the random state back to what it was; the step has moved on by then."""
    original = compat.dynamo_utils.preserve_rng_state
    if hasattr(original, "_warmgraph"):
        return

    def preserve_rng_state() -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if getattr(_apart, "on", False) else original()

    preserve_rng_state._warmgraph = True  # type: ignore[attr-defined]
    for name, module in list(sys.modules.items()):  # several modules of torch have it under a name of their own
        if name.startswith("torch.") and vars(module).get("preserve_rng_state") is original:
            vars(module)["preserve_rng_state"] = preserve_rng_state


def _trace_in_private() -> None:
    """A tracer says that it is at work in a global of its module, and compiled functions refuse to run meanwhile.

    The step would be taken down by it. So a trace apart writes into globals of its own.
    """
    original = torch.fx.Tracer.trace
    if hasattr(original, "_warmgraph"):
        return

    inner = inspect.unwrap(original)  # Dynamo has wrapped it, so as not to trace it

    @functools.wraps(original)
    def trace(self: Any, *arguments: Any, **named: Any) -> Any:
        if not getattr(_apart, "on", False):
            return original(self, *arguments, **named)
        own = dict(inner.__globals__)
        private = FunctionType(inner.__code__, own, inner.__name__, inner.__defaults__, inner.__closure__)
        private.__kwdefaults__ = inner.__kwdefaults__
        return torch._dynamo.disable(private)(self, *arguments, **named)

    trace._warmgraph = True  # type: ignore[attr-defined]
    torch.fx.Tracer.trace = trace


@dataclass(frozen=True, slots=True)
class Ambient:
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
