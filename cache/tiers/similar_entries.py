"""The index of resemblances (`near`) over the tiers of one cache: noted after publishing, asked on a miss. No lookups.

All of it is a help for people. A tier that cannot say is passed by, and only its silence is held against it: a
damaged index must not cost a tier that serves well.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ..stores.circuit_breaker import Use
from ..stores.similar import addresses, differing, nearest_first, relative_of
from ..typing import Entry, Miss, Reason, Scalar, SimilarEntry, Store, StoreSilent, StoreUnavailable
from .access import Access

logger = logging.getLogger(__package__)

_LOOKED_AT = 8  # the nearest that are looked for, when those before them are gone
GONE = "it was published before and is not there any more: evicted, expired, or removed"


class Relating:
    """Tiers behind a network are asked only when no other knows the graph."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def note(self, stores: Sequence[Store], entry: Entry) -> None:
        """An entry was put into these stores."""
        where = addresses(entry.parts, entry.facts)
        if not where:
            return
        for store in filter(self._access.may_write, stores):
            try:
                store.relate(where, relative_of(entry))
            except StoreUnavailable as error:
                self._passed_by(store, "write", error)

    def explained(self, miss: Miss, key: str, parts: Mapping[str, str], facts: Mapping[str, Scalar]) -> Miss:
        """`miss` with the nearest entry, when nothing lay under the key. facts: function, file, line."""
        if miss.reason is not Reason.ABSENT:
            return miss  # the reason says it: something does lie there, or nothing was looked for
        found = self._found(addresses(parts, facts), parts)
        itself = next((one for one in found if one.key == key), None)
        if itself is not None and not self._is_there(key, everywhere=True):  # or another published it a moment ago
            return replace(miss, detail=miss.detail or GONE, nearest=itself)
        others = [one for one in found if one.key != key]
        nearest = self._nearest(nearest_first(parts, facts.get("line"), others))
        return replace(miss, nearest=nearest, differs=differing(parts, nearest.parts) if nearest else ())

    def _found(self, where: Sequence[str], parts: Mapping[str, str]) -> list[SimilarEntry]:
        found: list[SimilarEntry] = []
        for store in self._access.tiers if where else ():
            if self._access.policy(store).remote and any("graph" not in differing(parts, one.parts) for one in found):
                continue
            if not self._access.may_read(store):
                continue
            try:
                found += store.relatives(where)
            except StoreUnavailable as error:
                self._passed_by(store, "read", error)
        return found

    def _nearest(self, ordered: Sequence[SimilarEntry]) -> SimilarEntry | None:
        """The first that is still there; if all are gone the first, of which at least the parts are known."""
        for one in ordered[:_LOOKED_AT]:
            if self._is_there(one.key):
                return one
        return ordered[0] if ordered else None

    def _is_there(self, key: str, *, everywhere: bool = False) -> bool:
        """everywhere: ask behind the network, too; else what may be there is taken to be, for want of a round trip."""
        for store in self._access.tiers:
            if self._access.policy(store).remote and not everywhere:
                return True
            try:
                if self._access.may_read(store) and next(store.entries(key), None) is not None:
                    return True
            except StoreUnavailable as error:
                self._passed_by(store, "read", error)
        return False

    def _passed_by(self, store: Store, use: Use, error: StoreUnavailable) -> None:
        logger.debug("cache tier %s: the index of resemblances is passed by: %s", store.name, error)
        if isinstance(error, StoreSilent):
            self._access.failed(store, use, error, raising=False)
