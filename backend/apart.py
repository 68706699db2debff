"""Compiling a graph beside a running step: in another thread, with no trace in the step. Judges nothing."""

from __future__ import annotations

import contextlib
import copy
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from warmgraph.hashing import ambient_state

from . import torch_compat as compat
from .capture import capture_result

WITHOUT_CUDAGRAPHS = {"triton.cudagraphs": False}  # so that neither copies of inputs nor a second recording is needed


def static_fakes(inputs: Sequence[Any]) -> tuple[Any, list[Any]]:
    """A fake mode of its own and the inputs in it, with their sizes as they are. Holds none of their memory."""
    env = compat.symbolic_shapes.ShapeEnv()
    mode = torch._subclasses.FakeTensorMode(shape_env=env, allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(v, static_shapes=True, trace=False) if isinstance(v, torch.Tensor) else v for v in inputs]
    return mode, fakes


def compile_apart(gm: GraphModule, mode: Any, fakes: Sequence[Any]) -> tuple[Callable[..., Any], frozenset[int]]:
    """Inductor on the graph as it is now, without any cache; and the positions of inputs that it writes to.

    Raises what Inductor raises, and ValueError when it does not say what it made.
    """
    again = GraphModule(gm, copy.deepcopy(gm.graph))  # its passes may change the graph, which is still to be run
    context = compat.tracing(compat.TracingContext(mode))
    with compat.compile_lock(), context, _seeds_left_alone(), capture_result() as results:
        run = compat.compile_fx(again, fakes, WITHOUT_CUDAGRAPHS)
    result = results.outermost()
    if result is None:
        raise ValueError(results.problem or "AOTAutograd did not hand over a result")
    return run, compat.mutated_inputs(result)


_apart = threading.local()


@contextlib.contextmanager
def _seeds_left_alone() -> Iterator[None]:
    """torch's compilers end by putting the random state back to what it was; the step has moved on by then."""
    original = compat.dynamo_utils.preserve_rng_state
    if not hasattr(original, "_warmgraph"):

        def preserve_rng_state() -> contextlib.AbstractContextManager[None]:
            return contextlib.nullcontext() if getattr(_apart, "on", False) else original()

        preserve_rng_state._warmgraph = True  # type: ignore[attr-defined]
        for name, module in list(sys.modules.items()):  # several modules of torch have it under a name of their own
            if name.startswith("torch.") and vars(module).get("preserve_rng_state") is original:
                vars(module)["preserve_rng_state"] = preserve_rng_state
    _apart.on = True
    try:
        yield
    finally:
        _apart.on = False


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
