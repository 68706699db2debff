"""Calls that take at most so long, whatever the network does. Not what they call.

A deadline on each `recv` is not enough: a server that sends a byte per second never misses one, and a name that does
not resolve has no deadline at all. So the work runs in a thread of its own, and whoever asked waits only so long.
Then the connections in use are cut, which ends the thread; one that hangs in getaddrinfo can only be left behind.
"""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ..typing import StoreSilent, StoreUnavailable
from .exits import ending

T = TypeVar("T")

MIN_BANDWIDTH = 4 * 2**20  # bytes per second; a server slower than this is not worth waiting for
_BUSY_SECONDS = 1.0  # that may be spent beyond a deadline when it is this process that is late
_LATE_SECONDS = 0.01  # that a thread wakes up too late by: other threads do not let it run
_TICK = 0.02  # seconds between two looks at whether the process is ending


def seconds_for(size: int, base: float) -> float:
    """How long a request that moves `size` bytes may take; base: seconds for one that moves none."""
    return base + size / MIN_BANDWIDTH


class ReplyTooLong(Exception):
    """More came than was asked for: no Redis answers so."""


class Call:
    """What one piece of work is using, so that it can be stopped from outside.

    A connection is noted when it is used, and forgotten when another call uses it: pools pass them on.
    idle_timeout: the most seconds in which nothing comes, if less than a connection allows. shutdown_timeout: the
    same, once the process is ending. most_bytes: that may come in all.
    """

    def __init__(
        self,
        *,
        idle_timeout: float | None = None,
        shutdown_timeout: float | None = None,
        most_bytes: float = float("inf"),
    ) -> None:
        self._bytes_left = most_bytes
        self.idle_timeout = idle_timeout
        self.shutdown_timeout = shutdown_timeout
        self._begun = False  # something was sent, or connecting began
        self._moved = time.monotonic()  # when something was last sent or received
        self._received = False
        self._lock = threading.Lock()
        self._users: list[Any] = []  # connections of redis-py
        self._sockets: list[Any] = []  # raw ones, while TLS is being agreed on
        self._over = False

    def use(self, connection: Any) -> None:
        """Note a connection. Raises StoreUnavailable when nobody waits any more: not worth another try."""
        with self._lock:
            if self._over:
                raise StoreSilent("nobody waits for this any more")
            connection.warmgraph_call = self
            if connection not in self._users:
                self._users.append(connection)

    def use_socket(self, sock: Any) -> None:
        with self._lock:
            self._sockets.append(sock)

    @property
    def timeout(self) -> float | None:
        """Seconds for one socket operation; None: as the connection has it."""
        return self.shutdown_timeout if self.shutdown_timeout is not None and ending() else self.idle_timeout

    def begins(self) -> None:
        """Connecting begins: from now on it is others who are late."""
        self._begun = True

    def asked_at(self, now: float) -> float:
        """When something was last sent or received; `now` when the thread did not even come to ask."""
        return self._moved if self._begun else now

    def moves(self, *, received: bool = False) -> None:
        """Something was sent, or received."""
        self._begun = True
        self._moved = time.monotonic()
        self._received = self._received or received

    def comes(self, count: int) -> None:
        """So many bytes were received. Raises ReplyTooLong."""
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise ReplyTooLong("more bytes than were asked for")

    def is_stuck(self) -> bool:
        """Whether the process is ending, and nothing has moved for too long."""
        return (
            self.shutdown_timeout is not None and ending() and time.monotonic() - self._moved >= self.shutdown_timeout
        )

    def has_answer(self) -> bool:
        """Whether an answer is there, which a thread of a busy process did not come to read, or to hand over, yet."""
        if self._received:
            return True
        poll = select.poll()
        with self._lock, suppress(OSError, ValueError, AttributeError):  # closed by its thread meanwhile
            for user in self._users:
                if user._sock is not None and getattr(user, "warmgraph_call", None) is self:
                    poll.register(user._sock, select.POLLIN)
            return bool(poll.poll(0))
        return False

    @property
    def is_abandoned(self) -> bool:
        """Whether nobody waits for it any more: what it has not done yet should be left undone."""
        return self._over

    def end(self) -> None:
        """Let go of what was used. A connection that refers to us would otherwise never be freed but by the gc."""
        with self._lock:
            self._users.clear()
            self._sockets.clear()

    def abandon(self) -> None:
        """Cut what is in use, and let nothing new begin."""
        import socket

        with self._lock:
            self._over = True
            sockets = [user._sock for user in self._users if getattr(user, "warmgraph_call", None) is self]
            sockets += self._sockets
        for sock in sockets:
            if sock is None:  # its thread has closed it already
                continue
            with suppress(OSError):
                sock = getattr(sock, "plain", sock)
                # Not `sock.shutdown`: an SSLSocket's own pulls away what the other thread is reading with.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)


_local = threading.local()


def current_call() -> Call | None:
    """The call that this thread works for."""
    return getattr(_local, "call", None)


def inside(call: Call, work: Callable[[], T]) -> T:
    """Run `work` here, for `call`."""
    outer = current_call()
    _local.call = call
    try:
        return work()
    finally:
        _local.call = outer
        call.end()


def start_thread(work: Callable[[], None], name: str) -> bool:
    """Run `work` in a daemon thread; False when none can be had (the interpreter is shutting down)."""
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:
        return False
    return True


NO_THREAD = "no thread can be had for the network: the process is ending, or a limit is reached (pids.max, ulimit -u)"


def bounded(
    work: Callable[[], T],
    seconds: float,
    *,
    late: str,
    inline: bool = False,
    abandon: Callable[[], None] | None = None,
    idle_timeout: float | None = None,
    shutdown_timeout: float | None = None,
    most_bytes: float = float("inf"),
) -> T:
    """The result of `work`, or what it raised. After `seconds`: StoreSilent(late), and `abandon` is called.

    A process that is too busy to ask, or to read an answer that is there, does not blame the server: it takes up to
    _BUSY_SECONDS more for that. idle_timeout, shutdown_timeout, most_bytes: see `Call`.

    inline: where no thread can be had, run it here all the same. For work that nobody in the foreground waits for:
    since Python 3.12 no thread starts once the interpreter shuts down, which is when last results are written.
    """
    call = Call(idle_timeout=idle_timeout, shutdown_timeout=shutdown_timeout, most_bytes=most_bytes)
    done = threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []
    begin = time.monotonic()

    def run() -> None:
        try:
            results.append(inside(call, work))
        except BaseException as error:  # noqa: BLE001 (raised again below, in the thread that asked)
            errors.append(error)
        finally:
            done.set()

    if not start_thread(run, "warmgraph-remote"):
        if not inline:
            raise StoreUnavailable(NO_THREAD)
        run()
    try:
        in_time = _in_time(done, call, seconds, begin)
    except BaseException:  # interrupted by the user: nobody waits any more
        call.abandon()
        raise
    if not in_time:
        call.abandon()
        if abandon is not None:
            abandon()
        raise StoreSilent(late)
    if errors:
        raise errors.pop()
    return results.pop()


def _in_time(done: threading.Event, call: Call, seconds: float, begin: float) -> bool:
    """Wait for `done` until the deadline; beyond it only while it is this process that is late."""
    quiet = seconds if call.idle_timeout is None else min(seconds, call.idle_timeout)
    end, last = begin + seconds, begin + seconds + _BUSY_SECONDS
    while not done.wait(max(0.0, end - time.monotonic()) if call.shutdown_timeout is None else _TICK):
        now = time.monotonic()
        if call.is_stuck():
            return False
        if now < end:
            continue
        if now - end > _LATE_SECONDS:  # nor did the other thread get to run: the answer may be in its hands
            end = now + quiet
        elif call.has_answer():
            end = last
        else:
            end = call.asked_at(now) + quiet
        if now >= min(end, last):
            return False
    return True
