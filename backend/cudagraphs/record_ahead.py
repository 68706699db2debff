"""Recording ahead: a hit whose sizes are known from other processes is recorded before they come. Off unless asked for.

`torch.compile(..., options={"record_ahead": True})`. At the first call of a graph that was loaded, it is run on scratch
inputs of the sizes in its plan (`recording`), twice each: once to warm up, once to record. The step that follows is not
changed by it: only graphs for inference that write to none of their inputs and do nothing but compute are run, random
states are put back, and nothing of a run is kept but torch's own recording.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from warmgraph.cache import Hit, ProfileStore
from warmgraph.hashing import graph_modules

from ..artifact.guards import evaluate_guards
from ..artifact.load import mutated_by
from ..key.custom_code import overloads
from ..reporting.fail_open import Failure, attempt, warn_once
from ..torch_api import compile as compat
from ..torch_api import cudagraph_trees as cudagraphs
from ..typing import Request
from ..verify.compare import not_repeatable
from .listening import watch_here
from .recording_plan import plan_of
from .watching import ForwardInfo

log = logging.getLogger(__name__)

MAX_SIZES = 8  # of one graph
MAX_SECONDS = 10.0  # for one graph
MIN_FREE = 0.25  # of the GPU's memory, or no more is recorded
OPTION = "record_ahead"

# Their results depend on values in a way that scratch inputs may not satisfy, and a device that asserts is lost.
_TRUSTING = ("multinomial", "_assert_async", "_assert_scalar", "sym_constrain_range")

Run = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Form:
    """A tensor input: its sizes and strides as numbers or expressions over the graph's symbols."""

    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]

    def at(self, values: Mapping[Any, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Raises TypeError where `values` leaves a symbol open."""
        return tuple(_number(size, values) for size in self.sizes), tuple(_number(one, values) for one in self.strides)


def take_option(options: Mapping[str, Any] | None) -> tuple[bool, dict[str, Any] | None]:
    """Ours out of `torch.compile`'s options, and the rest, which are Inductor's. Raises TypeError for no bool."""
    if options is None or OPTION not in options:
        return False, None if options is None else dict(options)
    rest = dict(options)
    wanted = rest.pop(OPTION)
    if not isinstance(wanted, bool):
        raise TypeError(f"options={{{OPTION!r}: {wanted!r:.40}}}: expected True or False")
    return wanted, rest or None


def recorded_ahead(run: Run, hit: Hit, request: Request, learning: ProfileStore, *, strict: bool) -> Run:
    """`run`, or what records ahead before it runs for the first time. Called where `run` was loaded."""
    watch = watch_here()
    made = None if watch is None else watch.made
    prepared = attempt("record ahead", strict, _prepared, run, hit, request, learning, made)
    return run if isinstance(prepared, Failure) else prepared.value


def _prepared(run: Run, hit: Hit, request: Request, learning: ProfileStore, made: ForwardInfo | None) -> Run:
    gm, inputs = request.gm, request.inputs
    why = why_not(gm, inputs, made) or ("it writes to its inputs" if mutated_by(hit, request) else None)
    sizes = [] if why is not None else sizes_ahead(learning, hit.entry.key, inputs, hit.entry.guards)
    log.debug("record ahead %s: %s", hit.entry.key[:11], why or f"{len(sizes)} sizes")
    return run if made is None or not sizes else Ahead(run, gm, inputs, made, sizes)


def why_not(gm: GraphModule, inputs: Sequence[Any], made: ForwardInfo | None) -> str | None:
    """Why a graph is not run before its time; None when it may be, as far as it alone says."""
    if made is None or made.device is None:
        return "it does not run in CUDA graphs on one GPU"
    if not made.inference:
        return "it has a backward"
    if made.mutated:
        return "it writes to its inputs"
    if made.inputs != len(inputs):
        return "AOTAutograd passes it other inputs than Dynamo"
    if (why := not_repeatable(gm, inputs)) is not None:
        return why
    for node in (node for module in graph_modules(gm) for node in module.graph.nodes):
        names = [overload.name() for overload in overloads(node.target)] or [str(node.target)]
        if any(word in name for word in _TRUSTING for name in names):
            return f"{names[0]} may refuse made-up values"
    return None


def sizes_ahead(learning: ProfileStore, key: str, inputs: Sequence[Any], guards: str | None) -> list[dict[int, int]]:
    """The sizes of a graph's integer inputs, by position, that its plan names and its guards admit."""
    plan = plan_of(learning, key)
    if any(not backward for backward, _ in plan.skipped):
        return []
    integers = {place for place, value in enumerate(inputs) if not isinstance(value, torch.Tensor)}
    found: list[dict[int, int]] = []
    for recording in plan.recorded:
        sizes = dict(recording.sizes)
        if not recording.backward and set(sizes) == integers and sizes not in found and _hold(inputs, sizes, guards):
            found.append(sizes)
    return found[:MAX_SIZES]


def _hold(inputs: Sequence[Any], sizes: Mapping[int, int], guards: str | None) -> bool:
    """Whether an entry's guards and the ranges of its symbols admit these sizes. Adds no guard."""
    env = compat.shape_env(inputs)
    for place, size in sizes.items():
        if not isinstance(inputs[place], torch.SymInt) or not inputs[place].node.expr.is_Symbol:
            return False
        bounds = env.var_to_range.get(inputs[place].node.expr)
        if bounds is not None and not bounds.lower <= size <= bounds.upper:
            return False
    if guards is None:
        return True
    where = {id(inputs[place]): size for place, size in sizes.items()}
    return evaluate_guards(env, guards, [where[id(value)] for value in compat.backed_symints(inputs)])


def forms_of(gm: GraphModule) -> list[Form | None]:
    """Of each placeholder; None for what is no tensor."""
    examples = [node.meta.get("example_value") for node in gm.graph.find_nodes(op="placeholder")]
    return [Form(_plain(one.size()), _plain(one.stride())) if _is_tensor(one) else None for one in examples]


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _plain(values: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(value.node.expr if isinstance(value, torch.SymInt) else value for value in values)


def _number(value: Any, values: Mapping[Any, int]) -> int:
    return value if isinstance(value, int) else int(value.xreplace(values))


class Ahead:
    """A loaded graph that records ahead at its first call, and from then on is that graph."""

    def __init__(
        self, run: Run, gm: GraphModule, inputs: Sequence[Any], made: ForwardInfo, sizes: Sequence[Mapping[int, int]]
    ) -> None:
        self._run = run
        self._made = made
        self._forms = forms_of(gm)
        self._symbols = {at: one.node.expr for at, one in enumerate(inputs) if isinstance(one, torch.SymInt)}
        self._sizes: Sequence[Mapping[int, int]] | None = sizes

    def __call__(self, *inputs: Any) -> Any:
        if self._sizes is not None:
            sizes, self._sizes = self._sizes, None
            done = attempt("record ahead", False, self._record, sizes, inputs)
            if isinstance(done, Failure):
                warn_once("record ahead", "not recorded ahead: %s", done.why)
        return self._run(*inputs)

    def _record(self, sizes: Sequence[Mapping[int, int]], inputs: Sequence[Any]) -> None:
        device = self._made.device
        if device is None:
            return
        begun, count = time.monotonic(), 0
        with torch.random.fork_rng(devices=[device]):
            for one in sizes:
                late = time.monotonic() - begun > MAX_SECONDS
                if late or not cudagraphs.idle(device) or cudagraphs.free_share(device) < MIN_FREE:
                    break
                if all(inputs[place] == size for place, size in one.items()):
                    continue  # the call that follows records it
                for _ in range(2):  # torch warms up, then records; what comes of it must be dead before the next
                    self._run(*self.scratch(one, inputs))
                count += 1
        log.info("recorded %d of %d sizes ahead in %.2f s", count, len(sizes), time.monotonic() - begun)

    def scratch(self, sizes: Mapping[int, int], inputs: Sequence[Any]) -> list[Any]:
        """Inputs of other sizes. Those that do not move are this call's own; numbers in others are this call's,
        repeated, or zero where they are whole numbers: they may be indices.
        """
        values = {self._symbols[place]: size for place, size in sizes.items()}
        made: list[Any] = []
        for place, (given, form) in enumerate(zip(inputs, self._forms, strict=True)):
            if form is None:
                made.append(sizes[place])
            elif place in self._made.static:
                made.append(given)
            else:
                made.append(_like(given, *form.at(values)))
        return made


def _like(given: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...]) -> torch.Tensor:
    made = torch.empty_strided(size, stride, dtype=given.dtype, device=given.device).zero_()
    if (
        given.numel()
        and made.numel()
        and (given.is_floating_point() or given.is_complex() or given.dtype is torch.bool)
    ):
        times = -(-made.numel() // given.numel())
        made.copy_(given.detach().reshape(-1).repeat(times)[: made.numel()].reshape(size))
    return made
