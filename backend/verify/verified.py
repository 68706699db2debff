"""Verified hits: on a share of hits the graph is compiled afresh, and both results are compared. Not a load, not a key.

The state of such a hit: it is called (1), called again, and compiled anew in the background (2), and at the first
call thereafter that is like the second, run both ways and compared (3). From then on nothing stands between the caller
and the loaded code; or, when they differ, the graph runs eagerly in this process and its entry is gone.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from torch.fx import GraphModule
from warmgraph.cache import reset_in_child

from ..reporting.fail_open import Failure, attempt
from ..typing import Compiler
from .background import run_in_background
from .compare import Run, difference, not_repeatable, run_apart, shape_of
from .isolated import Ambient, compile_isolated, impossible_here, static_fakes

Step = Callable[[Sequence[Any]], None]


class Verdict(Struct, frozen=True):
    """wrong: what differs, or None. unknown: why nothing could be compared, or None."""

    wrong: str | None = None
    unknown: str | None = None


class VerifiedHit:
    """The callable of a hit under test. Calls are never held up by more than the comparison itself.

    run: as loaded. twin: the same code without CUDA graphs, to be called in between. mutated: inputs
    that it says it writes to. told: called once, with the verdict. strict: what breaks in the check is raised.
    """

    def __init__(
        self,
        run: Run,
        twin: Run,
        mutated: frozenset[int],
        gm: GraphModule,
        compiler: Compiler,
        told: Callable[[Verdict], None],
        *,
        strict: bool = False,
    ) -> None:
        self._run = run
        self._twin = twin
        self._gm = gm
        self._compiler = compiler
        self._told = told
        self._strict = strict
        self._settings = contextvars.copy_context()  # torch's settings in force live there, since 2.12
        self._step: Step | None = self._first
        self._like: tuple[Any, ...] = ()
        self._mutated = mutated
        self._fresh: Run | None = None
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        """A step runs the graph and tells of it: no fork may wait for that, nor hold what it needs to end."""
        self._lock = threading.Lock()

    def __call__(self, *inputs: Any) -> Any:
        lock = self._lock  # the child of a fork within a step is given another
        # Whoever comes while another thread is in a step simply runs.
        if self._step is not None and lock.acquire(blocking=False):
            try:
                self._attempt(self._step, inputs)
            finally:
                lock.release()
        return self._run(*inputs)

    def _attempt(self, step: Step | None, inputs: Sequence[Any]) -> None:
        done = None if step is None else attempt("verify", self._strict, step, inputs)
        if isinstance(done, Failure):
            self._end(Verdict(unknown=done.why))

    def _end(self, verdict: Verdict) -> None:
        if verdict.wrong is not None:
            self._run = self._gm  # right, if slow; the fresh compile is good for these sizes only
        self._step = self._fresh = None
        self._twin = self._run
        self._told(verdict)

    # -- the steps, each called before the graph itself runs

    def _first(self, inputs: Sequence[Any]) -> None:
        if (why := impossible_here() or not_repeatable(self._gm, inputs)) is not None:
            self._end(Verdict(unknown=why))
        else:
            self._step = self._second

    def _second(self, inputs: Sequence[Any]) -> None:
        """Not at the first call: others are being compiled then, and would wait."""
        self._step = None
        self._like = shape_of(inputs)
        mode, fakes = static_fakes(inputs)
        ambient = Ambient.now()

        def compile_in_background() -> None:
            with ambient.entered():
                # Not even when strict: there is nobody in this thread to raise it to.
                compiled = attempt("fresh compile", False, compile_isolated, self._compiler, self._gm, mode, fakes)
            if isinstance(compiled, Failure):
                self._end(Verdict(unknown=f"the fresh compile failed: {compiled.why}"))
            else:
                self._fresh, mutated = compiled.value
                self._mutated |= mutated
                self._step = self._compare

        run_in_background(lambda: self._settings.run(compile_in_background))

    def _compare(self, inputs: Sequence[Any]) -> None:
        if shape_of(inputs) != self._like or self._fresh is None:
            return
        cached, fresh = (run_apart(run, inputs, self._mutated) for run in (self._twin, self._fresh))
        why = difference(cached, fresh)
        if why is None:
            self._end(Verdict())
        elif (unstable := difference(fresh, run_apart(self._fresh, inputs, self._mutated))) is not None:
            self._end(Verdict(unknown=f"the graph gives other results each time: {unstable}"))
        else:
            self._end(Verdict(wrong=why))
