"""Calls that take at most so long, whatever the network does. Not what they call.

A deadline on each `recv` is not enough: a server that sends a byte per second never misses one, and a name that does
not resolve has no deadline at all. So the work runs in a thread of its own, and whoever asked waits only so long.
Then the connections in use are cut, which ends the thread; one that hangs in getaddrinfo can only be left behind.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from ..typing import StoreUnavailable

T = TypeVar("T")

MIN_BANDWIDTH = 4 * 2**20  # bytes per second; a server slower than this is not worth waiting for


def seconds_for(size: int, base: float) -> float:
    """How long a request that moves `size` bytes may take; base: seconds for one that moves none."""
    return base + size / MIN_BANDWIDTH


class Call:
    """What one piece of work is using, so that it can be stopped from outside.

    A connection is noted when it is used, and forgotten when another call uses it: pools pass them on.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: list[Any] = []  # connections of redis-py
        self._sockets: list[Any] = []  # raw ones, while TLS is being agreed on
        self._over = False

    def use(self, connection: Any) -> None:
        """Note a connection. Raises StoreUnavailable when nobody waits any more: not worth another try."""
        with self._lock:
            if self._over:
                raise StoreUnavailable("nobody waits for this any more")
            connection.warmgraph_call = self
            if connection not in self._users:
                self._users.append(connection)

    def use_socket(self, sock: Any) -> None:
        with self._lock:
            self._sockets.append(sock)

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


def bounded(
    work: Callable[[], T],
    seconds: float,
    *,
    late: str,
    inline: bool = False,
    abandon: Callable[[], None] | None = None,
) -> T:
    """The result of `work`, or what it raised. After `seconds`: StoreUnavailable(late), and `abandon` is called.

    inline: where no thread can be had, run it here all the same. For work that nobody in the foreground waits for:
    since Python 3.12 no thread starts once the interpreter shuts down, which is when last results are written.
    """
    call = Call()
    done = threading.Event()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(inside(call, work))
        except BaseException as error:  # noqa: BLE001 (raised again below, in the thread that asked)
            errors.append(error)
        finally:
            done.set()

    if not start_thread(run, "warmgraph-remote"):
        if not inline:
            raise StoreUnavailable("no thread can be had for the network: the interpreter is shutting down")
        run()
    try:
        in_time = done.wait(seconds)
    except BaseException:  # interrupted by the user: nobody waits any more
        call.abandon()
        raise
    if not in_time:
        call.abandon()
        if abandon is not None:
            abandon()
        raise StoreUnavailable(late)
    if errors:
        raise errors.pop()
    return results.pop()
