"""The fleet's journal: events in one capped stream of Redis, sent behind the caller's back. Trusts none of them.

Nothing waits for it, and no result depends on it. Events wait in a bounded queue while the server is sick; one whose
sending got no answer is given up, since it may have arrived and must not count twice; so does what finds the queue
full. All of these are counted as lost. A user who may not write here costs one word in the log, and no sickness.
"""

from __future__ import annotations

import logging
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ...process.calls import seconds_for
from ...process.forks import fork_safe_lock, reset_in_child
from ...process.writer import Writer
from ...typing import Position, StoreSilent, StoreUnavailable
from .client import WRITE_SECONDS, Clients
from .errors import Refusal
from .names import Names
from .requests import pipelined, read

logger = logging.getLogger(__package__)

MAX_EVENTS = 100_000  # in the stream, about: the oldest go. At half a kilobyte each, 50 MB of the server's memory
MAX_EVENT_BYTES = 2**16  # longer ones are for the local journal alone
_FIELD = b"e"
_LAST = 2**64 - 1  # of each number of an id
_AT_ITS_END = ("WRONGTYPE", "exhausted the last possible ID", "equal or smaller than the target stream top item")
_WAITING, _PER_REQUEST = 1024, 256
_REFUSED_SECONDS = 60.0
_PAGE, _PAGE_SECONDS = 1000, 5.0
_SLACK = 3600.0  # seconds by which a host's clock may differ from the server's, whose time the stream goes by


class EventStream:
    """Sends lines. usable: whether to try; failed: told when the server did not answer. ttl: seconds without an event
    after which the stream goes.

    lost: how many events never got there, as far as this process knows.
    """

    def __init__(
        self,
        clients: Clients,
        *,
        namespace: str,
        ttl: float,
        usable: Callable[[], bool] = lambda: True,
        failed: Callable[[StoreUnavailable], None] = lambda error: None,
    ) -> None:
        self._clients = clients
        self._name = Names(namespace).events
        self._ttl = round(min(ttl, 2**31))
        self._usable = usable
        self._failed = failed
        self._lock = fork_safe_lock()
        self._told = False
        self._writer = Writer(max_jobs=2)
        self.after_fork_in_child()
        reset_in_child(self)
        _streams.add(self)

    def after_fork_in_child(self) -> None:
        """What waits in the parent is the parent's to send."""
        self._waiting: deque[bytes] = deque()
        self._refused = float("-inf")  # monotonic: until then nothing is sent
        self.lost = 0

    def append(self, line: bytes) -> None:
        """Send an event soon. Waits for nothing, raises nothing."""
        with self._lock:
            if time.monotonic() < self._refused or len(line) > MAX_EVENT_BYTES or len(self._waiting) >= _WAITING:
                self.lost += 1
                return
            self._waiting.append(line)
        self._writer.submit(self._send)  # refused when one is queued already, and that one sends all

    def flush(self, timeout: float) -> bool:
        """Wait until all is sent, or given up; False when `timeout` seconds were too few."""
        return self._writer.flush(timeout)

    def _send(self) -> None:
        while True:
            if not self._usable():
                return  # what waits is sent with the next event, if there is one
            with self._lock:
                lines = [self._waiting.popleft() for _ in range(min(_PER_REQUEST, len(self._waiting)))]
            if not lines:
                return
            try:
                self._write(lines)
            except StoreUnavailable as error:
                self._lose(len(lines))
                self._give_up(error)
                return

    def _write(self, lines: list[bytes]) -> None:
        commands: list[tuple[Any, ...]] = [
            ("XADD", self._name, "MAXLEN", "~", MAX_EVENTS, "*", _FIELD, line) for line in lines
        ]
        commands.append(("EXPIRE", self._name, self._ttl))
        seconds = seconds_for(sum(map(len, lines)), max(WRITE_SECONDS, self._clients.deadline))
        self._clients.large.run(
            partial(_appended, name=self._name, commands=commands),
            seconds,
            doing="send events",
            use="write",
            inline=True,
        )

    def _give_up(self, error: StoreUnavailable) -> None:
        if isinstance(error, StoreSilent):
            self._failed(error)
            return
        # Not the tier's health: whoever has the rights of an older users.acl gets hits and publishes all the same.
        level = logging.DEBUG
        if isinstance(error, Refusal):
            level = logging.DEBUG if self._told else logging.INFO
            self._told = True
            # Not for good: rights are given later, and a server is a read-only replica for the length of a failover.
            self._refused = time.monotonic() + _REFUSED_SECONDS
        logger.log(level, "events do not reach the fleet's journal: %s", error)

    def _lose(self, count: int) -> None:
        with self._lock:
            self.lost += count


_streams: weakref.WeakSet[EventStream] = weakref.WeakSet()


def events_lost() -> int:
    """How many events of this process did not get to a stream."""
    return sum(stream.lost for stream in list(_streams))


class StreamTail:
    """What came into the stream since the last look, oldest first.

    since: Unix seconds; what came long before it is not read. In pages: one that does not come in time (anyone who
    may write there may write gigabytes) is asked for again in smaller pieces.
    """

    def __init__(self, clients: Clients, namespace: str, since: float | None = None) -> None:
        self._clients = clients
        self._name = Names(namespace).events
        self._start: str | None = "-" if since is None else str(max(0, int((since - _SLACK) * 1000)))

    def new(self) -> Iterator[tuple[Position, bytes | None]]:
        """Lines and where each stands; None for what is no line of ours. Raises StoreUnavailable.

        What was not taken from the iterator is new again the next time.
        """
        count = _PAGE
        while self._start is not None:
            try:
                page = self._clients.large.run(
                    partial(_page, name=self._name, start=self._start, count=count),
                    max(_PAGE_SECONDS, self._clients.deadline),
                    doing="read events",
                    most_bytes=_PAGE * MAX_EVENT_BYTES,
                )
            except StoreSilent:
                if count == 1:
                    raise
                count = 1
                continue
            for number, line in page:
                self._start = _after(number)
                yield ("stream", number), line
            if len(page) < count:
                return
            count = min(_PAGE, 2 * count)


def _appended(redis: Any, name: str, commands: list[tuple[Any, ...]]) -> None:
    """Run commands that add to the stream. One that takes no more (something else lies in its place, or its last id is
    the greatest that there is) begins anew.
    """
    from redis.exceptions import ResponseError

    try:
        pipelined(redis, commands)
    except ResponseError as error:
        if not any(said in str(error) for said in _AT_ITS_END):
            raise
        pipelined(redis, [("UNLINK", name), *commands])


def _page(redis: Any, name: str, start: str, count: int) -> list[tuple[tuple[int, int], bytes | None]]:
    """(id, line) of up to `count` events. Raises ValueError for what is no answer to XRANGE."""
    [answer] = read(redis, [("XRANGE", name, start, "+", "COUNT", count)])
    if answer is None:  # something else lies there, until the next event is sent
        return []
    if not isinstance(answer, list) or not all(isinstance(item, tuple) and len(item) == 2 for item in answer):
        raise ValueError("not the answer to XRANGE")
    return [(_number(number), _line(fields)) for number, fields in answer]


def _number(text: bytes) -> tuple[int, int]:
    milliseconds, _, sequence = text.partition(b"-")
    return int(milliseconds), int(sequence)


def _line(fields: Any) -> bytes | None:
    line = fields.get(_FIELD) if isinstance(fields, dict) and len(fields) == 1 else None
    return line if isinstance(line, bytes) else None


def _after(number: tuple[int, int]) -> str | None:
    """The first id that comes after this one, if any can: servers before 6.2 know no open intervals."""
    milliseconds, sequence = number
    if sequence < _LAST:
        return f"{milliseconds}-{sequence + 1}"
    return f"{milliseconds + 1}-0" if milliseconds < _LAST else None
