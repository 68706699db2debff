"""What went wrong between us and the server, in words: what failed, on what, what to do. The one table of it.

redis-py's exceptions, the system's and the server's own error codes all become StoreUnavailable here. What a server
says is shown shortened, printable, and without the URL's secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from ...config.redis_urls import RemoteUrl
from ...typing import StoreSilent, StoreUnavailable

Use = Literal["read", "write"]

# redis-py takes the code off the message and makes a class of it; here is the way back. Subclasses first.
_CODES = {
    "BusyLoadingError": "LOADING",
    "OutOfMemoryError": "OOM",
    "ReadOnlyError": "READONLY",
    "NoPermissionError": "NOPERM",
    "AuthorizationError": "NOPERM",
    "AuthenticationWrongNumberOfArgsError": "AUTH",
    "AuthenticationError": "AUTH",
    "MasterDownError": "MASTERDOWN",
    "ClusterDownError": "CLUSTERDOWN",
    "ClusterError": "CLUSTERDOWN",
    "SlotNotCoveredError": "CLUSTERDOWN",
    "TryAgainError": "TRYAGAIN",
    "MovedError": "MOVED",
    "AskError": "MOVED",
    "MaxConnectionsError": "POOL",
    "MasterNotFoundError": "SENTINEL",
    "InvalidResponse": "PROTOCOL",
    "ReplyTooLong": "PROTOCOL",
    "NoScriptError": "NOSCRIPT",
}
_WORDS = {
    "LOADING": ("it is loading its data", "it will be used again once it is up"),
    "OOM": ("its memory is full", "maxmemory with noeviction: set allkeys-lru, see deploy/redis.conf"),
    "READONLY": (
        "it is a read-only replica",
        "give the primary's address, or redis+sentinel://; or set WARMGRAPH_URL_MODE=readonly",
    ),
    "AUTH": ("it does not accept the user name or password", "correct them in WARMGRAPH_URL"),
    "NOAUTH": ("it asks for a password", "put it into WARMGRAPH_URL: redis://user:password@host"),
    "MASTERDOWN": ("it is a replica without its primary", "see that the primary is up"),
    "CLUSTERDOWN": ("the cluster is down, or not all of it can be reached", "see `redis-cli cluster info`"),
    "TRYAGAIN": ("the cluster is moving these keys", "it will be used again once that is done"),
    "MOVED": ("it is part of a cluster", "begin the URL with redis+cluster://"),
    "POOL": ("too many connections of this process are in use", "raise max_connections in the URL"),
    "SENTINEL": (
        "no sentinel names a primary for this service",
        "see that the sentinels are up and the service's name is right",
    ),
    "PROTOCOL": ("what answers is not a Redis server", "correct host and port; a TLS port needs rediss://"),
    "NOCLUSTER": ("it is not part of a cluster", "begin the URL with redis:// (rediss:// for TLS)"),
    "MISCONF": (
        "it refuses writes since it cannot save its data to disk",
        "a cache needs no persistence: see deploy/redis.conf",
    ),
    "WRONGTYPE": (
        "a key of ours holds something else",
        "another program uses this namespace; set another WARMGRAPH_NAMESPACE",
    ),
    "NOSCRIPT": (
        "warmgraph's scripts are not loaded there",
        "an administrator runs `warmgraph install-scripts`, again after each restart of the server",
    ),
    "NOREPLICAS": ("it has too few replicas to accept writes", "see min-replicas-to-write in its configuration"),
    "BUSY": ("it is busy with a script", "it will be used again once that is done"),
    "CLIENTS": ("it has no room for another client", "raise maxclients, see deploy/redis.conf"),
    "DB": ("it has no database of this number", "correct the number at the end of WARMGRAPH_URL"),
    "REFUSED": ("connection refused", "see that the server is up and that host and port are right"),
    "NAME": ("its name does not resolve", "correct the host in WARMGRAPH_URL"),
    "TLS": (
        "TLS failed",
        "see ssl_ca_certs, ssl_certfile and ssl_keyfile in the URL, and that the certificate names the host",
    ),
    "FILE": (
        "a file or socket is not there, or may not be opened",
        "see that the server is up and that the paths in WARMGRAPH_URL are right",
    ),
    "SILENT": ("no answer in time", "see that it is up and near; for a far one add ?socket_timeout=1 to the URL"),
    "CLOSED": ("the connection failed or was closed", "see that it is up; a TLS port needs rediss://, others redis://"),
    "UNKNOWN": ("something failed", "`redis-cli -u <url> ping` may tell more"),
}
_NOPERM = {
    "read": ("the user may not read", "give it the rights of warmgraph-reader, see deploy/users.acl"),
    "write": (
        "the user may not write",
        "set WARMGRAPH_URL_MODE=readonly, or give it the rights of warmgraph-writer, see deploy/users.acl",
    ),
}
_MAY_PASS = frozenset({"LOADING", "SILENT", "CLOSED", "REFUSED", "NAME"})  # nobody answered, or not yet
_USELESS = frozenset({"NOPERM", "READONLY"})
_IN_TEXT = re.compile(
    r"\b(READONLY|OOM|NOPERM|MISCONF|WRONGTYPE|NOREPLICAS|NOAUTH|WRONGPASS|LOADING|BUSY|CLUSTERDOWN|MASTERDOWN|MOVED)\b"
)


class Refusal(StoreUnavailable):
    """Asking again is useless: the user may not, or the server takes no writes."""


def unavailable(error: BaseException, url: RemoteUrl, doing: str, use: Use) -> StoreUnavailable:
    """What to tell of `error`. doing: such as "read an entry"; use: what the user's rights are needed for.

    To be raised without `error` as its cause or context: a server may repeat secrets, and only the message is scrubbed.
    """
    if isinstance(error, StoreUnavailable):
        return error
    code = _code(error)
    what, advice = _NOPERM[use] if code == "NOPERM" else _WORDS[code]
    kind = StoreSilent if code in _MAY_PASS else Refusal if code in _USELESS else StoreUnavailable
    return kind(f"cannot {doing} at {url.masked}: {what} ({_said(error, url)}); {advice}")


def late(url: RemoteUrl, doing: str, seconds: float) -> str:
    """What to tell of a deadline that passed."""
    _, advice = _WORDS["SILENT"]
    return f"cannot {doing} at {url.masked}: no answer within {seconds:.2g} s; {advice}"


def _code(error: BaseException) -> str:
    import redis.exceptions as foreign

    text = str(error)
    if "max number of clients" in text:
        return "CLIENTS"
    if "cluster mode is not enabled" in text.lower() or "cluster support disabled" in text.lower():
        return "NOCLUSTER"
    named = next((_CODES[kind.__name__] for kind in type(error).__mro__ if kind.__name__ in _CODES), None)
    if named == "AUTH" and ("uthentication required" in text or "NOAUTH" in text):
        return "NOAUTH"
    if named is not None:
        return named
    if isinstance(error, foreign.ResponseError):
        match = _IN_TEXT.search(text)  # an old server wraps the code when a script meets it
        if match:
            return "AUTH" if match[1] == "WRONGPASS" else match[1]
        return "DB" if "DB index" in text else "UNKNOWN"
    return _system_code(error)


def _system_code(error: BaseException) -> str:
    """By what lies beneath: redis-py wraps the system's errors and keeps them as context."""
    import socket
    import ssl

    import redis.exceptions as foreign

    chain = list(_chain(error))
    kinds: tuple[tuple[str, tuple[type[BaseException], ...]], ...] = (  # the telling ones first
        ("TLS", (ssl.SSLError,)),
        ("NAME", (socket.gaierror,)),
        ("REFUSED", (ConnectionRefusedError,)),
        ("FILE", (FileNotFoundError, PermissionError)),
        ("SILENT", (foreign.TimeoutError, TimeoutError, socket.timeout)),
        ("CLOSED", (foreign.ConnectionError, OSError, EOFError)),
    )
    for code, types in kinds:
        if any(isinstance(link, types) for link in chain):
            return code
    # An answer in another language makes the parser raise nearly anything.
    return "UNKNOWN" if isinstance(error, (foreign.RedisError, foreign.RedisClusterException)) else "PROTOCOL"


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    step: BaseException | None = error
    while step is not None and id(step) not in seen:
        seen.add(id(step))
        yield step
        step = step.__cause__ or step.__context__


def _said(error: BaseException, url: RemoteUrl) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    shown = "".join(letter if letter.isprintable() else "?" for letter in url.scrub(text))
    return shown if len(shown) <= 160 else f"{shown[:157]}..."
