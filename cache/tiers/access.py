"""What may be done with each tier of a cache, and what becomes of one that fails. It looks nothing up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from ..config.parsing import Mode
from ..format.packed import Packed
from ..format.seal import Verifier, accept_checksum
from ..stores.circuit_breaker import Health, Use
from ..typing import Store, StoreUnavailable


class Policy(Struct, frozen=True):
    """How one tier is treated. verifier: whose seals are believed there. remote: it is behind a network.

    told_every: seconds; that an entry is used is not told again within them.
    """

    readonly: bool = False
    verifier: Verifier = accept_checksum
    remote: bool = False
    told_every: float = 0.0


class Access:
    """tiers: nearest first; the first one is always written. policies: by name. strict: a failure is raised."""

    def __init__(
        self, tiers: Sequence[Store], policies: Mapping[str, Policy], health: Health, *, mode: Mode, strict: bool
    ) -> None:
        self.tiers = tuple(tiers)
        self.health = health
        self._policies = {store.name: policies.get(store.name, Policy()) for store in self.tiers}
        self._mode = mode
        self._strict = strict

    def policy(self, store: Store) -> Policy:
        return self._policies[store.name]

    def may_read(self, store: Store) -> bool:
        return self.health.usable(store.name, "read")

    def is_written(self, store: Store) -> bool:
        read_only = self._mode is Mode.READONLY or self.policy(store).readonly
        return store is self.tiers[0] or not read_only

    def may_write(self, store: Store) -> bool:
        return self.is_written(store) and self.health.usable(store.name, "write")

    def put(self, store: Store, packed: Packed, *, raising: bool = True) -> StoreUnavailable | None:
        """Blobs first, the entry last: whoever sees the entry can have its blobs. Returns why it failed."""
        if not self.may_write(store):
            return self.health.error(store.name, "write")
        try:
            for ref, data in packed.blobs:
                store.put_blob(ref, data)
            store.put_entry(packed.entry.key, packed.entry.variant, packed.sealed)
        except StoreUnavailable as error:
            self.failed(store, "write", error, raising=raising)
            return error
        self.health.worked(store.name, "write")
        return None

    def failed(self, store: Store, use: Use, error: StoreUnavailable, *, raising: bool = True) -> None:
        self.health.failed(store.name, use, error)
        if raising and self._strict:
            raise error
