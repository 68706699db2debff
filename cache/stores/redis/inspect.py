"""What lies in a namespace, and how the server is doing: for people and tools. No lookup needs it.

Every step is bounded by itself; a scan takes as many as there are.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any

from msgspec import Struct

from ...process.calls import seconds_for
from ...typing import StoreUnavailable
from .chunks import PIECE_BYTES
from .client import Clients
from .names import Names
from .requests import lengths_at, nodes_of, pipelined, values_at

_STEP_SECONDS = 5.0
_STEP_BYTES = 16 * 2**20
_PER_PAGE = 500
_ROUND_TRIPS = 20
_TRIAL_PIECES = 8
_CLOCK_SECONDS = 10.0


class RemoteUsage(Struct, frozen=True):
    """entries and pieces: how many; bytes: of all pieces, None when not asked for."""

    entries: int
    pieces: int
    bytes: int | None


def keys(clients: Clients, names: Names, prefix: str = "") -> Iterator[str]:
    """Each key that begins with `prefix` and has entries."""
    for _, page in _pages(clients, names.entries_from(prefix)):
        yield from (key for name in page if (key := names.key_of(name)) is not None)


def usage(clients: Clients, names: Names, entries: Iterable[object], *, count_bytes: bool) -> RemoteUsage:
    """entries: an iterable of as many things as there are entries."""
    pieces, size = 0, 0
    for node, page in _pages(clients, names.all_pieces):
        ours = [name for name in page if names.digest_of(name) is not None]
        pieces += len(ours)
        if count_bytes and ours:
            size += sum(_on_node(clients, node, "measure", lengths_at, ours))
    return RemoteUsage(sum(1 for _ in entries), pieces, size if count_bytes else None)


def ping(clients: Clients, names: Names, *, readonly: bool) -> dict[str, Any]:
    """How the server is doing; None for what this user may not ask. Raises StoreUnavailable when it does not answer.

    Seconds, bytes, bytes per second. Writes 8 MiB that expire and are removed at once, unless readonly.
    """
    _step(clients, "connect", lambda redis: [node.ping() for node in nodes_of(redis)])
    info = _info(clients)
    url = clients.url
    up, down = (None, None) if readonly else _bandwidth(clients, names)
    return {
        "url": url.masked,
        "kind": "valkey" if "valkey_version" in info else "redis" if info else None,
        "version": info.get("valkey_version") or info.get("redis_version"),
        "mode": url.kind if url.kind in ("cluster", "sentinel") else info.get("redis_mode"),
        "tls": url.encrypted,
        "local": url.local,
        "round_trip_seconds": _round_trip(clients, names),
        "bytes_per_second_up": up,
        "bytes_per_second_down": down,
        "can_read": _works(clients, "read", lambda redis: values_at(redis, [(names.probe, 1)])),
        "can_write": not readonly
        and _works(clients, "write", lambda redis: pipelined(redis, [("SET", names.probe, b"1", "PX", 1000)])),
        "maxmemory": info.get("maxmemory"),
        "used_memory": info.get("used_memory"),
        "maxmemory_policy": info.get("maxmemory_policy"),
        "persistence": _persistence(clients, info),
        "evicted_keys": info.get("evicted_keys"),
        "clock_ahead_seconds": _clock_ahead(clients),
    }


def advice(found: dict[str, Any]) -> list[str]:
    """What is wrong with a server's settings, and how to put it right; from what `ping` found."""
    policy, version = found.get("maxmemory_policy"), found.get("version")
    lines = []
    if not found.get("can_read"):
        lines.append("this user may not read: give it the rights of warmgraph-reader, see deploy/users.acl")
    if found.get("maxmemory") == 0:
        lines.append("no maxmemory is set, so it grows until the host's memory is full: set maxmemory")
    if policy == "noeviction":
        lines.append("maxmemory-policy noeviction refuses writes once it is full: set allkeys-lru")
    elif isinstance(policy, str) and policy.startswith("volatile-"):
        lines.append(f"maxmemory-policy {policy} evicts only what expires, and everybody's alike: set allkeys-lru")
    if found.get("persistence"):
        lines.append('it saves to disk, which a cache does not need and pays for with pauses: save "", appendonly no')
    if not found.get("tls") and not found.get("local"):
        lines.append("there is no TLS on the way to another host: anyone in between reads along; use rediss://")
    if isinstance(version, str) and found.get("kind") == "redis" and _before(version, (6, 2)):
        lines.append(f"Redis {version} is old and gets no fixes: use 7, or Valkey")
    ahead = found.get("clock_ahead_seconds")
    if isinstance(ahead, float) and abs(ahead) > _CLOCK_SECONDS:
        lines.append(
            f"its clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this host's, and what a host "
            "publishes whose clock is behind may be taken for old: let both follow NTP"
        )
    trip, down = found.get("round_trip_seconds"), found.get("bytes_per_second_down")
    if isinstance(trip, float) and trip > 0.05:
        lines.append(f"a round trip takes {trip * 1e3:.0f} ms: a nearer server, or ?socket_timeout=1 in the URL")
    if isinstance(down, float) and down < 8 * 2**20:
        lines.append(f"it sends {down / 2**20:.1f} MB/s; below 4 MB/s, blobs are given up: a faster way is needed")
    return lines


# -- inside


def _step(clients: Clients, doing: str, work: Callable[[Any], Any], seconds: float = _STEP_SECONDS) -> Any:
    return clients.large.run(work, max(seconds, clients.deadline), doing=doing, most_bytes=_STEP_BYTES)


def _on_node(clients: Clients, number: int, doing: str, work: Callable[..., Any], *arguments: Any) -> Any:
    def on_it(redis: Any) -> Any:
        nodes = nodes_of(redis)
        node = nodes[min(number, len(nodes) - 1)]  # fewer than before: the cluster has changed meanwhile
        return work(node, *arguments)

    return _step(clients, doing, on_it)


def _page(redis: Any, cursor: int, pattern: str) -> Any:
    return redis.scan(cursor, match=pattern, count=_PER_PAGE)


def _pages(clients: Clients, pattern: str) -> Iterator[tuple[int, list[bytes]]]:
    """(number of the node, names that it has), page by page."""
    count = _step(clients, "list entries", lambda redis: len(nodes_of(redis)))
    for node in range(count):
        cursor, done = 0, False
        while not done:
            cursor, page = _on_node(clients, node, "list entries", _page, cursor, pattern)
            done = cursor == 0
            yield node, [name for name in page if isinstance(name, bytes)]


def _works(clients: Clients, doing: str, work: Callable[[Any], Any]) -> bool:
    try:
        _step(clients, doing, work)
    except StoreUnavailable:
        return False
    return True


def _info(clients: Clients) -> dict[str, Any]:
    """Redis' own account; of one node, in a cluster. Empty when this user may not ask."""
    try:
        answer = _step(clients, "ask for INFO", lambda redis: nodes_of(redis)[0].info())
    except StoreUnavailable:
        return {}
    return answer if isinstance(answer, dict) else {}


def _persistence(clients: Clients, info: dict[str, Any]) -> bool | None:
    """Whether it saves to disk, by snapshots or by a log."""
    if info.get("aof_enabled"):
        return True
    try:
        settings = _step(clients, "ask for CONFIG", lambda redis: nodes_of(redis)[0].config_get("save"))
    except StoreUnavailable:
        return None
    return bool(settings.get("save")) if isinstance(settings, dict) else None


def _clock_ahead(clients: Clients) -> float | None:
    """Seconds by which the server's clock is ahead of ours, to about a round trip. None when it may not be asked."""
    try:
        seconds, microseconds = _step(clients, "ask for TIME", lambda redis: nodes_of(redis)[0].time())
    except (StoreUnavailable, TypeError, ValueError):  # not permitted, or an answer that is no time
        return None
    return float(seconds) + float(microseconds) / 1e6 - time.time()


def _round_trip(clients: Clients, names: Names) -> float:
    """The median over small requests, in seconds."""

    def measure(redis: Any) -> float:
        trips = []
        for _ in range(_ROUND_TRIPS):
            start = time.perf_counter()
            values_at(redis, [(names.entries(f"wg1{'0' * 64}"), 1)])
            trips.append(time.perf_counter() - start)
        return statistics.median(trips)

    seconds = max(_STEP_SECONDS, _ROUND_TRIPS * clients.deadline)
    return float(clients.small.run(measure, seconds, doing="measure round trips"))


def _bandwidth(clients: Clients, names: Names) -> tuple[float | None, float | None]:
    """Bytes per second to the server and back, by random bytes in pieces as blobs have them."""
    piece, size = os.urandom(PIECE_BYTES), _TRIAL_PIECES * PIECE_BYTES
    keys = names.pieces(os.urandom(32).hex(), _TRIAL_PIECES)
    seconds = seconds_for(size, _STEP_SECONDS)

    def timed(work: Callable[[Any], Any]) -> float:
        start = time.perf_counter()
        _step(clients, "measure bandwidth", work, seconds)
        return size / (time.perf_counter() - start)

    try:
        up = timed(lambda redis: pipelined(redis, [("SET", key, piece, "EX", 60) for key in keys]))
        return up, timed(lambda redis: values_at(redis, [(key, PIECE_BYTES) for key in keys]))
    except StoreUnavailable:
        return None, None
    finally:
        with suppress(StoreUnavailable):
            _step(clients, "clean up", lambda redis: pipelined(redis, [("UNLINK", key) for key in keys]))


def _before(version: str, than: tuple[int, int]) -> bool:
    words = version.split(".")[:2]
    return len(words) == 2 and all(word.isdigit() for word in words) and (int(words[0]), int(words[1])) < than
