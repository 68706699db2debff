"""What was found to be bad: taken out of every reader's sight, or overlooked where that cannot be. Not how it is found.

Only the very bytes that were bad are removed: another process may have put a good entry in their place since.
A tier behind a network is asked in the background, for whoever found the damage has a compile to begin.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial

from ..format.seal import identity
from ..process.writer import Writer
from ..typing import BlobRef, Reason, Store, StoreUnavailable
from .access import Access
from .reading import Complete, Defect, read_complete

logger = logging.getLogger(__package__)

_told: set[str | None] = set()  # what this process was warned of


class Quarantine:
    """For the tiers of one cache. writers: of the slow ones, by name."""

    def __init__(self, access: Access, writers: Mapping[str, Writer]) -> None:
        self._access = access
        self._writers = writers
        self._overlooked: set[tuple[int, bytes]] = set()  # entries, wherever they lie and whoever sealed them

    def is_quarantined(self, sealed: bytes) -> bool:
        """Whether this process wants nothing of these bytes any more."""
        return bool(self._overlooked) and identity(sealed) in self._overlooked

    def defect(self, store: Store, key: str, variant: str, sealed: bytes, defect: Defect) -> None:
        """Remove what is damaged, so that it is met once; where that is impossible it is a miss each time."""
        if defect.reason is Reason.UNTRUSTED:
            # Left where it is: others may have its key (one is being rotated, say), and a publish replaces it.
            level = logging.DEBUG if defect.detail in _told else logging.WARNING
            _told.add(defect.detail)
            logger.log(level, "a cached result is not used (%.16s, tier %s): %s", key, store.name, defect.detail)
            return
        # A blob that is missing was evicted, which is nobody's fault; bytes that changed are worth a look.
        level = logging.INFO if defect.reason is Reason.INCOMPLETE else logging.WARNING
        logger.log(level, "a cached result is not usable (%.16s, tier %s): %s", key, store.name, defect.detail)
        if self._is_remote(store):
            self._writers[store.name].submit(partial(self._remove_if_still_bad, store, key, variant, sealed))
        else:
            self._remove_now(store, key, variant, defect.detail, sealed, defect.blob)

    def everywhere(self, key: str, variant: str, why: str, sealed: bytes | None) -> None:
        """Take an entry out of all tiers. sealed: that one alone; None: whatever bears its name."""
        waiting = [store for store in self._access.tiers[1:] if self._writers[store.name].pending]
        if sealed is not None:
            self._overlooked.add(identity(sealed))
        for store in self._access.tiers:
            if sealed is None and not self._access.may_write(store) and not self._is_remote(store):
                self._overlook(store, key, variant)
            remove = partial(self._remove_now, store, key, variant, why, sealed, None)
            if self._is_remote(store):
                self._writers[store.name].submit(remove)
            else:
                remove()
        for store in waiting:  # it may be among what is still to be written, and would come back
            self._writers[store.name].submit(partial(self._remove_now, store, key, variant, why, sealed, None))

    def _remove_if_still_bad(self, store: Store, key: str, variant: str, sealed: bytes) -> None:
        """What a fleet shares is read once more: it may be this host's memory, or its network, that is bad."""
        try:
            again = read_complete(store, key, variant, sealed, lambda entry: True, self._access.policy(store).verifier)
        except StoreUnavailable as error:
            self._access.failed(store, "read", error, raising=False)
            return
        if isinstance(again, Defect) and again.reason is not Reason.UNTRUSTED:
            self._remove_now(store, key, variant, again.detail, sealed, again.blob)
        elif isinstance(again, Complete):
            logger.warning("it is right when it is read again (%.16s, tier %s), and stays there", key, store.name)

    def _remove_now(
        self, store: Store, key: str, variant: str, why: str, sealed: bytes | None, blob: BlobRef | None
    ) -> None:
        if not self._access.may_write(store):
            return
        try:
            if blob is not None:
                store.drop_blob(blob)
            store.quarantine(key, variant, why, sealed)
        except StoreUnavailable as error:
            self._access.failed(store, "write", error, raising=False)
            if sealed is None and not self._is_remote(store):
                self._overlook(store, key, variant)

    def _is_remote(self, store: Store) -> bool:
        return self._access.policy(store).remote

    def _overlook(self, store: Store, key: str, variant: str) -> None:
        """Overlook the entry as it is now, in this process; a better one put in its place is seen again."""
        try:
            self._overlooked.update(identity(sealed) for name, sealed in store.entries(key) if name == variant)
        except StoreUnavailable as error:
            self._access.failed(store, "write", error, raising=False)
