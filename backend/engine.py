"""One graph through the cache: key, look up, load or compile, publish, journal. The order of things only."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace
from torch.fx import GraphModule
from warmgraph.cache import Cache, Entry, Flight, Hit, Journal, Miss, Reason, Settings
from warmgraph.hashing import Uncacheable, key_of

from .artifact.guards import evaluate_guards
from .artifact.load import load, mutated_by
from .artifact.pack import compile_kept, pack
from .cudagraphs.kept_choices import KeptChoices
from .cudagraphs.listening import watching
from .key.compiler_settings import patched_settings
from .key.context import key_context
from .key.saved_tensors_hooks import unsafe_reason
from .reporting.fail_open import Failure, attempt, blames_entry
from .reporting.report import Report, made_here, place_of
from .reporting.upgraded import name_other_torch
from .torch_api import compile as compat
from .torch_api.entrances.compiled_autograd import emptying, flattened
from .torch_api.frames.seen import seen
from .torch_api.loading import is_to_be_saved
from .torch_api.ranks import ddp
from .torch_api.ranks.collectives import collective_seconds
from .typing import Bypass, Compiled, Compiler, NotSerialisable, Request, Run

if TYPE_CHECKING:
    from .verify.verified import Verdict, VerifiedHit


class Found(Struct, frozen=True):
    """A hit that was loaded and reported."""

    run: Callable[..., Any]


class Engine(Struct):
    """Compiles graphs for one process and one backend, through one cache."""

    cache: Cache
    journal: Journal | None
    settings: Settings
    compiler: Compiler

    def compile(self, gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any]) -> Run:
        """What `torch.compile` runs for this graph. Raises only what the compiler itself raises (unless strict)."""
        if (flat := flattened(gm, inputs)) is not None:
            return emptying(self.compile(flat.gm, flat.inputs, patches), flat)
        report = Report(self.journal, place_of(gm), self.compiler.name)
        strict = self.settings.strict
        choices = KeptChoices(self.cache, report)
        with patched_settings(patches), watching(gm, report.skipped, choices, strict=strict), ddp.backwards_at_once():
            found = attempt("hash", self.settings.strict, self._request, gm, inputs, patches, report)
            if isinstance(found, Failure):
                report.failed(Reason.INTERNAL, found)
                return self.compiler.compile(gm, inputs, patches, report.skipped)
            if isinstance(found.value, Bypass):
                with report.phase("compile"):
                    run = self.compiler.compile(gm, inputs, patches, report.skipped)
                report.bypass(found.value.reason, found.value.detail)
                return run
            return self._through_cache(found.value)

    def _request(
        self, gm: GraphModule, inputs: Sequence[Any], patches: Mapping[str, Any], report: Report
    ) -> Request | Bypass:
        with report.phase("hash"):
            refusal = refusal_of(gm, inputs) or self.compiler.refusal()
            if refusal is not None:
                return refusal
            try:
                context = key_context(gm, inputs, self.compiler.name, self.compiler.settings())
                key = key_of(gm, inputs, context)
            except Uncacheable as unknown:
                return Bypass(Reason(unknown.cause.value), str(unknown))
        report.key(key)
        return Request(key, gm, inputs, patches, report, context.code)

    def _through_cache(self, request: Request) -> Run:
        found = self._find(request)
        if isinstance(found, Miss) and request.key.place:
            placed = self._find(in_place(request))
            if isinstance(placed, Found):
                return placed.run
            request.report.key(request.key)
        if isinstance(found, Found):
            return found.run
        if isinstance(found, Failure):
            request.report.failed(Reason.INTERNAL, found)
            return self._without_cache(request)
        return self._in_turn(found, request)

    def _in_turn(self, miss: Miss, request: Request) -> Run:
        """Wait while another thread, process or host compiles this key; then take its result, or compile."""
        strict, report = self.settings.strict, request.report
        with ExitStack() as stack:
            for insist in (False, True):
                with report.phase("wait"):
                    asked = self.cache.flight(request.key.id, insist=insist)
                    entered = attempt("wait", strict, stack.enter_context, asked)
                flight = None if isinstance(entered, Failure) else entered.value
                found = self._find(request, flight)  # another may have been faster since we looked
                if isinstance(found, Found) or flight is None or not flight.gave_way:
                    break
                stack.close()  # its result is another variant: our turn, in earnest
            if isinstance(found, Found):
                return found.run
            if isinstance(found, Miss) and found.reason is Reason.LOAD_FAILED:
                miss = found
            # Asked only now: torch's own list of what is unsafe walks the graph again, and costs half a second of
            # imports, which whoever waited for a result is spared. A hit was safe once.
            unsafe = attempt("check", strict, unsafe_reason, request.gm, request.inputs)
            if not isinstance(unsafe, Failure) and unsafe.value is None:
                return self._compile(miss, request, flight)
            if flight is not None:
                flight.settle(ok=False)  # at once: there will be nothing to wait for
        with report.phase("compile"):
            run = self._without_cache(request)
        report.bypass(Reason.UNSAFE_OP, unsafe.why if isinstance(unsafe, Failure) else unsafe.value or "")
        return run

    def _without_cache(self, request: Request) -> Run:
        return self.compiler.compile(request.gm, request.inputs, request.patches, request.report.skipped)

    def _find(self, request: Request, flight: Flight | None = None) -> Found | Miss | Failure:
        """Look up, load, report the hit."""
        found = attempt("lookup", self.settings.strict, self._lookup, request)
        if isinstance(found, Failure):
            return found
        outcome = found.value
        if isinstance(outcome, Miss):
            return outcome
        if flight is not None:
            flight.settle(ok=True)  # before loading: those behind us need not load one after another
        loaded = attempt("load", self.settings.strict, self._load, outcome, request)
        if isinstance(loaded, Failure):
            return self._load_failed(outcome, loaded)
        self.agree(outcome, request.report)
        request.report.hit(outcome)
        self._note(request, outcome.entry)
        sampled = self.settings.verify and random.random() < self.settings.verify  # noqa: S311 (a sample, no secret)
        if sampled and not is_to_be_saved():  # a comparison cannot be written to a file
            return Found(self._verified(loaded.value, outcome, request))
        return Found(loaded.value)

    def agree(self, hit: Hit, report: Report) -> None:
        """In a job: run ahead of no rank that compiles this by more than half of what a collective waits."""
        waited = attempt("agree", self.settings.strict, self.cache.agree, hit, lambda: collective_seconds() / 2)
        if not isinstance(waited, Failure) and waited.value is not None:
            report.waited(waited.value)

    def _note(self, request: Request, entry: Entry) -> None:
        """Tell the frame that is being traced, if it is to be recorded, where its graph is kept."""
        if seen() is not None:
            from .frames.graphs import note_graph

            attempt("frame", self.settings.strict, note_graph, request, entry.variant, self.compiler)

    def _lookup(self, request: Request) -> Hit | Miss:
        env = compat.shape_env(request.inputs)
        values = compat.hints(compat.backed_symints(request.inputs)) if env is not None else []

        def holds(entry: Entry) -> bool:
            return entry.guards is None or (env is not None and evaluate_guards(env, entry.guards, values))

        with request.report.phase("fetch"):
            return self.cache.lookup(request.key.id, holds)

    def _load(self, hit: Hit, request: Request) -> Run:
        with request.report.phase("load"):
            return load(hit, request, self.compiler)

    def _load_failed(self, hit: Hit, failure: Failure) -> Miss:
        """Set a bad entry aside, so that it fails once; not one that only failed here and now."""
        found = attempt("lookup", False, lambda: all(path.exists() for path in hit.files.values()))
        if isinstance(found, Failure) or not found.value:
            # Another process evicted a kernel between the lookup and now: nobody's fault.
            return Miss(Reason.INCOMPLETE, 1, failure.why)
        if blames_entry(failure):
            self._set_aside(hit, failure.why)
        return Miss(Reason.LOAD_FAILED, 1, failure.why)

    def _set_aside(self, hit: Hit, why: str) -> None:
        entry = hit.entry
        attempt("quarantine", False, self.cache.quarantine, entry.key, entry.variant, why, hit.sealed)

    def _verified(self, run: Run, hit: Hit, request: Request) -> Run:
        """`run`, which will be compared with a fresh compile and set aside if they differ."""
        from .verify.verified import VerifiedHit  # few runs verify

        again = Report(self.journal, request.report.place, self.compiler.name)
        again.key(request.key)

        def told(verdict: Verdict) -> None:
            reason = Reason.DIFFERS if verdict.wrong else Reason.NOT_COMPARABLE if verdict.unknown else None
            again.verified(hit.tier, reason, verdict.wrong or verdict.unknown)
            if verdict.wrong is not None:
                self._set_aside(hit, f"not what a fresh compile gives: {verdict.wrong}")

        def test() -> VerifiedHit:
            with self.compiler.without_cudagraphs():
                twin = load(hit, request, self.compiler)
            mutated = mutated_by(hit, request)
            return VerifiedHit(run, twin, mutated, request.gm, self.compiler, told, strict=self.settings.strict)

        made = attempt("verify", self.settings.strict, test)
        return run if isinstance(made, Failure) else made.value

    def _compile(self, miss: Miss, request: Request, flight: Flight | None) -> Run:
        strict, report, key = self.settings.strict, request.report, request.key
        place = report.place
        facts = {"function": place.function, "file": place.file, "line": place.line}
        explained = attempt("explain", strict, self.cache.explained, miss, key.id, key.digests(), facts)
        miss = miss if isinstance(explained, Failure) else explained.value
        named = attempt("explain", strict, name_other_torch, miss, self.cache)
        miss = miss if isinstance(named, Failure) else named.value

        def alone() -> None:
            if key.place and flight is not None:
                flight.settle(ok=False)  # at once: what other ranks wait for does not come, and they compile meanwhile

        with report.phase("compile"):
            compiled = attempt("compile", strict, compile_kept, request, self.compiler, alone)
            if isinstance(compiled, Failure):
                # Perhaps only our way of compiling failed (the backward at once, say); perhaps the graph
                # does not compile, and then this raises what the user would have seen without us.
                if flight is not None:
                    flight.settle(ok=False)  # at once: nothing is kept of what is compiled now
                run = self._without_cache(request)
        if isinstance(compiled, Failure):
            if isinstance(compiled.error, compat.BackendCompilerFailed):
                report.bypass(Reason.NOT_SERIALISABLE, f"its backward does not compile: {compiled.why}")
            else:
                report.failed(Reason.INTERNAL, compiled)
            return run
        if compiled.value.placed and key.place:
            alone()
            request, flight = in_place(request), None
        published = attempt("publish", strict, self._publish, compiled.value, request, flight)
        if isinstance(published, Failure):
            report.failed(Reason.INTERNAL, published)
        elif isinstance(published.value, Bypass):
            report.bypass(published.value.reason, published.value.detail)
        elif miss.reason is Reason.LOAD_FAILED:  # compiled and published anew, but something was wrong
            report.failed(miss.reason, Failure("load", miss.detail or ""))
        else:
            report.miss(miss, published.value)
        return compiled.value.run

    def _publish(self, compiled: Compiled, request: Request, flight: Flight | None) -> int | Bypass:
        """Hand a compile to the cache, which writes it in the background. Returns its bytes."""
        key, report = request.key, request.report
        with report.phase("publish"):
            try:
                artifact = pack(compiled, key, self.compiler)
            except NotSerialisable as why:
                return Bypass(Reason.NOT_SERIALISABLE, str(why))
            if ddp.is_piece() and (moved := ddp.relaid_output(request.gm, compiled.result)) is not None:
                return Bypass(Reason.UNSUPPORTED_MODE, f"output {moved} of a piece that DDP split off is laid out anew")
            entry = Entry(
                key=key.id,
                variant=hashlib.sha256((artifact.guards or "").encode()).hexdigest()[:16],
                parts=key.digests(),
                guards=artifact.guards,
                symbols={slot: name for name, slot in key.slots.items()},
                blobs=(),
                facts={
                    "compile_seconds": report.seconds.get("compile", 0.0),
                    "function": report.place.function,
                    "file": report.place.file,
                    "line": report.place.line,
                    "nodes": key.nodes,
                    **made_here(),
                    **({"groups": json.dumps(key.groups)} if key.groups else {}),
                },
            )
            self.cache.publish(entry, artifact.blobs, flight)
            self._note(request, entry)
            return sum(len(content) for _, _, content in artifact.blobs)


def in_place(request: Request) -> Request:
    """The same graph, under the key of code that is this rank's alone."""
    request.report.key(key := request.key.in_place())
    return replace(request, key=key)


def refusal_of(gm: GraphModule, inputs: Sequence[Any]) -> Bypass | None:
    """Why no compiler's result can be kept, whatever the graph says."""
    if compat.caches_disabled():
        return Bypass(Reason.CACHES_DISABLED, "torch.compiler.config.force_disable_caches is set")
    if compat.bisecting():
        return Bypass(Reason.UNSUPPORTED_MODE, "torch's compiler bisector is at work")
    if (together := compat.ranks_compile_together()) is not None:
        return Bypass(Reason.UNSUPPORTED_MODE, together)
    if (odd := compat.odd_graph(gm, inputs)) is not None:
        return Bypass(Reason.UNSUPPORTED_MODE, odd)
    return None
