"""A Redis, and what there is beside its store: leases, who is present, the fleet's journal.

Imported where settings name one: no other start pays for it (4 ms).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from .config.config import Settings, rank, ranks_of
from .config.parsing import Mode
from .format.seal import Verifier
from .stores.circuit_breaker import Health
from .stores.redis import EventStream, Presence, RedisLease, RedisLeases, RedisStore, told_every
from .tiers.healing import Healing
from .typing import Held, Lease, Leases, StoreUnavailable

__all__ = ["healing_beside", "leases_beside", "open_store", "stream_beside", "told_every"]


def open_store(settings: Settings, readonly: bool, revoked: Callable[[bytes], bool]) -> RedisStore:
    """The server that these settings name. revoked: is told the list of revocations that it has."""
    assert settings.url is not None
    return RedisStore(settings.url, namespace=settings.namespace, ttl=settings.ttl, readonly=readonly, revoked=revoked)


def stream_beside(store: RedisStore, settings: Settings, health: Health) -> EventStream:
    return EventStream(
        store.clients,
        namespace=settings.namespace,
        ttl=settings.ttl,
        usable=lambda: health.usable("redis", "read"),
        failed=lambda error: health.failed("redis", "write", error),
    )


def leases_beside(store: RedisStore, settings: Settings, health: Health) -> Leases:
    leases = RedisLeases(store.clients, namespace=settings.namespace, rank=rank(), job=ranks_of(settings))
    store.token_of = leases.token_of
    return _Guarded(leases, health)


def healing_beside(
    store: RedisStore, leases: Leases, settings: Settings, health: Health, believed: Verifier
) -> Healing:
    return Healing(
        Presence(store, ttl=settings.ttl),
        leases,
        health,
        believed=believed,
        readonly=store.readonly or settings.mode is not Mode.READWRITE,
        job=ranks_of(settings),
        skew=settings.skew,
    )


class _Guarded:
    """Leases that are not asked for while their tier is sick, nor given back while it is silent. They expire."""

    def __init__(self, leases: RedisLeases, health: Health) -> None:
        self.name = leases.name
        self.seconds = leases.seconds
        self._leases = leases
        self._health = health

    def acquire(self, key: str, *, waits: bool = False) -> Lease | Held:
        with self._noting():
            found = self._leases.acquire(key, waits=waits)
        return found if isinstance(found, Held) else _GuardedLease(found, self._answers)

    def peek(self, key: str) -> Held | None:
        with self._noting():
            return self._leases.peek(key)

    def _answers(self) -> bool:
        """Not whether it may be written: one that refuses blobs can be told that nobody need wait for them."""
        return self._health.usable(self.name, "read")

    @contextmanager
    def _noting(self) -> Iterator[None]:
        if not self._health.usable(self.name, "write"):
            raise self._health.error(self.name, "write")
        try:
            yield
        except StoreUnavailable as error:
            self._health.failed(self.name, "write", error)
            raise


class _GuardedLease(Struct, frozen=True):
    lease: RedisLease
    answers: Callable[[], bool]

    @property
    def token(self) -> int:
        return self.lease.token

    def release(self, *, ok: bool) -> None:
        if self.answers():
            self.lease.release(ok=ok)
        else:
            self.lease.abandon()
