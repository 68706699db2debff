"""redis-py's clients as we want them, and connections that tell the call they serve of themselves. Connects nothing.

Setting up costs as few round trips as can be: RESP2 needs no HELLO, the library's name is not announced (CLIENT
SETINFO), so that only AUTH and SELECT remain, where the URL asks for them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Iterable, Iterator
from typing import Any

from ...config.redis_urls import RemoteUrl
from ...process.calls import Call, current_call
from ...typing import StoreUnavailable


def import_redis(url: RemoteUrl) -> None:
    """Import all that talking to `url` needs, also what redis-py, sockets and blobs would import when first used."""
    special = ("redis.cluster",) if url.kind == "cluster" else ("redis.sentinel",) if url.kind == "sentinel" else ()
    try:
        for name in ("redis", "redis.exceptions", *special, "encodings.idna", "zstandard", "msgpack"):
            importlib.import_module(name)
    except Exception as error:  # not there, broken, of another version; or refused at interpreter shutdown
        raise StoreUnavailable(f"redis-py cannot be imported ({error}); pip install redis, or unset the URL") from error


def wants_no_command() -> bool:
    """redis-py from 5.3 on wants no command name for a connection."""
    import redis

    return tuple(int(word) for word in redis.__version__.split(".")[:2]) >= (5, 3)


class _Counted:
    """A socket that counts what comes, for the call that its thread works for. plain: the socket itself."""

    def __init__(self, plain: Any) -> None:
        self.plain = plain

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def recv(self, *args: Any) -> Any:
        return self._counted(len(data := self.plain.recv(*args)), data)

    def recv_into(self, *args: Any) -> Any:
        return self._counted(count := self.plain.recv_into(*args), count)

    def _counted(self, count: int, answer: Any) -> Any:
        call = current_call()
        if call is not None:
            call.comes(count)
        return answer


class _Watched:
    """A connection that tells the call it serves of itself; mixed into redis-py's classes."""

    _sock: Any

    def _connect(self) -> Any:
        call = current_call()
        if call is None:
            return _Counted(super()._connect())  # type: ignore[misc]
        call.use(self)
        call.begins()
        sock = _Counted(super()._connect())  # type: ignore[misc]
        self._set_timeout(sock, call)
        return sock

    def _wrap_socket_with_ssl(self, sock: Any) -> Any:
        call = current_call()
        if call is None:
            return super()._wrap_socket_with_ssl(sock)  # type: ignore[misc]
        # Wrapping takes the socket's descriptor away; a copy of it can still be cut.
        with sock.dup() as copy:
            call.use_socket(copy)
            return super()._wrap_socket_with_ssl(sock)  # type: ignore[misc]

    def send_packed_command(self, command: Any, *args: Any, **options: Any) -> Any:
        call = current_call()
        if call is None:
            return super().send_packed_command(command, *args, **options)  # type: ignore[misc]
        call.use(self)
        self._set_timeout(self._sock, call)
        parts = [command] if isinstance(command, (str, bytes)) else command
        return super().send_packed_command(_noting(parts, call), *args, **options)  # type: ignore[misc]

    def read_response(self, *args: Any, **options: Any) -> Any:
        # A late answer must not pass for the next one's. Of all connections Sentinel's alone stay open by default.
        options.setdefault("disconnect_on_error", True)
        answer = super().read_response(*args, **options)  # type: ignore[misc]
        call = current_call()
        if call is not None:
            call.moves(received=True)
        return answer

    def _set_timeout(self, sock: Any, call: Call) -> None:
        """As this call wants it; the connection's own one, where the last call wanted another."""
        own: float = self.socket_timeout  # type: ignore[attr-defined]
        seconds = own if call.timeout is None else min(own, call.timeout)
        if sock is not None and sock.gettimeout() != seconds:
            sock.settimeout(seconds)


def _noting(parts: Iterable[Any], call: Call) -> Iterator[Any]:
    """`parts`, each taken when the one before it was sent."""
    for part in parts:
        yield part
        call.moves()


@functools.cache
def _watched(base: type) -> type:
    return type(f"Watched{base.__name__}", (_Watched, base), {})


def build(url: RemoteUrl, timeout: float) -> Any:
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
