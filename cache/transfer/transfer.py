"""Entries from one store to another, each verified on the way. Not which commands do that, nor bundles (`bundle`).

What is copied is what a lookup would believe: the seal is right, every blob is there and is what the entry names.
One that is not is counted and left where it is; only a store that cannot serve stops a transfer. The races:

- An entry or blob is evicted at the source between listing and reading: it is passed by, or counted as incomplete.
- A blob is evicted at the target between its put and its entry's: a lookup there is INCOMPLETE, a miss.
- Two transfers write one entry: both wrote the same blobs, and either seal is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from ..format.blobs import verify_blob
from ..format.codec import MAX_ENTRY_BYTES, decode_entry
from ..format.seal import MAX_HEADER_BYTES, Signer, Verifier, as_relayed, generation_of, signed_if_ours, unseal
from ..stores.disk.files import read_bounded
from ..stores.disk.layout import EntryFile
from ..stores.disk.store import DiskStore
from ..stores.similar import addresses, relative_of
from ..typing import BlobRef, CorruptEntry, Entry, Role, Store, StoreUnavailable, Untrusted

# (key, variant, sealed bytes), unverified: an entry as a store lists it.
Sealed = tuple[str, str, bytes]


class Transferred(Struct, frozen=True):
    """What a transfer has done. entries, blobs: written. bytes: of these. skipped: the target had them.

    Left out, and still where they were: incomplete (a blob is not there), damaged, untrusted.
    stopped: why it ended before its end; what is counted as written is there all the same. why: of one that was left
    out.
    """

    entries: int = 0
    blobs: int = 0
    bytes: int = 0
    skipped: int = 0
    incomplete: int = 0
    damaged: int = 0
    untrusted: int = 0
    stopped: StoreUnavailable | CorruptEntry | None = None
    why: str | None = None

    @property
    def left_out(self) -> int:
        return self.incomplete + self.damaged + self.untrusted

    def and_left_out(self, error: CorruptEntry) -> Transferred:
        """One more that could not be taken, and `error` says why."""
        if isinstance(error, Incomplete):
            return replace(self, incomplete=self.incomplete + 1)
        if isinstance(error, Untrusted):
            return replace(self, untrusted=self.untrusted + 1, why=str(error))
        return replace(self, damaged=self.damaged + 1)


# Told after each entry, so that people see something move.
Watch = Callable[[Transferred], None]


class Incomplete(CorruptEntry):
    """An entry whose blobs are not all there. Nobody's fault: they were evicted."""


class Scannable(Protocol):
    """A store that can list all of its entries, as `RedisStore` can."""

    def scan(self) -> Iterator[Sealed]: ...


class Selection(Struct, frozen=True):
    """Which entries. since: Unix seconds, the earliest use (on disk) or publish (elsewhere). prefixes: of keys."""

    since: float | None = None
    prefixes: tuple[str, ...] = ()

    def takes(self, key: str, moment: float) -> bool:
        recent = self.since is None or moment >= self.since
        return recent and (not self.prefixes or key.startswith(self.prefixes))


def select_local(store: DiskStore, selection: Selection) -> list[EntryFile]:
    """The entries on disk that are selected, last used first. Opens none of them."""
    chosen = [file for file in store.scan() if selection.takes(file.key, file.last_used)]
    return sorted(chosen, key=lambda file: (-file.last_used, file.key, file.variant))


def read_local(files: Iterable[EntryFile]) -> Iterator[Sealed]:
    """What lies in these files; one that was evicted since it was listed is passed by."""
    for file in files:
        sealed = read_bounded(file.path, MAX_HEADER_BYTES + MAX_ENTRY_BYTES)
        if sealed is not None:
            yield file.key, file.variant, sealed


def select_remote(store: Scannable, selection: Selection) -> Iterator[Sealed]:
    """The entries of a store that notes no use: their generation tells when they were published."""
    for key, variant, sealed in store.scan():
        if selection.takes(key, generation_of(sealed) / 1e6):
            yield key, variant, sealed


def open_sealed(key: str, variant: str | None, sealed: bytes, verifier: Verifier) -> Entry:
    """The entry, once its seal is known to be right. variant: where it lay, if that is known. Raises CorruptEntry."""
    entry = decode_entry(key, unseal(key, sealed, verifier))
    if variant is not None and entry.variant != variant:
        raise CorruptEntry("the entry belongs to another variant")
    return entry


Place = tuple[str, bool, int]


def place_of(ref: BlobRef) -> Place:
    """What tells two blobs apart in every store: kernels lie apart from the rest, even with the same bytes."""
    return ref.digest, ref.role is Role.CPP_KERNEL, ref.size


def read_blobs(store: Store, refs: Sequence[BlobRef]) -> list[tuple[BlobRef, bytes]]:
    """The bytes of all of `refs`, verified, each place once. Raises CorruptEntry (Incomplete, Untrusted)."""
    wanted = {place_of(ref): ref for ref in refs}
    answers = store.blobs(list(wanted.values())) if wanted else {}
    found = []
    for ref in wanted.values():
        data = answers.get(ref.digest)  # wherever it lay: with this digest it is the right one
        if data is None:
            raise Incomplete(f"blob {ref.name!r:.80} is not there")
        verify_blob(ref, data)
        found.append((ref, data))
    return found


def copy_entries(
    source: Store,
    target: Store,
    listed: Iterable[Sealed],
    *,
    source_verifier: Verifier,
    target_verifier: Verifier,
    signer: Signer | None = None,
    inwards: bool = False,
    watch: Watch = lambda report: None,
) -> Transferred:
    """Copy `listed`, which are of `source`, to `target`. Never raises for what either store holds or is.

    Skipped is what the target has whole, under a seal that `target_verifier` takes; any other is replaced.
    What is signed keeps that signature. signer: signs what this host made before it had a key. inwards: what comes
    unsigned from outside is marked as relayed (see `seal`).
    """
    report = Transferred()
    sent: set[Place] = set()
    try:
        for key, variant, sealed in listed:
            try:
                entry = open_sealed(key, variant, sealed, source_verifier)
                if _has(target, entry, target_verifier):
                    report = replace(report, skipped=report.skipped + 1)
                else:
                    blobs = read_blobs(source, [ref for ref in entry.blobs if place_of(ref) not in sent])
                    namespace = source_verifier.namespace
                    if inwards:
                        now = as_relayed(key, sealed, namespace=namespace)
                    else:
                        now = signed_if_ours(key, sealed, signer, namespace=namespace)
                    report = _write(target, entry, now, blobs, report)
                    sent |= {place_of(ref) for ref, _ in blobs}
            except CorruptEntry as error:
                report = report.and_left_out(error)
            watch(report)
    except StoreUnavailable as error:
        report = replace(report, stopped=error)
    return report


def _has(target: Store, entry: Entry, verifier: Verifier) -> bool:
    """Whether the target has this entry, one that would be believed there, with all of its blobs."""
    for variant, sealed in target.entries(entry.key):
        if variant != entry.variant:
            continue
        try:
            there = open_sealed(entry.key, variant, sealed, verifier)
        except CorruptEntry:
            return False
        return all(target.has_blob(ref) for ref in there.blobs)
    return False


def note(target: Store, entry: Entry) -> None:
    """Let misses be explained by it. A help for people: what becomes of it stops no transfer."""
    where = addresses(entry.parts, entry.facts)
    with suppress(StoreUnavailable):
        if where:
            target.relate(where, relative_of(entry))


def _write(
    target: Store, entry: Entry, sealed: bytes, blobs: Sequence[tuple[BlobRef, bytes]], report: Transferred
) -> Transferred:
    """Blobs first, the entry last: whoever sees the entry can have its blobs."""
    for ref, data in blobs:
        target.put_blob(ref, data)
        report = replace(report, blobs=report.blobs + 1, bytes=report.bytes + len(data))
    target.put_entry(entry.key, entry.variant, sealed)
    note(target, entry)
    return replace(report, entries=report.entries + 1, bytes=report.bytes + len(sealed))
