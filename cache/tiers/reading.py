"""One entry of one store, read whole and verified, or what is wrong with it. Changes nothing in the store."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct, field

from ..format.blobs import decode_blob
from ..format.codec import decode_entry
from ..format.packed import Packed
from ..format.seal import Verifier, accept_checksum, unseal
from ..typing import BlobRef, CorruptEntry, Entry, Miss, Reason, Store, Untrusted

Accept = Callable[[Entry], bool]

# Of several reasons the telling one is reported: the later in this row.
_WEIGHT = (
    Reason.ABSENT,
    Reason.GUARDS,
    Reason.UNREADABLE,
    Reason.INCOMPLETE,
    Reason.UNTRUSTED,
    Reason.CORRUPT,
)


class Complete(Struct, frozen=True):
    """All is there and right. contents: decoded, by blob name."""

    packed: Packed
    contents: dict[str, bytes]


class Defect(Struct, frozen=True):
    """Why an entry cannot be used. blob: the one whose bytes are wrong, if it is that."""

    reason: Reason
    detail: str
    blob: BlobRef | None = None


def read_complete(
    store: Store, key: str, variant: str, sealed: bytes, accept: Accept, verifier: Verifier = accept_checksum
) -> Complete | Defect:
    """Seal first, then decode, then ask `accept`, and only then fetch blobs, at once. Raises StoreUnavailable."""
    try:
        entry = decode_entry(key, unseal(key, sealed, verifier))
    except CorruptEntry as error:
        return _defect(error)
    if entry.variant != variant:
        return Defect(Reason.CORRUPT, "the entry belongs to another variant")
    if not accept(entry):
        return Defect(Reason.GUARDS, "entries exist; the guards of none hold for these inputs")
    try:
        found = store.blobs(entry.blobs)
    except CorruptEntry as error:
        return _defect(error)
    contents: dict[str, bytes] = {}
    encoded: list[tuple[BlobRef, bytes]] = []
    for ref in entry.blobs:
        data = found.get(ref.digest)
        if data is None:
            return Defect(Reason.INCOMPLETE, f"blob {ref.name!r:.80} is not there")
        try:
            contents[ref.name] = decode_blob(ref, data)
        except CorruptEntry as error:
            return _defect(error, ref)
        encoded.append((ref, data))
    return Complete(Packed(entry, sealed, tuple(encoded)), contents)


def _defect(error: CorruptEntry, ref: BlobRef | None = None) -> Defect:
    return Defect(Reason.UNTRUSTED if isinstance(error, Untrusted) else Reason.CORRUPT, str(error), ref)


class Search(Struct):
    """What one lookup has seen so far."""

    reason: Reason = Reason.ABSENT
    detail: str | None = None
    variants: set[str] = field(default_factory=set)

    def note(self, reason: Reason, detail: str) -> None:
        if _WEIGHT.index(reason) > _WEIGHT.index(self.reason):
            self.reason, self.detail = reason, detail

    def miss(self) -> Miss:
        return Miss(self.reason, len(self.variants), self.detail)
