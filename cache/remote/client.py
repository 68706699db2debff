"""Connections to one server, built and used within deadlines. Knows nothing of entries.

redis-py does the talking. What is added: connections that a deadline can cut, and a connector that sets up a
client in a thread of its own, since names, TLS, Cluster and Sentinel discovery may all take longer than a lookup may.
Whoever asks meanwhile waits only as long as its own deadline; the connector goes on and serves the next one.

Setting up costs as few round trips as can be: RESP2 needs no HELLO, the library's name is not announced (CLIENT
SETINFO), so that only AUTH and SELECT remain, where the URL asks for them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from ..forks import reset_in_child
from ..typing import StoreUnavailable
from .calls import Call, bounded, current_call, inside, start_thread
from .errors import Use, late, unavailable
from .urls import RemoteUrl

T = TypeVar("T")

WRITE_SECONDS = 1.0  # per socket operation, and per write besides its bytes
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
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        if getattr(self, "_redis", None) is not None and self._url.kind == "cluster":
            _left_behind.append(self._redis)
        self._lock = threading.Lock()
        self._redis: Any = None  # built, perhaps not connected
        self._connected = False
        self._connector: _Connector | None = None

    def run(
        self, work: Callable[[Any], T], seconds: float, *, doing: str, use: Use = "read", inline: bool = False
    ) -> T:
        """`work(client)` within `seconds`. Raises StoreUnavailable, and nothing that `work` did not raise itself.

        doing: for the message, such as "read an entry". inline: see `bounded`.
        """

        _import_redis()  # here, so that a slow disk does not pass for a silent server

        def on_network() -> T:
            redis = self._redis if self._connected else self._wait_for_connector(seconds, inline=inline)
            return work(redis)

        try:
            say = late(self._url, doing, seconds)
            return bounded(on_network, seconds, late=say, inline=inline, abandon=self._doubt)
        except StoreUnavailable:
            raise
        except Exception as error:
            # Whatever answers may be no Redis, and redis-py's parser then raises nearly anything.
            raise unavailable(error, self._url, doing, use) from error

    def warm_up(self) -> None:
        """Start connecting in the background; what comes of it shows when the client is used.

        Also what makes a first publish at the very end possible: redis-py cannot be imported once the interpreter
        shuts down.
        """
        with self._lock:
            if not self._connected:
                self._start_connector()

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
                raise StoreUnavailable("no thread can be had for the network: the interpreter is shutting down")
            return self._connect()
        if not connector.done.wait(seconds):
            raise StoreUnavailable(late(self._url, "connect", seconds))
        if connector.error is not None:
            raise unavailable(connector.error, self._url, "connect", "read") from connector.error
        return self._redis

    def _start_connector(self) -> _Connector | None:
        """The connector that is running, or a new one. None where no thread can be had. Call with the lock held."""
        connector = self._connector
        if connector is not None and not connector.done.is_set() and time.monotonic() < connector.deadline:
            return connector
        if connector is not None and not connector.done.is_set():
            connector.call.abandon()
        patience = max(_CONNECT_SECONDS, 5 * self._url.connect_deadline)
        fresh = self._connector = _Connector(time.monotonic() + patience)

        def run() -> None:
            try:
                inside(fresh.call, self._connect)
            except Exception as error:  # noqa: BLE001 (told to whoever waits)
                fresh.error = error
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
            redis = _build(self._url, self._timeout)
        if self._url.kind != "cluster":  # a cluster's discovery has connected already
            pool = redis.connection_pool
            pool.release(pool.get_connection() if _newer() else pool.get_connection("PING"))
        with self._lock:
            self._redis, self._connected = redis, True
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


# -- building redis-py's clients


def _import_redis() -> None:
    try:
        importlib.import_module("redis")
    except (ImportError, RuntimeError) as error:  # not there; or what it imports refuses at interpreter shutdown
        raise StoreUnavailable(f"redis-py cannot be imported ({error}); pip install redis, or unset the URL") from error


def _newer() -> bool:
    """redis-py from 5.3 on wants no command name for a connection."""
    import redis

    return tuple(int(word) for word in redis.__version__.split(".")[:2]) >= (5, 3)


class _Watched:
    """A connection that tells the call it serves of itself; mixed into redis-py's classes."""

    def _connect(self) -> Any:
        call = current_call()
        if call is not None:
            call.use(self)
        return super()._connect()  # type: ignore[misc]

    def _wrap_socket_with_ssl(self, sock: Any) -> Any:
        call = current_call()
        if call is None:
            return super()._wrap_socket_with_ssl(sock)  # type: ignore[misc]
        # Wrapping takes the socket's descriptor away; a copy of it can still be cut.
        with sock.dup() as copy:
            call.use_socket(copy)
            return super()._wrap_socket_with_ssl(sock)  # type: ignore[misc]

    def send_packed_command(self, *args: Any, **options: Any) -> Any:
        call = current_call()
        if call is not None:
            call.use(self)
        return super().send_packed_command(*args, **options)  # type: ignore[misc]


@functools.cache
def _watched(base: type) -> type:
    return type(f"Watched{base.__name__}", (_Watched, base), {})


def _build(url: RemoteUrl, timeout: float) -> Any:
    """A client of redis-py. Blocks for Cluster, which asks the nodes who has what."""
    import redis
    from redis.connection import Connection, ConnectionPool, SSLConnection, UnixDomainSocketConnection

    options = _connection_options(url, timeout)
    if url.kind == "unix":
        pool = ConnectionPool(connection_class=_watched(UnixDomainSocketConnection), path=url.path, **options)
        return redis.Redis(connection_pool=pool)
    base = SSLConnection if url.encrypted else Connection
    if url.kind == "sentinel":
        return _build_sentinel(url, base, options)
    if url.kind == "cluster":
        return _build_cluster(url, base, options)
    host, port = url.hosts[0]
    pool = ConnectionPool(connection_class=_watched(base), host=host, port=port, **options)
    return redis.Redis(connection_pool=pool)


def _connection_options(url: RemoteUrl, timeout: float) -> dict[str, Any]:
    from redis.backoff import NoBackoff
    from redis.exceptions import ConnectionError as LostConnection
    from redis.retry import Retry

    options: dict[str, Any] = {
        "db": url.db,
        "username": url.username,
        "password": url.password,
        "client_name": url.client_name,
        "socket_timeout": timeout,
        "socket_connect_timeout": url.connect_deadline,
        "socket_read_size": 2**18,
        "protocol": 2,
        "decode_responses": False,
        # Once more on a fresh connection, should the server have closed the pooled one. Never after a timeout.
        "retry": Retry(NoBackoff(), 1, supported_errors=(LostConnection,)),
    }
    if url.max_connections is not None:
        options["max_connections"] = url.max_connections
    if importlib.util.find_spec("redis.driver_info") is not None:
        options["driver_info"] = None
    else:
        options |= {"lib_name": None, "lib_version": None}
    if url.encrypted:
        # Older versions of redis-py did not look at the name in the certificate unless told to.
        options |= {"ssl_check_hostname": url.tls.get("ssl_cert_reqs") != "none", **url.tls}
    return options


def _build_cluster(url: RemoteUrl, base: type, options: dict[str, Any]) -> Any:
    module: Any = importlib.import_module("redis.cluster")  # without types of its own
    kept = {name: value for name, value in options.items() if name != "db"}
    (host, port), *others = url.hosts
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    # Only when given a URL does it take a class of connections.
    retry, nodes = kept.pop("retry"), [module.ClusterNode(*other) for other in others]
    return module.RedisCluster(
        url=f"redis://{where}", startup_nodes=nodes, connection_class=_watched(base), retry=retry, **kept
    )


def _build_sentinel(url: RemoteUrl, base: type, options: dict[str, Any]) -> Any:
    import redis
    from redis.connection import ConnectionPool

    sentinel: Any = importlib.import_module("redis.sentinel")  # without types of its own

    of_sentinels = options | {"db": 0, "username": url.sentinel_username, "password": url.sentinel_password}
    manager = sentinel.Sentinel([])
    manager.sentinels = [
        redis.Redis(
            connection_pool=ConnectionPool(connection_class=_watched(base), host=host, port=port, **of_sentinels)
        )
        for host, port in url.hosts
    ]
    managed = sentinel.SentinelManagedSSLConnection if url.encrypted else sentinel.SentinelManagedConnection
    pool = sentinel.SentinelConnectionPool(url.service, manager, connection_class=_watched(managed), **options)
    return redis.Redis(connection_pool=pool)
