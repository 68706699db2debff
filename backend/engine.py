"""One graph through the cache: key, look up, load or compile, publish, journal. The order of things only."""

from __future__ import annotations

import hashlib
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule
from warmgraph.cache import Cache, Entry, Flight, Hit, Journal, Miss, Reason, Settings
from warmgraph.hashing import Key, Uncacheable, key_of

from . import torch_compat as compat
from .apart import WITHOUT_CUDAGRAPHS
from .artifact import Compiled, NotSerialisable, compile_kept, pack
from .compiler_settings import patched_settings
from .fallback import Failure, attempt, blames_entry
from .guards import evaluate_guards
from .hooks import unsafe_reason
from .load import load, mutated_by
from .report import Report, place_of
from .surroundings import surroundings
from .verified import Verdict, VerifiedHit

BACKEND = "warmgraph"


@dataclass(frozen=True, slots=True)
class Bypass:
    """The cache is not used for this graph; `detail` says why and what the user can do."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Found:
    """A hit that was loaded and reported."""

    run: Callable[..., Any]


@dataclass(slots=True)
class Engine:
    """Compiles graphs for one process, through one cache."""

    cache: Cache
    journal: Journal | None
    settings: Settings

    def compile(self, gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any]) -> Callable[..., Any]:
        """What `torch.compile` runs for this graph. Raises only what Inductor itself raises (unless strict)."""
        report = Report(self.journal, place_of(gm))
        with patched_settings(patches):
            found = attempt("hash", self.settings.strict, self._key, gm, inputs, report)
            if isinstance(found, Failure):
                report.failed(Reason.INTERNAL, found)
                return compat.compile_fx(gm, inputs, patches)
            if isinstance(found.value, Bypass):
                with report.phase("compile"):
                    run = compat.compile_fx(gm, inputs, patches)
                report.bypass(found.value.reason, found.value.detail)
                return run
            return self._through_cache(found.value, gm, inputs, patches, report)

    def _key(self, gm: GraphModule, inputs: Sequence[Any], report: Report) -> Key | Bypass:
        with report.phase("hash"):
            refusal = self._refusal(gm, inputs)
            if refusal is not None:
                return refusal
            try:
                key = key_of(gm, inputs, surroundings(gm, inputs, BACKEND))
            except Uncacheable as unknown:
                return Bypass(Reason(unknown.cause.value), str(unknown))
        report.key(key)
        return key

    def _refusal(self, gm: GraphModule, inputs: Sequence[Any]) -> Bypass | None:
        if (unsupported := compat.unsupported()) is not None:
            return Bypass(Reason.UNSUPPORTED_TORCH, unsupported)
        if compat.caches_disabled():
            return Bypass(Reason.CACHES_DISABLED, "torch.compiler.config.force_disable_caches is set")
        if compat.fakify_first_call():
            return Bypass(
                Reason.UNSUPPORTED_MODE,
                "DDP's optimizer splits the graph and hands over no real inputs; "
                "set torch._dynamo.config.optimize_ddp = False",
            )
        if compat.bisecting():
            return Bypass(Reason.UNSUPPORTED_MODE, "torch's compiler bisector is at work")
        if (odd := compat.odd_graph(gm, inputs)) is not None:
            return Bypass(Reason.UNSUPPORTED_MODE, odd)
        if compat.freezing():
            return Bypass(Reason.FREEZING, "Inductor's freezing bakes the weights into the code; set freezing=False")
        return None

    def _through_cache(
        self, key: Key, gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any], report: Report
    ) -> Callable[..., Any]:
        found = self._find(key, gm, inputs, report)
        if isinstance(found, Found):
            return found.run
        if isinstance(found, Failure):
            report.failed(Reason.INTERNAL, found)
            return compat.compile_fx(gm, inputs, patches)
        return self._in_turn(found, key, gm, inputs, patches, report)

    def _in_turn(
        self,
        miss: Miss,
        key: Key,
        gm: GraphModule,
        inputs: Sequence[Any],
        patches: Mapping[str, Any],
        report: Report,
    ) -> Callable[..., Any]:
        """Wait while another thread, process or host compiles this key; then take its result, or compile."""
        with ExitStack() as stack:
            with report.phase("wait"):
                entered = attempt("wait", self.settings.strict, stack.enter_context, self.cache.flight(key.id))
            flight = None if isinstance(entered, Failure) else entered.value
            found = self._find(key, gm, inputs, report, flight)  # another may have been faster since we looked
            if isinstance(found, Found):
                return found.run
            if isinstance(found, Miss) and found.reason is Reason.LOAD_FAILED:
                miss = found
            # Asked only now: torch's own list of what is unsafe walks the graph again, and costs half a second of
            # imports, which whoever waited for a result is spared. A hit was safe once.
            unsafe = attempt("check", self.settings.strict, unsafe_reason, gm, inputs)
            if not isinstance(unsafe, Failure) and unsafe.value is None:
                return self._compile(miss, key, gm, inputs, patches, report, flight)
            if flight is not None:
                flight.settle(ok=False)  # at once: there will be nothing to wait for
        with report.phase("compile"):
            run = compat.compile_fx(gm, inputs, patches)
        report.bypass(Reason.UNSAFE_OP, unsafe.why if isinstance(unsafe, Failure) else unsafe.value or "")
        return run

    def _find(
        self, key: Key, gm: GraphModule, inputs: Sequence[Any], report: Report, flight: Flight | None = None
    ) -> Found | Miss | Failure:
        """Look up, load, report the hit."""
        strict = self.settings.strict
        found = attempt("lookup", strict, self._lookup, key, inputs, report)
        if isinstance(found, Failure):
            return found
        outcome = found.value
        if isinstance(outcome, Miss):
            return outcome
        if flight is not None:
            flight.settle(ok=True)  # before loading: those behind us need not load one after another
        loaded = attempt("load", strict, self._load, outcome, key, gm, inputs, report)
        if isinstance(loaded, Failure):
            return self._load_failed(outcome, loaded)
        report.hit(outcome)
        if self.settings.verify and random.random() < self.settings.verify:  # noqa: S311 (a sample, no secret)
            return Found(self._verified(loaded.value, outcome, key, gm, inputs, report))
        return Found(loaded.value)

    def _verified(
        self, run: Callable[..., Any], hit: Hit, key: Key, gm: GraphModule, inputs: Sequence[Any], report: Report
    ) -> Callable[..., Any]:
        """`run`, which will be compared with a fresh compile and set aside if they differ."""
        again = Report(self.journal, report.place)
        again.key(key)

        def told(verdict: Verdict) -> None:
            reason = Reason.DIFFERS if verdict.wrong else Reason.NOT_COMPARABLE if verdict.unknown else None
            again.verified(hit.tier, reason, verdict.wrong or verdict.unknown)
            if verdict.wrong is not None:
                why = f"not what a fresh compile gives: {verdict.wrong}"
                attempt("quarantine", False, self.cache.quarantine, hit.entry.key, hit.entry.variant, why, hit.sealed)

        def test() -> VerifiedHit:
            with patched_settings(WITHOUT_CUDAGRAPHS):
                twin = load(hit, key, gm, inputs)
            return VerifiedHit(run, twin, mutated_by(hit, gm, inputs), gm, told, strict=self.settings.strict)

        made = attempt("verify", self.settings.strict, test)
        return run if isinstance(made, Failure) else made.value

    def _load_failed(self, hit: Hit, failure: Failure) -> Miss:
        """Set a bad entry aside, so that it fails once; not one that only failed here and now."""
        found = attempt("lookup", False, lambda: all(path.exists() for path in hit.files.values()))
        if isinstance(found, Failure) or not found.value:
            # Another process evicted a kernel between the lookup and now: nobody's fault.
            return Miss(Reason.INCOMPLETE, 1, failure.why)
        if blames_entry(failure):
            attempt(
                "quarantine", False, self.cache.quarantine, hit.entry.key, hit.entry.variant, failure.why, hit.sealed
            )
        return Miss(Reason.LOAD_FAILED, 1, failure.why)

    def _lookup(self, key: Key, inputs: Sequence[Any], report: Report) -> Hit | Miss:
        env = compat.shape_env(inputs)
        values = compat.hints(compat.backed_symints(inputs)) if env is not None else []

        def holds(entry: Entry) -> bool:
            return entry.guards is None or (env is not None and evaluate_guards(env, entry.guards, values))

        with report.phase("fetch"):
            return self.cache.lookup(key.id, holds)

    def _load(self, hit: Hit, key: Key, gm: GraphModule, inputs: Sequence[Any], report: Report) -> Callable[..., Any]:
        with report.phase("load"):
            return load(hit, key, gm, inputs)

    def _compile(
        self,
        miss: Miss,
        key: Key,
        gm: GraphModule,
        inputs: Sequence[Any],
        patches: Mapping[str, Any],
        report: Report,
        flight: Flight | None,
    ) -> Callable[..., Any]:
        place = report.place
        facts = {"function": place.function, "file": place.file, "line": place.line}
        explained = attempt("explain", self.settings.strict, self.cache.explained, miss, key.id, key.digests(), facts)
        miss = miss if isinstance(explained, Failure) else explained.value
        with report.phase("compile"):
            compiled = attempt("compile", self.settings.strict, compile_kept, gm, inputs, patches)
            if isinstance(compiled, Failure):
                # Perhaps only our way of compiling failed (the backward at once, say); perhaps the graph
                # does not compile, and then this raises what the user would have seen without us.
                run = compat.compile_fx(gm, inputs, patches)
        if isinstance(compiled, Failure):
            report.failed(Reason.INTERNAL, compiled)
            return run
        published = attempt("publish", self.settings.strict, self._publish, compiled.value, key, report, flight)
        if isinstance(published, Failure):
            report.failed(Reason.INTERNAL, published)
        elif isinstance(published.value, Bypass):
            report.bypass(published.value.reason, published.value.detail)
        elif miss.reason is Reason.LOAD_FAILED:  # compiled and published anew, but something was wrong
            report.failed(miss.reason, Failure("load", miss.detail or ""))
        else:
            report.miss(miss, published.value)
        return compiled.value.run

    def _publish(self, compiled: Compiled, key: Key, report: Report, flight: Flight | None) -> int | Bypass:
        """Hand a compile to the cache, which writes it in the background. Returns its bytes."""
        with report.phase("publish"):
            try:
                artifact = pack(compiled, key)
            except NotSerialisable as why:
                return Bypass(Reason.NOT_SERIALISABLE, str(why))
            variant = hashlib.sha256((artifact.guards or "").encode()).hexdigest()[:16]
            entry = Entry(
                key=key.id,
                variant=variant,
                parts=key.digests(),
                guards=artifact.guards,
                symbols={slot: name for name, slot in key.slots.items()},
                blobs=(),
                facts={
                    "compile_seconds": report.seconds.get("compile", 0.0),
                    "host": socket.gethostname(),
                    "torch": str(torch.__version__),
                    "function": report.place.function,
                    "file": report.place.file,
                    "line": report.place.line,
                    "nodes": key.nodes,
                    "created": time.time(),
                },
            )
            self.cache.publish(entry, artifact.blobs, flight)
            return sum(len(content) for _, _, content in artifact.blobs)
