"""verify: every kind of flaw is found, and `fix` takes it out of sight without touching what is good."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import DiskStore, Finding, Flaw, Hit, new_key, parse_keys


@pytest.fixture
def store(opener: Any, make: SimpleNamespace) -> DiskStore:
    """Four entries of four files."""
    cache = opener()
    for number in range(4):
        cache.publish(make.draft(number), make.contents(number))
    assert cache.flush()
    return DiskStore(opener.root)


def entry_path(store: DiskStore, make: SimpleNamespace, number: int) -> Path:
    return next((store.root / "entries").glob(f"*/{make.key_of(number)}/v0"))


def kernel_path(store: DiskStore, make: SimpleNamespace, number: int) -> Path:
    found = store.read_entry(make.key_of(number), "v0")
    assert found is not None
    path = store.path_of(found[0].blobs[1])
    assert path is not None
    return path


def flaws(findings: tuple[Finding, ...]) -> list[Flaw]:
    return sorted(finding.flaw for finding in findings)


def test_good_store(store: DiskStore) -> None:
    """A good store has no findings, and all of it was checked."""
    report = store.verify()
    assert report.ok
    assert (report.entries, report.blobs, report.findings) == (4, 12, ())
    assert report.bytes == store.usage().bytes


def test_every_flaw_is_found_and_fixed(store: DiskStore, make: SimpleNamespace, opener: Any) -> None:
    """A damaged entry, a damaged blob, a missing blob, leftovers: found, fixed, and then gone; the good entry stays."""
    entry_path(store, make, 0).write_bytes(b"nonsense")
    kernel = kernel_path(store, make, 1)
    kernel.write_bytes(bytes(kernel.stat().st_size))
    kernel_path(store, make, 2).unlink()
    orphan = store.root / "objects" / "ab" / ("ab" + "0" * 62)
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"orphan with a wrong digest")
    left = store.root / "objects" / f".tmp-host-1-{'0' * 16}"
    left.write_bytes(b"half")
    foreign = store.root / "entries" / "notes.txt"
    foreign.write_text("mine")
    for path in (orphan, left):
        os.utime(path, (time.time() - 7200,) * 2)
    report = store.verify()
    assert not report.ok
    assert flaws(report.findings) == sorted(
        [Flaw.CORRUPT_ENTRY, *[Flaw.CORRUPT_BLOB] * 2, *[Flaw.INCOMPLETE] * 2, Flaw.TEMPORARY, Flaw.FOREIGN]
    )
    assert not any(finding.fixed for finding in report.findings)
    fixed = store.verify(fix=True)
    assert flaws(fixed.findings) == flaws(report.findings)
    assert all(finding.fixed or finding.flaw is Flaw.FOREIGN for finding in fixed.findings)
    assert flaws(store.verify().findings) == [Flaw.FOREIGN]
    assert store.verify().ok
    assert store.usage().quarantined == 3
    hits = [isinstance(opener().lookup(make.key_of(number), make.always), Hit) for number in range(4)]
    assert hits == [False, False, False, True]


def test_moved_entry_is_found(store: DiskStore, make: SimpleNamespace) -> None:
    """An entry under another key or another variant than its own is corrupt."""
    source = entry_path(store, make, 0)
    other = store.root / "entries" / "00" / make.key_of(9) / "v0"
    other.parent.mkdir()
    shutil.copy(source, other)
    shutil.copy(source, source.with_name("v1"))
    assert flaws(store.verify().findings) == [Flaw.CORRUPT_ENTRY] * 2


def test_orphans_are_not_wrong(store: DiskStore, make: SimpleNamespace) -> None:
    """Blobs whose entry went are reported once they are old, and do not make a store bad."""
    entry_path(store, make, 0).unlink()
    assert store.verify().findings == ()
    for path in (store.root / "objects").rglob("*"):
        os.utime(path, (time.time() - 3600,) * 2)
    report = store.verify()
    assert report.ok
    assert flaws(report.findings) == [Flaw.ORPHAN_BLOB] * 3


def test_what_is_signed_is_not_damaged(opener: Any, make: SimpleNamespace) -> None:
    """Entries signed with a key that is not known here are told of, and left alone even by fix; known ones are fine."""
    ring = parse_keys(new_key())
    cache = opener(signing_key=f"wgk1-{ring.keys[0].secret.hex()}")
    cache.publish(make.draft(1), make.contents(1))
    assert cache.flush()
    unknown = DiskStore(opener.root).verify(fix=True)
    assert [(found.flaw, found.fixed) for found in unknown.findings] == [(Flaw.UNTRUSTED, False)]
    assert unknown.ok
    known = DiskStore(opener.root, verifier=ring.verifier(unsigned=True)).verify()
    assert (known.entries, known.findings) == (1, ())
