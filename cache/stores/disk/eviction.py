"""What is removed from a disk store, and when: least recently used entries, then their blobs.

Blobs are written before the entry that names them, so a blob without an entry may belong to a publish in
flight: it stays for a grace of 10 minutes since it was last put. For the same reason the blobs of an entry
evicted within its first minutes stay a little longer; they do not count against the bounds and go with the
next prune. Any number of prunes and readers may run at once: a removed file is simply gone for the others.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ...format.codec import MAX_ENTRY_BYTES, decode_entry
from ...format.seal import MAX_HEADER_BYTES, unverified_body
from ...typing import CorruptEntry, Entry, Role
from .files import listing, modified, read_bounded, remove, stat_of
from .layout import JOURNAL_NAME, KERNEL_SUFFIX, BlobFile, EntryFile, Layout
from .locks import remove_if_free
from .similar_files import read as read_near

GRACE = 600.0
TEMPORARY_AGE = 3600.0
QUARANTINE_AGE = 7 * 86400.0
JOURNAL_AGE = 30 * 86400.0
LOCK_AGE = 86400.0


class Usage(Struct, frozen=True):
    """bytes and files: of entries, blobs and the index beside them, which the bounds are about.

    quarantined: files set aside.
    """

    bytes: int
    files: int
    entries: int
    blobs: int
    quarantined: int


class PruneReport(Struct, frozen=True):
    """entries, blobs: removed. bytes_freed: by removing them. leftovers: temporary, quarantined, journal, lock
    and index files removed. bytes, files: what stays and counts. bytes_waiting: unreferenced, still within the grace.
    """

    entries: int
    blobs: int
    bytes_freed: int
    leftovers: int
    bytes: int
    files: int
    bytes_waiting: int


def usage(layout: Layout) -> Usage:
    """Sizes from the listings alone."""
    entry_sizes = [file.size for file in layout.all_entries()]
    blob_sizes = [file.size for file in layout.all_blobs()]
    near_sizes = [file.size for file in layout.near_files()]
    return Usage(
        bytes=sum(entry_sizes) + sum(blob_sizes) + sum(near_sizes),
        files=len(entry_sizes) + len(blob_sizes) + len(near_sizes),
        entries=len(entry_sizes),
        blobs=len(blob_sizes),
        quarantined=sum(1 for path, _ in layout.quarantined_files() if path.suffix != ".why"),
    )


def sweep(layout: Layout, now: float) -> int:
    """Remove old temporary, quarantined, journal and lock files; how many. A foreign file is left alone."""
    old = [path for path, written, temporary in layout.strays() if temporary and now - written > TEMPORARY_AGE]
    old += [path for path, since in layout.quarantined_files() if now - since > QUARANTINE_AGE]
    old += old_journals(layout.journal, now)
    locks = [path for path, taken in layout.lock_files() if now - taken > LOCK_AGE]
    return sum(remove(path) for path in old) + sum(remove_if_free(path) for path in locks)


def old_journals(folder: Path, now: float) -> list[Path]:
    """The files of a journal's folder that are past their age."""
    found = ((item, stat_of(item)) for item in listing(folder) if JOURNAL_NAME.fullmatch(item.name))
    return [Path(item.path) for item, info in found if info is not None and now - info.st_mtime > JOURNAL_AGE]


def prune(layout: Layout, max_bytes: int, max_files: int, now: float) -> PruneReport:
    """Bring entries and the blobs they name within both bounds, and remove what no entry names."""
    leftovers = sweep(layout, now)
    # Blobs before entries: a blob listed here whose entry comes later is still found to be referenced, and
    # one put after this listing is not touched.
    blobs = {file.name: file for file in (*layout.all_blobs(), *layout.near_files())}
    near = _near_names(blobs.values())
    plan = _Plan(blobs, [(file, names_in(file) | near[file.key]) for file in layout.all_entries()])
    evicted = plan.evict(max_bytes, max_files)
    _remove_empty(layout.key_folders())
    dead = [file for name, file in blobs.items() if not plan.references[name]]
    gone = [file for file in dead if _remove_past_grace(file, now)]
    index = sum(_is_near(file) for file in gone)
    return PruneReport(
        entries=len(evicted),
        blobs=len(gone) - index,
        bytes_freed=sum(file.size for file in evicted) + sum(file.size for file in gone),
        leftovers=leftovers + index,
        bytes=plan.bytes,
        files=plan.files,
        bytes_waiting=sum(file.size for file in dead) - sum(file.size for file in gone),
    )


class _Plan:
    """The sums that eviction works on. Counts references, so that a shared blob goes with its last entry."""

    def __init__(self, blobs: dict[str, BlobFile], entries: list[tuple[EntryFile, frozenset[str]]]) -> None:
        self._blobs = blobs
        self._entries = sorted(entries, key=lambda pair: pair[0].last_used)
        self.references = Counter(name for _, names in entries for name in names)
        live = [file for name, file in blobs.items() if self.references[name]]
        self.bytes = sum(file.size for file, _ in entries) + sum(file.size for file in live)
        self.files = len(entries) + len(live)

    def evict(self, max_bytes: int, max_files: int) -> list[EntryFile]:
        """Remove entries, least recently used first, until the sums are within bounds; which ones."""
        removed = []
        for file, names in self._entries:
            if self.bytes <= max_bytes and self.files <= max_files:
                break
            if not _remove_unused(file):
                continue
            removed.append(file)
            self._forget(file.size)
            for name in names:
                self.references[name] -= 1
                if not self.references[name] and name in self._blobs:
                    self._forget(self._blobs[name].size)
        return removed

    def _forget(self, size: int) -> None:
        self.bytes -= size
        self.files -= 1


def _is_near(file: BlobFile) -> bool:
    return "/" in file.name


def _near_names(files: Iterable[BlobFile]) -> defaultdict[str, frozenset[str]]:
    """By key, the files of the index that know it: such a file goes with the last entry that it knows."""
    names: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for file in files:
        if _is_near(file):
            for relative in read_near(file.path):
                names[relative.key] |= {file.name}
    return names


def blob_names(entry: Entry) -> frozenset[str]:
    """The file names of an entry's blobs."""
    return frozenset(ref.digest + KERNEL_SUFFIX if ref.role is Role.CPP_KERNEL else ref.digest for ref in entry.blobs)


def names_in(file: EntryFile) -> frozenset[str]:
    """What an entry on disk names. A damaged one names nothing: the next lookup quarantines it anyway."""
    sealed = read_bounded(file.path, MAX_HEADER_BYTES + MAX_ENTRY_BYTES)
    with suppress(CorruptEntry):
        if sealed is not None:
            # Unsealed unchecked: eviction runs nothing, and an entry signed with a key that this process does
            # not have must keep its blobs.
            return blob_names(decode_entry(file.key, unverified_body(sealed)))
    return frozenset()


def _remove_unused(file: EntryFile) -> bool:
    """Remove an entry, unless it was used or replaced since it was listed. True when it is gone."""
    used = modified(file.path)
    if used is not None and used > file.last_used:
        return False
    remove(file.path)  # gone already: another prune was faster, which comes to the same
    return True


def _remove_past_grace(file: BlobFile, now: float) -> bool:
    """Remove a blob, unless it was put within the grace; looked up anew, for it may have been put since."""
    written = modified(file.path)
    return written is not None and now - written > GRACE and remove(file.path)


def _remove_empty(folders: Iterable[Path]) -> None:
    for folder in set(folders):
        with suppress(OSError):  # not empty: someone published here meanwhile; or gone: someone was faster
            folder.rmdir()
