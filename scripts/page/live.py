"""The audit kept up to date in the background, for a server to show. Reads only what is new; speaks no HTTP."""

from __future__ import annotations

import copy
import logging
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from warmgraph.cache import EventDict, StoreUnavailable

from ..audit import Auditor, StoredEntry
from ..audit.sources import Events
from . import sums as keeping
from .rendering import embedded, render
from .sums import Sums

logger = logging.getLogger(__package__)

INTERVAL = 2.0  # seconds between two looks
REFRESH = 5  # seconds between two questions of an open page
MADE_EVERY = 1.0  # seconds between two documents, however many ask
_BATCH = 2000  # events counted under the lock at a time
_LISTED_EVERY = 300.0  # seconds between two listings of the store, and never more than a twentieth of the time
_SAVED_EVERY = 15.0
_LATE = 60.0  # seconds without a look before this is unwell
_MOST_HITS = 500_000


@dataclass(frozen=True, slots=True)
class _Shown:
    """A document, as of so many changes; made: monotonic seconds."""

    changes: int
    made: float
    document: dict[str, Any]
    text: str
    tag: str


class Live:
    """Looks for new events until `stop`. Everything else may be called from any thread.

    stored: lists the store. kept: where sums outlive this process.
    """

    def __init__(self, events: Events, stored: Callable[[], Iterable[StoredEntry]], kept: Path) -> None:
        self._events = events
        self._stored = stored
        self._kept = kept
        self._auditor = Auditor(source=events.source)
        self._sums = Sums()
        self._earlier = keeping.load(kept)
        self._hits: set[int] = set()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._changes = 0
        self._name = secrets.token_hex(6)  # of this run: its changes are counted from zero
        self._shown: _Shown | None = None
        self._trouble: str | None = None
        self._looked = time.monotonic()
        self._saved = self._listed = (-1, float("-inf"))
        self._told = False
        self._thread = threading.Thread(target=self._run, name="warmgraph-serve", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let the look that is under way end, and keep the sums."""
        self._stopping.set()
        self._thread.join(5)
        self._save()

    def trouble(self) -> str | None:
        """Why what is shown is not what there is, if so."""
        if not self._thread.is_alive() and not self._stopping.is_set():
            return "the reader has ended; its log says why"
        silent = time.monotonic() - self._looked
        return self._trouble or (f"nothing was read for {silent:.0f} s" if silent > _LATE else None)

    def page(self) -> str:
        return render(self._document().document, refresh=REFRESH)

    def json(self) -> tuple[str, str]:
        """The document as text, and a tag that changes with it."""
        shown = self._document()
        return shown.text, shown.tag

    def metrics(self, accept: str) -> tuple[bytes, str]:
        """For Prometheus, and its content type. Raises ImportError without prometheus_client."""
        from .metrics import Gauges, exposition

        document = self._document().document
        store, source = document["store"], document["source"]
        entries, size = (None, None) if store is None else (store["entries"], store["bytes"])
        up = self.trouble() is None
        gauges = Gauges(document["warmgraph"], up, entries, size, source["last"], source["skipped"])
        with self._lock:
            sums = copy.deepcopy(self._sums)
            if self._earlier is not None:  # the first look is not over: what is counted so far is less than it was
                sums.join(self._earlier)
        return exposition(sums, gauges, accept)

    def _document(self) -> _Shown:
        with self._lock:
            now, shown = time.monotonic(), self._shown
            if shown is None or (shown.changes != self._changes and now - shown.made >= MADE_EVERY):
                document = self._auditor.document(skipped=self._events.skipped).as_json()
                tag = f'"{self._name}-{self._changes}"'
                self._shown = shown = _Shown(self._changes, now, document, embedded(document), tag)
            return shown

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._look()
                self._list()
                self._trouble = None
            except StoreUnavailable as error:
                self._trouble = str(error)
                logger.info("the journal is not read: %s", error)
            if time.monotonic() - self._saved[1] > _SAVED_EVERY:
                self._save()
            self._stopping.wait(INTERVAL)

    def _look(self) -> None:
        events = iter(self._events)
        while not self._stopping.is_set():
            batch: list[EventDict] = []
            try:
                for event in islice(events, _BATCH):
                    batch.append(event)  # one by one: an error in the middle must not lose them
            finally:  # also when the server fails in the middle: what came is not given again
                self._count(batch)
            self._looked = time.monotonic()
            if not batch:
                break
        else:
            return
        if self._earlier is not None:
            with self._lock:
                self._sums.join(self._earlier)
                self._earlier = None

    def _count(self, batch: list[EventDict]) -> None:
        if not batch:
            return
        with self._lock:
            for event in batch:
                self._auditor.add(event)
                self._sums.add(event)
                if event["outcome"] == "hit" and event["key"] is not None and len(self._hits) < _MOST_HITS:
                    self._hits.add(hash(event["key"]))
            self._changes += 1

    def _list(self) -> None:
        """Which entries there are now, if something happened since they were listed."""
        at, next_time = self._listed
        began = time.monotonic()
        if at == self._changes or began < next_time:
            return
        entries = tuple(self._stored())
        took = time.monotonic() - began
        with self._lock:
            self._auditor.store = entries
            self._auditor.unhit = {one.key for one in entries if hash(one.key) not in self._hits}
            self._changes += 1
            self._listed = (self._changes, began + max(_LISTED_EVERY, 20 * took))
        self._looked = time.monotonic()

    def _save(self) -> None:
        if self._earlier is not None or self._saved[0] == self._changes:
            return
        with self._lock:
            changes, sums = self._changes, copy.deepcopy(self._sums)
        try:
            if self._kept.parent.parent.is_dir():  # no store yet, nothing to keep
                self._kept.parent.mkdir(mode=0o700, exist_ok=True)
                keeping.save(sums, self._kept)
        except OSError as error:
            if not self._told:
                logger.warning("sums are not kept over a restart: %s", error)
                self._told = True
        self._saved = (changes, time.monotonic())


def has_metrics() -> bool:
    """Whether `/metrics` can be served."""
    with suppress(ImportError):
        from . import metrics  # noqa: F401

        return True
    return False
