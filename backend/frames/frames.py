"""One frame: restored from a record, or traced and recorded. The order of things only. Raises what a trace raises."""

from __future__ import annotations

import contextlib
import logging
import random
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from ..collection import make_old, uncollected
from ..reporting.report import Place
from ..torch_api.compile import CONTROL_FLOW
from ..torch_api.frames.acting import asking_once
from ..torch_api.frames.devices import modes_up
from ..torch_api.frames.hook import Frame, as_traced, give_up, output_so_far, when_guarded, why_given_up
from ..torch_api.frames.plain import NotServed, Refused
from ..torch_api.frames.ran import asks_ranks, is_users, noting
from ..torch_api.frames.seen import Seen, describing, watching
from ..torch_api.frames.watch.listening import may_be_ours
from .graphs import around_no_graph, check_around, load_graph
from .record import Record, differences
from .recording import make_record
from .reporting import FrameReport
from .restoring import restore
from .store import MAX_RECORDS, Kept, RecordStore
from .world import Address, Around, addresses, serves_every_rank

log = logging.getLogger(__name__)


class Frames(Struct):
    """For one backend, through one engine."""

    engine: Any
    refusal: Callable[..., Any]

    @asking_once()
    def compile(self, frame: Frame, trace: Callable[[], Any]) -> Any:
        report = FrameReport(self.engine.journal, place_of(frame), self.engine.compiler.name)
        keyed = self._try(report, "key", lambda: addresses(frame))
        if keyed is None:
            with _telling(report.not_restorable, report, frame):
                return _unheard(trace)
        own = keyed[0]
        report.key = own.key
        sampled = self._is_sampled()
        with uncollected():
            found = self._first_that_fits(keyed, frame, report, sampled=sampled)
            if found is not None:
                make_old()
        if found is None:
            why = self._known_refusal(keyed, frame, report)
            if why is None and self.engine.cache.keeps:
                return self._traced(frame, trace, report, keyed)
            report.refused = why
            with _telling(report.traced if why is None else report.not_restorable, report, frame):
                return _unheard(trace)  # no record would come of it
        kept, restored = found
        if sampled:
            restored.undo()
            return self._traced(frame, trace, report, keyed, against=kept)
        report.given_up = kept.record.given_up
        report.restored(kept)
        if report.given_up is not None:
            give_up(restored, report.given_up)
        return restored

    def _first_that_fits(
        self, keyed: list[Address], frame: Frame, report: FrameReport, *, sampled: bool
    ) -> tuple[Kept, Any] | None:
        known: list[Any] = []
        for address in keyed:
            for kept in self._records(address, report):
                if address is keyed[0]:
                    report.tried += kept.record.given_up is None
                    report.tried_given_up += kept.record.given_up is not None
                restored = self._restored(kept, frame, address.around, report, known, counts=not sampled)
                if restored is None:
                    report.note_moved()
                else:
                    return kept, restored
        return None

    def _known_refusal(self, keyed: list[Address], frame: Frame, report: FrameReport) -> str | None:
        """Why no record of this frame is to be made."""
        if report.tried >= MAX_RECORDS:
            return f"{MAX_RECORDS} records of it are kept and none fits; each time differs: {report.moved}"
        if report.tried or report.tried_given_up:
            return None
        why = self._try(report, "fetch", lambda: self._store.refusal(*keyed[0].where))
        if why == "":
            self._tell_what_changed(keyed, frame, report)
        return why or None

    def _tell_what_changed(self, keyed: list[Address], frame: Frame, report: FrameReport) -> None:
        """There may be a record of this program as it was before an edit."""
        for address in keyed:
            other = self._try(report, "fetch", partial(self._store.of_another_program, *address.where))
            if other is not None:
                if self._restored(other, frame, address.around, report, [], counts=False) is None:
                    report.note_moved()
                return

    @property
    def _store(self) -> RecordStore:
        return RecordStore(self.engine.cache)

    def _records(self, address: Address, report: FrameReport) -> Iterator[Kept]:
        """One after the other, as they are asked for."""
        dynamic_first = self.engine.settings.pgo
        records = self._store.records(address.key, address.around.program_digest, dynamic_first=dynamic_first)
        while True:
            with report.phase("fetch"):
                kept = self._try(report, "fetch", lambda: next(records, None))
            if kept is None:
                return
            yield kept

    def _restored(
        self, kept: Kept, frame: Frame, around: Around, report: FrameReport, known: list[Any], *, counts: bool
    ) -> Any:
        """known: see `check_around`. counts: whether its graphs are hits; not where they are only compared."""

        def load(graph: Any, wrapping: Any) -> Any:
            with as_traced():
                return load_graph(graph, wrapping, self.engine, report.place, counts=counts)

        def go() -> Any:
            with report.phase("restore"):
                with as_traced():
                    check_around(kept.record.surroundings, self.engine.compiler, self.refusal, known)
                return restore(kept.record, frame, around, load, profiles=self.engine.settings.pgo)

        return self._try(report, "restore", go)

    def _is_sampled(self) -> bool:
        share = self.engine.settings.verify
        return bool(share) and random.random() < share  # noqa: S311 (a sample, no secret)

    def _traced(
        self,
        frame: Frame,
        trace: Callable[[], Any],
        report: FrameReport,
        keyed: list[Address],
        against: Kept | None = None,
    ) -> Any:
        """The trace as ever; a record of it once torch has built its guards."""
        seen = Seen()

        def counts(code: CodeType) -> bool:
            seen.tells_rank |= asks_ranks(code)
            return is_users(code)

        try:
            with watching(seen), noting(seen.ran, counts=counts):
                output = trace()
        except Exception as error:
            report.given_up = why_given_up(error, frame)
            if report.given_up is not None:
                # No name for it: the error's traceback holds this frame, and nothing would go before a collection.
                made = self._try(report, "record", partial(self._given_up, error, frame, seen, report, keyed, against))
                if made is None:
                    report.not_restorable()
                raise
            if self.engine.settings.strict or not may_be_ours(error):
                raise
            log.debug("a frame could not be listened to", exc_info=True)
            report.refused = _failed("trace", error)
            with _telling(report.not_restorable, report, frame):
                return _unheard(trace)
        self._listen(frame, output, seen, report, keyed, against)
        return output

    def _given_up(self, error: Exception, frame: Frame, *rest: Any) -> Any:
        output = output_so_far(error)
        self._listen(frame, output, *rest)
        with modes_up():
            return output.build_guards(frame.code)

    def _listen(
        self, frame: Frame, output: Any, seen: Seen, report: FrameReport, keyed: list[Address], against: Kept | None
    ) -> None:
        """Record it as soon as torch builds its guards."""
        own = keyed[0]

        def guarded(shape: dict[str, list[str]]) -> None:
            def go() -> Record:
                if against is None and report.given_up is not None and report.tried_given_up >= _MOST_GIVEN_UP:
                    raise Refused(f"{_MOST_GIVEN_UP} records of its being given up are kept, and none fits")
                with report.phase("record"), uncollected(), describing(seen):
                    record = make_record(frame, output, seen, shape, own.around)
                    if report.given_up is not None:
                        record = _of_given_up(record, report.given_up)
                    if not record.surroundings:
                        with as_traced():
                            around = around_no_graph(self.engine.compiler, self.refusal)
                        record = replace(record, around=around)
                return record

            report.refused = None
            record = self._try(report, "record", go)
            if against is not None:
                self._verdict(against, record, report)
            elif record is None:
                report.not_restorable()
                if report.is_served and report.given_up is None:  # what ended that trace says nothing of others
                    why = str(report.refused)
                    self._try(report, "publish", lambda: self._store.keep_refusal(*own.where, why, report))
            else:
                with report.phase("publish"):
                    self._try(report, "publish", lambda: self._keep(keyed, record, seen, report))
                report.traced()

        self._try(report, "record", lambda: when_guarded(output, guarded))

    def _keep(self, keyed: list[Address], record: Record, seen: Seen, report: FrameReport) -> None:
        own, *everyones = keyed
        for one in everyones if serves_every_rank(record, seen) else ():
            if self._store.keep_for_many(*one.where, replace(record, state=one.around.state), report):
                return
        self._store.keep(*own.where, record, report)

    def _verdict(self, kept: Kept, record: Record | None, report: FrameReport) -> None:
        if record is None and not report.is_served:
            report.not_restorable()  # this process could not record it, whatever it is
            return
        if record is None:
            found: str | None = f"it is not restorable: {report.refused}"
        else:  # the state was compared before; that of a record for every rank names none
            found = differences(kept.record, replace(record, state=kept.record.state))
        if found is not None:
            self._try(report, "quarantine", lambda: self._store.set_aside(kept, found))
        report.verified(kept, found)

    def _try(self, report: FrameReport, stage: str, go: Callable[[], Any]) -> Any:
        """What `go` gives, or None; whatever is wrong, the frame can still be traced."""
        try:
            return go()
        except Refused as why:
            report.refused, report.values_read = str(why), why.values_read
            report.is_served = not isinstance(why, NotServed)
        except CONTROL_FLOW:
            raise
        except Exception as error:
            if self.engine.settings.strict and not isinstance(error, (OSError, MemoryError)):
                raise
            log.debug("%s of a frame failed", stage, exc_info=True)
            report.refused = _failed(stage, error)
        return None


def _failed(stage: str, error: Exception) -> str:
    return f"{stage} failed: {type(error).__name__}: {error}".split("\n")[0]


@contextlib.contextmanager
def _telling(tell: Callable[[], None], report: FrameReport, frame: Frame) -> Iterator[None]:
    """Around a trace of which no record is made."""
    try:
        yield
    except Exception as error:
        report.given_up = why_given_up(error, frame)
        if report.given_up is not None:
            tell()
        raise
    tell()


def _of_given_up(record: Record, why: str) -> Record:
    if record.graphs:
        raise Refused("Dynamo gave it up after it had compiled a part of it")
    return replace(record, code=why)


_MOST_GIVEN_UP = 4  # of one frame; they take no place of records that bring code


def _unheard(trace: Callable[[], Any]) -> Any:
    """A trace that nobody listens to, nor one around it."""
    with watching(None):
        return trace()


def place_of(frame: Frame) -> Place:
    code = frame.code
    return Place(getattr(code, "co_qualname", code.co_name), code.co_filename, code.co_firstlineno)
