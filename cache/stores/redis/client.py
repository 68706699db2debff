"""Connections to one server, built and used within deadlines. Knows nothing of entries.

redis-py does the talking. What is added: connections that a deadline can cut, and a connector that sets up a
client in a thread of its own, since names, TLS, Cluster and Sentinel discovery may all take longer than a lookup may.
Whoever asks meanwhile waits only as long as its own deadline; the connector goes on and serves the next one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ...config.redis_urls import RemoteUrl
from ...process.calls import NO_THREAD, Call, bounded, current_call, inside, start_thread
from ...process.forks import reset_in_child
from ...typing import StoreSilent, StoreUnavailable
from .building import build, import_redis, wants_no_command
from .errors import Use, late, unavailable

logger = logging.getLogger(__package__)

T = TypeVar("T")

WRITE_SECONDS = 1.0  # per socket operation, and per write besides its bytes
_REPLY_BYTES = 2**20  # of any answer
_IDLE_SECONDS = 60.0  # after which a firewall may have forgotten a connection, without a word to either side
_CONNECT_SECONDS = 2.0  # in the background; then another connector may begin


# Clients of a parent, kept in the child for ever: collecting one takes locks that a parent's thread may have held.
_left_behind: list[Any] = []


class Client:
    """One redis-py client with a pool of its own. timeout: seconds per socket operation.

    Thread-safe, and safe over fork: a child connects anew and closes nothing of its parent's.
    """

    def __init__(self, url: RemoteUrl, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self.since: float | None = None  # monotonic: when the server was first connected to
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        if getattr(self, "_redis", None) is not None and self._url.kind == "cluster":
            _left_behind.append(self._redis)
        self._lock = threading.Lock()
        self._redis: Any = None  # built, perhaps not connected
        self._connected = False
        self._used = time.monotonic()
        self._connector: _Connector | None = None

    def run(
        self,
        work: Callable[[Any], T],
        seconds: float,
        *,
        doing: str,
        use: Use = "read",
        inline: bool = False,
        idle_timeout: float | None = None,
        most_bytes: int = 0,
    ) -> T:
        """`work(client)` within `seconds`. Raises StoreUnavailable, and nothing that `work` did not raise itself.

        doing: for the message, such as "read an entry". idle_timeout: the most seconds in which nothing comes, whatever
        the total. most_bytes: of the answer, beyond what any has. A write is given less time once the process is
        ending. inline: see `bounded`.
        """

        import_redis(self._url)  # here, so that a slow disk does not pass for a silent server
        shutdown_timeout = max(self._url.deadline, self._url.connect_deadline)

        self._leave_idle()

        def on_network() -> T:
            if self._connected:
                return work(self._redis)
            call = current_call()
            if call is not None:
                call.begins()
            return work(self._wait_for_connector(seconds if idle_timeout is None else idle_timeout, inline=inline))

        try:
            return bounded(
                on_network,
                seconds,
                late=late(self._url, doing, seconds),
                inline=inline,
                abandon=self._doubt,
                idle_timeout=idle_timeout,
                most_bytes=most_bytes + _REPLY_BYTES,
                shutdown_timeout=shutdown_timeout if use == "write" and shutdown_timeout < seconds else None,
            )
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 (every kind becomes ours)
            # Whatever answers may be no Redis, and redis-py's parser then raises nearly anything.
            failure = unavailable(error, self._url, doing, use)
        try:
            raise failure  # out here, so that it does not carry `error` along
        finally:
            del failure  # whose traceback leads to this frame: connections would wait for the gc

    def warm_up(self) -> None:
        """Start connecting in the background; what comes of it shows when the client is used.

        Everything is imported before any thread starts: a fork while another thread imports leaves the child with
        a lock that nobody will release. It also makes a first publish at the very end possible: redis-py cannot be
        imported once the interpreter shuts down.
        """
        try:
            import_redis(self._url)
        except StoreUnavailable as error:  # said again by `run`
            logger.debug("%s", error)
            return
        with self._lock:
            if not self._connected:
                self._start_connector()

    def connecting(self) -> bool:
        """Whether it is not connected, and may soon be."""
        connector = self._connector
        return not self._connected and connector is not None and not connector.done.is_set()

    def _leave_idle(self) -> None:
        """Connections that nobody used for long are closed, not tried: one that was forgotten on the way is silent."""
        now = time.monotonic()
        idle, self._used = now - self._used, now
        if idle > _IDLE_SECONDS and self._connected and self._url.kind not in ("cluster", "unix"):
            self._doubt()
            self._redis.connection_pool.disconnect(inuse_connections=False)

    def _doubt(self) -> None:
        """A deadline passed, perhaps while connecting anew: let the connector do that, which has more time."""
        with self._lock:
            self._connected = False

    def _wait_for_connector(self, seconds: float, *, inline: bool) -> Any:
        with self._lock:
            if self._connected:
                return self._redis
            connector = self._start_connector()
        if connector is None:
            if not inline:
                raise StoreUnavailable(NO_THREAD)
            return self._connect()
        if not connector.done.wait(seconds):
            raise StoreSilent(late(self._url, "connect", seconds))
        if connector.error is not None:
            raise unavailable(connector.error, self._url, "connect", "read")
        return self._redis

    def _start_connector(self) -> _Connector | None:
        """The connector that is running, or a new one. None where no thread can be had. Call with the lock held."""
        connector = self._connector
        if connector is not None and not connector.done.is_set() and time.monotonic() < connector.deadline:
            return connector
        if connector is not None and not connector.done.is_set():
            connector.call.abandon()
        limit = max(_CONNECT_SECONDS, 5 * self._url.connect_deadline)
        fresh = self._connector = _Connector(time.monotonic() + limit)

        def run() -> None:
            try:
                inside(fresh.call, self._connect)
            except Exception as error:  # noqa: BLE001 (told to whoever waits)
                fresh.error = error.with_traceback(None)  # which leads to `fresh`: as above
            finally:
                fresh.done.set()

        if start_thread(run, "warmgraph-connect"):
            return fresh
        self._connector = None
        return None

    def _connect(self) -> Any:
        """Build the client if need be, and leave one open connection in its pool."""
        redis = self._redis
        if redis is None:
            redis = build(self._url, self._timeout)
        if self._url.kind != "cluster":  # a cluster's discovery has connected already
            pool = redis.connection_pool
            pool.release(pool.get_connection() if wants_no_command() else pool.get_connection("PING"))
        with self._lock:
            self._redis, self._connected = redis, True
            self.since = self.since or time.monotonic()
        return redis


class _Connector:
    """One attempt at connecting, for all who wait. deadline: when it has had its time."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.call = Call()
        self.done = threading.Event()
        self.error: BaseException | None = None


class Clients:
    """small: manifests, leases, pings. large: blobs and writes, so that these never hold up a small request."""

    def __init__(self, url: RemoteUrl) -> None:
        self.url = url
        self.deadline = max(url.deadline, url.connect_deadline)
        self.small = Client(url, url.deadline)
        self.large = Client(url, max(url.deadline, WRITE_SECONDS))  # a deadline for the whole call is set besides

    def warm_up(self) -> None:
        """Start connecting in the background, so that the first lookup finds connections."""
        self.small.warm_up()
        self.large.warm_up()
