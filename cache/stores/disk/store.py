"""The disk store: entries and blobs as plain files. Not eviction (`eviction`), not checking (`verify`).

Safe for any number of processes and hosts on one folder without locks, because a file appears whole under its
name or not at all (`files.write_atomically`), content never changes under a digest, and a reader verifies all
it reads. The races, and what each costs:

- Two processes write one blob or entry: the second rename wins; both hold right bytes.
- A reader opens a file that eviction removes: it reads the old bytes to the end (POSIX), or gets None
  (ENOENT, or ESTALE over NFS), and the lookup is a miss.
- An entry is removed between listing and reading: it is skipped.
- A blob is removed after its entry was read: the lookup is INCOMPLETE, a miss.
- A publisher finds a blob there and does not write it, while eviction is about to remove it as unreferenced:
  `put_blob` renews its mtime and eviction looks at the mtime just before removing. What remains is the
  instant between the two; it makes an INCOMPLETE entry, which the next lookup removes.
- A reader finds an entry damaged, and before it moves it to quarantine another process replaces it: a good
  entry is quarantined, and compiled once more.
- A kernel is replaced while another process has it open: the old file lives on in its mapping.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from functools import partial
from math import inf
from pathlib import Path

from ...format.codec import MAX_ENTRY_BYTES, decode_entry
from ...format.seal import MAX_HEADER_BYTES, Verifier, accept_checksum, same_entry, unseal
from ...typing import BlobRef, Entry, Role, SimilarEntry, StoreUnavailable
from . import eviction, verify
from . import similar_files as near_files
from .files import (
    GONE,
    make_folders,
    modified,
    read_bounded,
    remove,
    translating,
    unavailable,
    write_atomically,
)
from .folder import check_within, identity_of, open_private
from .layout import CACHEDIR_TAG, EntryFile, Layout
from .mount import mount_of, timed, timed_by_size
from .schedule import Schedule

LATELY = 3600.0  # seconds: a hit must not cost a write each time
_WHY_BYTES = 4096


class DiskStore:
    """A folder of entries and blobs. Raises StoreUnavailable at once when the folder is not private.

    verifier: whose seals the tools below believe (lookups have their own).
    The folder is created when missing (unless readonly, which then holds nothing). One that cannot be
    written still serves reads. On a network file system that stalls its methods raise StoreSilent (`mount`); those for
    tools wait.
    """

    def __init__(
        self, root: Path, *, readonly: bool = False, name: str = "disk", verifier: Verifier = accept_checksum
    ) -> None:
        self.name = name
        self.verifier = verifier
        self.root = root
        self.readonly = readonly
        self.layout = Layout(root)
        self._tagged = False
        self._schedule = Schedule(self.layout.size_looked_at)
        self._private: set[Path] = set()  # folders within, once they are known to be
        self.mount = mount_of(root)
        self._checked = self.mount.call(partial(open_private, root, create=not readonly))

    # -- the Store protocol

    def entries(self, key: str) -> Iterator[tuple[str, bytes]]:
        for file in self._files(key):
            sealed = self._sealed(file)
            if sealed is not None:  # None: evicted or quarantined in the meantime
                yield file.variant, sealed

    @timed_by_size
    def blob(self, ref: BlobRef) -> bytes | None:
        return read_bounded(self._blob_path(ref), ref.size)

    @timed_by_size
    def blobs(self, refs: Sequence[BlobRef]) -> dict[str, bytes]:
        found = ((ref.digest, self.blob(ref)) for ref in refs)
        return {digest: data for digest, data in found if data is not None}

    @timed
    def has_blob(self, ref: BlobRef) -> bool:
        path = self._blob_path(ref)
        try:
            return path.stat().st_size == ref.size
        except OSError as error:
            if error.errno in GONE:
                return False
            raise unavailable("read", path, error) from error

    @timed_by_size
    def put_blob(self, ref: BlobRef, data: bytes) -> None:
        self._check_writable()
        path = self._blob_path(ref)
        # Compared, not only measured: so publishing again heals a blob that was damaged. Nobody waits for this.
        if not (read_bounded(path, ref.size) == data and _renew(path)):
            write_atomically(path, data)

    @timed_by_size
    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        self._check_writable()
        self._tag()
        path = self.layout.entry(key, variant)
        self._ours(path.parent)
        write_atomically(path, sealed)

    @timed
    def touch(self, key: str, variant: str, refs: Sequence[BlobRef] = ()) -> None:
        path = self.layout.entry(key, variant)
        if not self.readonly and LATELY <= _age(path) < inf:
            _renew(path)

    @timed
    def unused_for(self, key: str, variant: str) -> float:
        """Seconds since a process of this host noted that it used an entry, which it does once in `LATELY`."""
        return _age(self.layout.entry(key, variant))

    @timed
    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        self._check_writable()
        path = self.layout.entry(key, variant)
        if sealed is not None:
            there = read_bounded(path, len(sealed))
            if there is None or not same_entry(there, sealed):
                return
        target = self.layout.quarantined(key, variant, time.time_ns())
        with translating("quarantine", path):
            try:
                make_folders(target.parent)
                path.replace(target)
            except FileNotFoundError:  # another reader was faster, or it was evicted
                return
            except OSError:
                path.unlink(missing_ok=True)  # it cannot be kept (full disk, ...), but it must go
                return
        text = why.encode("utf-8", "backslashreplace")[:_WHY_BYTES]
        write_atomically(target.with_name(target.name + ".why"), text)

    @timed
    def remove_entry(self, key: str, variant: str) -> None:
        """Remove an entry with which nothing is wrong. Absent: a no-op."""
        self._check_writable()
        remove(self.layout.entry(key, variant))

    @timed
    def drop_blob(self, ref: BlobRef) -> None:
        self._check_writable()
        remove(self._blob_path(ref))

    @timed
    def path_of(self, ref: BlobRef) -> Path | None:
        path = self._blob_path(ref)
        return path if self.has_blob(ref) else None

    @timed
    def relate(self, addresses: Sequence[str], relative: SimilarEntry) -> None:
        self._check_writable()
        for address in addresses:
            near_files.append(self.layout.near(address), relative)

    @timed
    def relatives(self, addresses: Sequence[str]) -> list[SimilarEntry]:
        return [relative for address in addresses for relative in near_files.read(self.layout.near(address))]

    # -- for tools

    def scan(self) -> Iterator[EntryFile]:
        """Every entry, in no order. Opens none of them."""
        return self.layout.all_entries()

    def read_entry(self, key: str, variant: str) -> tuple[Entry, int] | None:
        """One entry, checked, and the size of its own file; None when absent. Raises CorruptEntry, Untrusted."""
        self._ours(self.layout.variants(key))
        sealed = read_bounded(self.layout.entry(key, variant), MAX_HEADER_BYTES + MAX_ENTRY_BYTES)
        if sealed is None:
            return None
        return decode_entry(key, unseal(key, sealed, self.verifier)), len(sealed)

    def usage(self) -> eviction.Usage:
        """What lies on disk. One pass over the listings; no file is opened."""
        return eviction.usage(self.layout)

    def prune(self, max_bytes: int, max_files: int, now: float | None = None) -> eviction.PruneReport:
        """Evict the least recently used until both bounds hold. See `eviction.prune`."""
        self._check_writable()
        return eviction.prune(self.layout, max_bytes, max_files, time.time() if now is None else now)

    def keep_within(self, max_bytes: int, max_files: int) -> eviction.PruneReport | None:
        """Sweep, and prune only when over a bound, then to 90 % of it, so that not every publish has to."""
        self.mount.refuse_while_stalled()
        self.sweep()
        usage = self.usage()
        if usage.bytes <= max_bytes and usage.files <= max_files:
            return None
        return self.prune(max_bytes * 9 // 10, max_files * 9 // 10)

    @timed
    def is_due(self, written: int, every: int) -> bool:
        """Note that `written` bytes came here; whether `keep_within` is to be called now. See `Schedule`."""
        self._check_writable()
        return self._schedule.is_due(written, every, time.time())

    def sweep(self, now: float | None = None) -> int:
        """Remove temporary files no living publish can own, and notes past their age. Returns how many."""
        self._check_writable()
        return eviction.sweep(self.layout, time.time() if now is None else now)

    def verify(self, fix: bool = False) -> verify.VerifyReport:
        """Check every entry and blob; with `fix`, take what is wrong out of every reader's sight."""
        if fix:
            self._check_writable()
        return verify.verify(self, fix=fix)

    # -- inside

    @timed
    def _files(self, key: str) -> list[EntryFile]:
        return list(self.layout.entries_of(self._ours(self.layout.variants(key))))

    @timed
    def _sealed(self, file: EntryFile) -> bytes | None:
        return read_bounded(file.path, MAX_HEADER_BYTES + MAX_ENTRY_BYTES)

    def _blob_path(self, ref: BlobRef) -> Path:
        path = self.layout.blob(ref.digest, kernel=ref.role is Role.CPP_KERNEL)
        self._ours(path.parent)
        return path

    def _ours(self, folder: Path) -> Path:
        """A folder within, which others cannot write to. Raises StoreUnavailable.

        Should another folder bear the root's name by now, that one is checked first.
        """
        if identity_of(self.root) != self._checked:
            self._private.clear()
            self._checked = open_private(self.root, create=False)
        check_within(self.root, folder, self._private)
        return folder

    def _check_writable(self) -> None:
        if self.readonly:
            raise StoreUnavailable(f"{self.root} was opened read-only")

    def _tag(self) -> None:
        if not self._tagged and modified(self.layout.tag) is None:
            write_atomically(self.layout.tag, CACHEDIR_TAG)
        self._tagged = True


def _age(path: Path) -> float:
    """Seconds since a file was renewed; infinite where there is none."""
    renewed = modified(path)
    return inf if renewed is None else abs(time.time() - renewed)


def _renew(path: Path) -> bool:
    """Set a file's mtime to now. False when it is gone."""
    try:
        os.utime(path)
    except OSError as error:
        if error.errno in GONE:
            return False
        raise unavailable("write", path, error) from error
    return True
