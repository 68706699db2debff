"""The journal: events appended to files and read back. Not a log for debugging; not counts (`counts`)."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from ..stores.disk.eviction import old_journals
from ..stores.disk.files import host_name, listing, make_folders, remove, stat_of
from ..stores.disk.layout import JOURNAL_NAME
from ..stores.disk.mount import mount_of
from ..typing import StoreUnavailable
from .events import MAX_LINE_BYTES, Event, EventDict, Outcome, decode_event, encode_event

logger = logging.getLogger(__package__)

_DIGEST_LETTERS = 16


class Journal:
    """Appends to `<dir>/<UTC day>.<host>.jsonl`. Safe for any number of processes.

    Each event is one write on a descriptor opened with O_APPEND, which the kernel puts at the end in one
    piece. NFS does not: there the client works out the end itself, and two hosts would overwrite each other.
    So each host has files of its own.

    dir: None where nothing is to be written. send: takes a line for the fleet's journal; returns at once, raises
    nothing. namespace, job: of events that do not say.
    """

    def __init__(
        self,
        dir: Path | None,
        *,
        send: Callable[[bytes], None] | None = None,
        namespace: str | None = None,
        job: str | None = None,
    ) -> None:
        self._dir = dir
        self._send = send
        self._namespace = namespace
        self._job = job
        self._told = False

    def append(self, event: Event) -> bool:
        """Write one event. Never raises; False when it could not be written here, which is logged once."""
        event = replace(event, namespace=event.namespace or self._namespace, job=event.job or self._job)
        if self._send is not None:
            # The network and its memory are dear: there the parts are cut to what tells them apart.
            with suppress(ValueError, TypeError):  # and then it cannot be written here either
                parts = {name: digest[:_DIGEST_LETTERS] for name, digest in event.parts.items()}
                self._send(encode_event(replace(event, parts=parts)).rstrip())
        if self._dir is None:
            return True
        try:
            path, line = self._dir / f"{day_of(event.time)}.{host_name()}.jsonl", encode_event(event)
            mount_of(self._dir).call(partial(_write, path, line))
        except (OSError, ValueError, OverflowError, StoreUnavailable) as error:
            if not self._told:
                logger.warning("events are not journaled in %s: %s", self._dir, error)
                self._told = True
            return False
        return True

    def outage(self, tier: str, why: str) -> None:
        """A tier stopped working."""
        self.append(Event(Outcome.SICK, tier=tier, detail=" ".join(why.split())))


class Reading:
    """An iterator over events. skipped: lines so far that were no events of ours."""

    def __init__(self, lines: Iterable[bytes | None], since: float | None = None) -> None:
        self.skipped = 0
        self._events = self._decoded(lines, since)

    def __iter__(self) -> Iterator[EventDict]:
        return self

    def __next__(self) -> EventDict:
        return next(self._events)

    def _decoded(self, lines: Iterable[bytes | None], since: float | None) -> Iterator[EventDict]:
        for line in lines:
            event = None if line is None else decode_event(line)
            if event is None:
                self.skipped += line is None or bool(line.strip())
            elif since is None or event["time"] >= since:
                yield event


def read(dir: Path, since: float | None = None) -> Reading:
    """The events in `dir` since `since` (unix seconds), by day, then host, then as written.

    Total: a torn, foreign, oversize or wrongly typed line is skipped and counted. A missing folder is empty.
    Raises StoreUnavailable when the folder cannot be listed.
    """
    return Reading(_all_lines(dir, since), since)


def _all_lines(dir: Path, since: float | None) -> Iterator[bytes]:
    for path in _files(dir, since):
        try:
            with path.open("rb") as file:
                yield from _lines(file)
        except FileNotFoundError:
            continue  # pruned since it was listed
        except OSError as error:
            logger.warning("a journal file is left out: %s", error)


def _files(dir: Path, since: float | None) -> list[Path]:
    first = "" if since is None else day_of(since)  # an event is filed under its own time, so earlier days hold none
    names = []
    for item in listing(dir):
        match = JOURNAL_NAME.fullmatch(item.name)
        if match and match[1] >= first and stat_of(item) is not None:
            names.append(item.name)
    return [dir / name for name in sorted(names)]


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines, each cut at the limit (at which it is refused); the rest of a longer one is passed over."""
    while line := file.readline(MAX_LINE_BYTES):
        yield line
        while not line.endswith(b"\n") and line:
            line = file.readline(MAX_LINE_BYTES)


def _write(path: Path, line: bytes) -> None:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:  # a day begins
        make_folders(path.parent)
        descriptor = os.open(path, flags | os.O_CREAT, 0o600)
        _remove_old(path.parent)
    try:
        written = os.write(descriptor, line)
        if written != len(line):  # a full disk; the next reader skips the torn line
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


def _remove_old(folder: Path) -> None:
    """A process that only hits publishes nothing, and nobody else may tidy up there."""
    with suppress(StoreUnavailable):
        for path in old_journals(folder, time.time()):
            remove(path)


def day_of(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))
