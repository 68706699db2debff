"""Checking a whole disk store: every entry, every blob, every leftover. Lookups do not need it; people do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from ...format.blobs import verify_blob
from ...typing import BlobRef, CorruptEntry, Entry, Role, Untrusted
from .eviction import GRACE, TEMPORARY_AGE, blob_names, names_in
from .files import remove
from .layout import KERNEL_SUFFIX, BlobFile, EntryFile

if TYPE_CHECKING:
    from .store import DiskStore


class Flaw(str, Enum):
    """What can be wrong with a file. Untrusted: signed with a key that is not known here, and never loaded; it is
    left alone, for whoever has the key. The last three are untidy, not wrong: no lookup is affected.
    """

    CORRUPT_ENTRY = "corrupt-entry"
    CORRUPT_BLOB = "corrupt-blob"
    INCOMPLETE = "incomplete-entry"
    UNTRUSTED = "untrusted-entry"
    ORPHAN_BLOB = "orphan-blob"
    TEMPORARY = "temporary-file"
    FOREIGN = "foreign-file"


class Finding(Struct, frozen=True):
    """One flaw. fixed: it was quarantined (entries) or removed (others), never if foreign or untrusted."""

    path: Path
    flaw: Flaw
    detail: str
    fixed: bool = False


class VerifyReport(Struct, frozen=True):
    """entries, blobs, bytes: how much was checked. ok: nothing that a lookup would trip over was found."""

    entries: int
    blobs: int
    bytes: int
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        wrong = (Flaw.CORRUPT_ENTRY, Flaw.CORRUPT_BLOB, Flaw.INCOMPLETE)
        return not any(finding.flaw in wrong for finding in self.findings)


def verify(store: DiskStore, *, fix: bool) -> VerifyReport:
    """Read everything once. Runs beside readers and writers; what they change meanwhile may be reported."""
    blobs = {file.name: file for file in store.layout.all_blobs()}
    entries = list(store.scan())
    findings = list(_bad_blobs(store, blobs))
    bad = frozenset(finding.path.name for finding in findings)
    named: set[str] = set()
    for file in entries:
        finding = _check_entry(store, file, bad, named)
        if finding is not None:
            findings.append(finding)
    findings += _leftovers(store, blobs, bad | named)
    return VerifyReport(
        entries=len(entries),
        blobs=len(blobs),
        bytes=sum(file.size for file in entries) + sum(file.size for file in blobs.values()),
        findings=tuple(_fixed(store, finding) if fix else finding for finding in findings),
    )


def _bad_blobs(store: DiskStore, blobs: dict[str, BlobFile]) -> Iterator[Finding]:
    for file in blobs.values():
        role = Role.CPP_KERNEL if file.name.endswith(KERNEL_SUFFIX) else Role.AOT_RESULT
        digest = file.name.removesuffix(KERNEL_SUFFIX)
        ref = BlobRef(digest, file.size, role, digest[:12], "raw", file.size)
        data = store.blob(ref)
        if data is None:
            continue  # evicted since it was listed
        try:
            verify_blob(ref, data)
        except CorruptEntry as error:
            yield Finding(file.path, Flaw.CORRUPT_BLOB, str(error))


def _check_entry(store: DiskStore, file: EntryFile, bad: frozenset[str], named: set[str]) -> Finding | None:
    try:
        found = store.read_entry(file.key, file.variant)
    except Untrusted as error:
        named |= names_in(file)  # its blobs are no orphans
        return Finding(file.path, Flaw.UNTRUSTED, str(error))
    except CorruptEntry as error:
        return Finding(file.path, Flaw.CORRUPT_ENTRY, str(error))
    if found is None:
        return None  # evicted since it was listed
    entry = found[0]
    if entry.variant != file.variant:
        return Finding(file.path, Flaw.CORRUPT_ENTRY, "the entry belongs to another variant")
    named |= blob_names(entry)
    missing = _missing(store, entry, bad)
    return Finding(file.path, Flaw.INCOMPLETE, f"no good blob {missing}") if missing else None


def _missing(store: DiskStore, entry: Entry, bad: frozenset[str]) -> str | None:
    for ref in entry.blobs:
        if {ref.digest, ref.digest + KERNEL_SUFFIX} & bad or not store.has_blob(ref):
            return f"{ref.digest[:12]} ({ref.role.value} {ref.name[:40]!r})"
    return None


def _leftovers(store: DiskStore, blobs: dict[str, BlobFile], known: frozenset[str] | set[str]) -> Iterator[Finding]:
    now = time.time()
    for name, blob in blobs.items():
        if name not in known and now - blob.written > GRACE:
            yield Finding(blob.path, Flaw.ORPHAN_BLOB, "no entry names it; prune removes it")
    for path, written, temporary in store.layout.strays():
        if not temporary:
            yield Finding(path, Flaw.FOREIGN, "not a file of ours; it is ignored")
        elif now - written > TEMPORARY_AGE:
            yield Finding(path, Flaw.TEMPORARY, "left by a process that was killed; prune removes it")


def _fixed(store: DiskStore, finding: Finding) -> Finding:
    path = finding.path
    if finding.flaw in (Flaw.FOREIGN, Flaw.UNTRUSTED):
        return finding
    if finding.flaw in (Flaw.CORRUPT_ENTRY, Flaw.INCOMPLETE):
        store.quarantine(path.parent.name, path.name, finding.detail)
        return replace(finding, fixed=True)
    return replace(finding, fixed=remove(path))
