"""What became of a frame, told once: to the journal, the counts and the log. Decides nothing."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager
from typing import Any

from msgspec import Struct, field
from warmgraph.cache import NOT_COMPILED, Event, Journal, Outcome, Reason

from ..reporting.report import Place, tell, timed

log = logging.getLogger(__name__)


class FrameReport(Struct):
    """refused: why the last step was not possible; values_read: of a record, until then. moved: what no longer fits a
    record; of several that which came furthest. tried: how many; tried_given_up: beside
    them, of traces that were given up.

    given_up: why Dynamo runs the frame as it is; None where it does not. bytes: of its record. is_served: whether
    frames of this process can be restored at all; else nothing is journaled.
    """

    journal: Journal | None
    place: Place
    backend: str
    seconds: dict[str, float] = field(default_factory=dict)
    key: str | None = None
    refused: str | None = None
    values_read: int = 0
    moved: str | None = None
    furthest: int = -1
    tried: int = 0
    tried_given_up: int = 0
    given_up: str | None = None
    bytes: int = 0
    is_served: bool = True

    def phase(self, name: str) -> AbstractContextManager[None]:
        return timed(self.seconds, name)

    def note_moved(self) -> None:
        """The last step was to restore a record."""
        if self.values_read > self.furthest:
            self.moved, self.furthest = self.refused, self.values_read

    def restored(self, kept: Any) -> None:
        self.bytes = kept.hit.stored_bytes
        self._write(Outcome.RESTORED, tier=kept.hit.tier, detail=self._uncompiled())
        log.info("restored %s from %s in %.3f s", self.place, kept.hit.tier, sum(self.seconds.values()))

    def traced(self) -> None:
        """It was traced; its record is kept for others, if anything is."""
        detail = self.moved or self._uncompiled()
        self._write(Outcome.TRACED, reason=Reason.FRAME_CHANGED if self.moved else Reason.ABSENT, detail=detail)
        log.info("traced %s%s", self.place, f": {self.moved}" if self.moved else "")

    def not_restorable(self) -> None:
        if self.is_served:
            self._write(Outcome.TRACED, reason=Reason.NOT_RESTORABLE, detail=self.refused)
        log.info("traced %s; it is not restorable: %s", self.place, self.refused)

    def _uncompiled(self) -> str | None:
        return None if self.given_up is None else f"{NOT_COMPILED}{self.given_up}"

    def verified(self, kept: Any, why: str | None) -> None:
        """A restored frame was traced as well. why: None when the records are the same."""
        self._write(
            Outcome.VERIFIED, tier=kept.hit.tier, reason=Reason.DIFFERS if why is not None else None, detail=why
        )
        if why is not None:
            log.error("A RESTORED FRAME differs from a fresh trace: %s: %s. Its record is set aside", self.place, why)

    def _write(
        self, outcome: Outcome, *, reason: Any = None, tier: str | None = None, detail: str | None = None
    ) -> None:
        event = Event(
            outcome=outcome,
            reason=reason.value if reason is not None else None,
            tier=tier,
            key=self.key,
            function=self.place.function,
            file=self.place.file,
            line=self.place.line,
            bytes=self.bytes,
            seconds=dict(self.seconds),
            detail=detail[:500] if detail is not None else None,
            backend=self.backend,
        )
        tell(self.journal, event)
