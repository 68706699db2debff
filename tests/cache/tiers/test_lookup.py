"""Looking up and publishing through the tiers: what hits, from where, and why something misses."""

from __future__ import annotations

import ctypes
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import (
    Cache,
    DiskStore,
    Entry,
    Hit,
    MemoryStore,
    Miss,
    Reason,
    Role,
    StoreUnavailable,
    new_key,
    reset_settings,
)


def hit_of(found: Hit | Miss) -> Hit:
    assert isinstance(found, Hit), found
    return found


def miss_of(found: Hit | Miss) -> Miss:
    assert isinstance(found, Miss), found
    return found


def test_published_is_hit_at_once(opener: Any, make: SimpleNamespace) -> None:
    """A result is there for its own process before anything is written to disk."""
    cache = opener()
    blobs = make.contents(1)
    entry = cache.publish(make.draft(1), blobs)
    hit = hit_of(cache.lookup(make.key_of(1), make.always))
    assert hit.tier == "memory"
    assert hit.entry == entry
    assert hit.blobs == {name: content for role, name, content in blobs if role is not Role.CPP_KERNEL}
    assert hit.files["kernel"].read_bytes() == blobs[1][2]
    assert cache.flush()


def test_published_is_hit_by_another_process(published: Any, make: SimpleNamespace) -> None:
    """A result that was flushed is found on disk, whole; the next time in memory."""
    cache = published()
    hit = hit_of(cache.lookup(make.key_of(1), make.always))
    assert hit.tier == "disk"
    assert set(hit.blobs) == {"aot", "texts"}
    assert set(hit.files) == {"kernel"}
    again = hit_of(cache.lookup(make.key_of(1), make.always))
    assert again.tier == "memory"
    assert (again.entry, again.blobs, again.stored_bytes) == (hit.entry, hit.blobs, hit.stored_bytes)


def test_stored_bytes_is_what_lies_on_disk(published: Any, make: SimpleNamespace) -> None:
    """stored_bytes is the size of the entry's and its blobs' files."""
    hit = hit_of(published().lookup(make.key_of(1), make.always))
    assert hit.stored_bytes == DiskStore(published.root).usage().bytes


def test_absent_key_misses(published: Any, make: SimpleNamespace) -> None:
    """A key that nobody published is ABSENT, and nothing was seen."""
    assert published().lookup(make.key_of(2), make.always) == Miss(Reason.ABSENT, 0, None)


def test_first_accepted_variant_is_taken(opener: Any, make: SimpleNamespace) -> None:
    """Among variants the one whose guards hold is hit, in memory as on disk; without one it is GUARDS."""
    cache = opener()
    for variant in ("small", "medium", "large"):
        cache.publish(make.draft(1, variant, guards=variant), make.contents(1))
    assert cache.flush()
    for looking in (cache, opener()):
        for variant in ("medium", "large", "small"):
            hit = hit_of(looking.lookup(make.key_of(1), lambda entry, want=variant: entry.guards == want))
            assert hit.entry.variant == variant
        miss = miss_of(looking.lookup(make.key_of(1), lambda entry: False))
        assert (miss.reason, miss.seen) == (Reason.GUARDS, 3)
        assert miss.detail


def test_what_accept_raises_propagates(published: Any, make: SimpleNamespace) -> None:
    """An error in the caller's own check is the caller's, and harms no entry."""

    def broken(entry: Entry) -> bool:
        raise ZeroDivisionError

    cache = published()
    with pytest.raises(ZeroDivisionError):
        cache.lookup(make.key_of(1), broken)
    hit_of(cache.lookup(make.key_of(1), make.always))


def test_missing_blob_is_incomplete(
    published: Any, make: SimpleNamespace, warnings_of: Callable[[], list[str]]
) -> None:
    """An entry without one of its blobs is INCOMPLETE, set aside, and then ABSENT."""
    for blob in (published.root / "objects").glob("*/*.so"):
        blob.unlink()
    cache = published()
    miss = miss_of(cache.lookup(make.key_of(1), make.always))
    assert (miss.reason, miss.seen) == (Reason.INCOMPLETE, 1)
    assert "kernel" in (miss.detail or "")
    assert miss_of(cache.lookup(make.key_of(1), make.always)).reason is Reason.ABSENT
    assert warnings_of() == []  # it was evicted, or its publisher died: nobody needs to act


def test_good_variant_is_hit_beside_a_bad_one(published: Any, make: SimpleNamespace) -> None:
    """A damaged entry does not keep its sibling from being hit."""
    cache = published()
    cache.publish(make.draft(1, "v1"), make.contents(2))
    assert cache.flush()
    bad = next(published.root.glob("entries/*/*/v1"))
    bad.write_bytes(b"nonsense")
    assert hit_of(published().lookup(make.key_of(1), make.always)).entry.variant == "v0"
    assert not bad.exists()


def test_kernel_is_opened_in_place(published: Any, make: SimpleNamespace) -> None:
    """A disk hit's kernel is the store's own file, readable by its owner alone."""
    path = hit_of(published().lookup(make.key_of(1), make.always)).files["kernel"]
    assert published.root in path.parents
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_stored_kernel_can_be_loaded(opener: Any, make: SimpleNamespace) -> None:
    """A real shared object, kept with mode 0600 and no execute bit, can be dlopened."""
    import _ctypes  # any shared object of this interpreter

    if not _ctypes.__file__:
        pytest.skip("this interpreter has no shared object of its own")
    cache = opener()
    cache.publish(make.draft(1), [(Role.CPP_KERNEL, "k", Path(_ctypes.__file__).read_bytes())])
    assert cache.flush()
    ctypes.CDLL(str(hit_of(opener().lookup(make.key_of(1), make.always)).files["k"]))


def test_kernel_from_memory_is_spilled(make: SimpleNamespace) -> None:
    """Without a disk a kernel gets a private temporary file, the same one each time."""
    cache = Cache(MemoryStore())
    blobs = make.contents(1)
    cache.publish(make.draft(1), blobs)
    path = hit_of(cache.lookup(make.key_of(1), make.always)).files["kernel"]
    assert path.read_bytes() == blobs[1][2]
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert hit_of(cache.lookup(make.key_of(1), make.always)).files["kernel"] == path
    path.write_bytes(b"overwritten by someone")
    assert hit_of(cache.lookup(make.key_of(1), make.always)).files["kernel"].read_bytes() == blobs[1][2]


def test_memory_hit_does_not_trust_a_damaged_file(published: Any, make: SimpleNamespace) -> None:
    """A memory hit gives the disk's kernel only when its bytes are right."""
    cache = published()
    kernel = hit_of(cache.lookup(make.key_of(1), make.always)).files["kernel"]
    good = kernel.read_bytes()
    kernel.write_bytes(bytes(len(good)))
    again = hit_of(cache.lookup(make.key_of(1), make.always))
    assert again.tier == "memory"
    assert again.files["kernel"] != kernel
    assert again.files["kernel"].read_bytes() == good


def test_quarantine_is_everywhere_and_for_good(published: Any, make: SimpleNamespace) -> None:
    """An entry that did not load is gone from every tier, for this process and for others; a new one is hit."""
    cache = published()
    hit = hit_of(cache.lookup(make.key_of(1), make.always))
    cache.quarantine(make.key_of(1), hit.entry.variant, "undefined symbol")
    for looking in (cache, published()):
        assert miss_of(looking.lookup(make.key_of(1), make.always)).reason is Reason.ABSENT
    kept = sorted(path.name for path in (published.root / "quarantine").iterdir())
    assert len(kept) == 2
    assert kept[0].startswith(f"{make.key_of(1)}.v0.")
    assert (published.root / "quarantine" / kept[1]).read_text() == "undefined symbol"
    cache.publish(make.draft(1), make.contents(1))
    assert cache.flush()
    hit_of(published().lookup(make.key_of(1), make.always))


def test_quarantine_reaches_what_is_still_to_be_written(opener: Any, make: SimpleNamespace) -> None:
    """An entry that is quarantined while its write is under way does not come back with it."""
    cache = opener()
    for number in range(20):
        cache.publish(make.draft(number), make.contents(number))
    cache.quarantine(make.key_of(19), "v0", "does not load")
    assert cache.flush()
    for looking in (cache, opener()):
        assert isinstance(looking.lookup(make.key_of(19), make.always), Miss)
        hit_of(looking.lookup(make.key_of(0), make.always))


def test_readonly_writes_nothing(published: Any, make: SimpleNamespace) -> None:
    """mode=readonly reads, keeps its own results in memory, and leaves the folder as it is."""

    def everything() -> list[tuple[Path, int]]:
        return sorted((path, path.stat().st_mtime_ns) for path in published.root.rglob("*"))

    before = everything()
    cache = published(mode="readonly")
    assert hit_of(cache.lookup(make.key_of(1), make.always)).tier == "disk"
    cache.publish(make.draft(2), make.contents(2))
    assert cache.flush()
    assert hit_of(cache.lookup(make.key_of(2), make.always)).tier == "memory"
    assert everything() == before


def test_readonly_meets_a_bad_load_once(published: Any, make: SimpleNamespace) -> None:
    """An entry that did not load is overlooked by this process even where it cannot be removed; a new one is not."""
    cache = published(mode="readonly")
    hit_of(cache.lookup(make.key_of(1), make.always))
    cache.quarantine(make.key_of(1), "v0", "does not load")
    assert isinstance(cache.lookup(make.key_of(1), make.always), Miss)
    writer = published(mode="readwrite")
    writer.publish(make.draft(1), make.contents(7))
    assert writer.flush()
    hit_of(cache.lookup(make.key_of(1), make.always))


def test_readonly_on_no_folder(opener: Any, make: SimpleNamespace) -> None:
    """mode=readonly on a folder that does not exist misses, and does not make it."""
    cache = opener(mode="readonly")
    assert miss_of(cache.lookup(make.key_of(1), make.always)).reason is Reason.ABSENT
    assert not opener.root.exists()
    assert cache.health() == {}


def test_refresh_skips_lookups_and_publishes(published: Any, make: SimpleNamespace) -> None:
    """mode=refresh never hits, and what it publishes others hit."""
    cache = published(mode="refresh")
    assert miss_of(cache.lookup(make.key_of(1), make.always)).reason is Reason.REFRESH
    entry = cache.publish(make.draft(1), make.contents(5))
    assert cache.flush()
    assert hit_of(published(mode="readwrite").lookup(make.key_of(1), make.always)).entry == entry


def test_off_does_nothing(opener: Any, make: SimpleNamespace) -> None:
    """mode=off always misses, keeps nothing, touches no folder."""
    cache = opener(mode="off")
    assert cache.publish(make.draft(1), make.contents(1)) == make.draft(1)
    assert miss_of(cache.lookup(make.key_of(1), make.always)).reason is Reason.CACHES_DISABLED
    assert cache.flush()
    assert not opener.root.exists()


def test_namespaces_do_not_meet(published: Any, make: SimpleNamespace) -> None:
    """What one namespace holds no other sees."""
    other = published(namespace="nightly")
    assert isinstance(other.lookup(make.key_of(1), make.always), Miss)
    other.publish(make.draft(2), make.contents(2))
    assert other.flush()
    assert isinstance(published(namespace="default").lookup(make.key_of(2), make.always), Miss)
    assert (published.root / "ns" / "nightly" / "entries").is_dir()
    assert DiskStore(published.root).verify().ok


def test_unstorable_draft_is_the_callers_error(opener: Any, make: SimpleNamespace) -> None:
    """Two blobs of one name raise ValueError at once, and nothing is kept."""
    cache = opener()
    with pytest.raises(ValueError, match="two blobs"):
        cache.publish(make.draft(1), [(Role.AOT_RESULT, "a", b"1"), (Role.GRAPH_TEXT, "a", b"2")])
    assert isinstance(cache.lookup(make.key_of(1), make.always), Miss)


@pytest.mark.parametrize("key", ["", "wg1", "wg1xyz", "../../etc/passwd", f"wg1{'0' * 64}/..", f"wg1{'0' * 64}\n"])
def test_malformed_key_is_the_callers_error(opener: Any, make: SimpleNamespace, key: str) -> None:
    """A key that is none raises ValueError, and no path is made of it."""
    for cache in (opener(), opener(mode="off"), Cache(MemoryStore())):
        with pytest.raises(ValueError, match="not a key"):
            cache.lookup(key, make.always)
        with pytest.raises(ValueError, match="not a key"):
            cache.quarantine(key, "v0", "why")


def test_publishing_is_reported(opener: Any, make: SimpleNamespace) -> None:
    """Each write is reported once, with its entry, its seconds and no error."""
    reports: list[tuple[Entry, float, StoreUnavailable | None]] = []
    cache = opener(on_published=lambda *report: reports.append(report))
    entries = [cache.publish(make.draft(number), make.contents(number)) for number in range(5)]
    assert cache.flush()
    assert [report[0] for report in reports] == entries
    assert all(seconds >= 0 and error is None for _, seconds, error in reports)


def test_a_broken_report_loses_no_write(
    opener: Any, make: SimpleNamespace, warnings_of: Callable[[], list[str]]
) -> None:
    """An error in the caller's callback is logged, and the next result is written all the same."""

    def broken(*report: object) -> None:
        raise ZeroDivisionError

    cache = opener(on_published=broken)
    for number in (1, 2):
        cache.publish(make.draft(number), make.contents(number))
    assert cache.flush()
    assert len(warnings_of()) == 2
    for number in (1, 2):
        hit_of(opener().lookup(make.key_of(number), make.always))


def test_hit_counts_as_use_once_an_hour(published: Any, make: SimpleNamespace) -> None:
    """A hit, from disk or from memory, renews an entry's last use on disk, but not within an hour of the last."""
    path = next(published.root.glob("entries/*/*/v0"))
    cache = published()
    for age, renewed in ((7200, True), (600, False), (7200, True)):
        then = time.time() - age
        os.utime(path, (then, then))
        hit_of(cache.lookup(make.key_of(1), make.always))
        assert (path.stat().st_mtime > then + 1) == renewed


def test_signed_entry_is_left_to_those_who_have_the_key(opener: Any, make: SimpleNamespace) -> None:
    """Whoever lacks the key misses, removes nothing, and publishes in its place; who has it hits until then."""
    key = new_key()
    cache = opener(signing_key=key)
    cache.publish(make.draft(1), make.contents(1))
    assert cache.flush()
    reset_settings()
    assert miss_of(opener().lookup(make.key_of(1), make.always)).reason is Reason.UNTRUSTED
    assert miss_of(opener().lookup(make.key_of(1), make.always)).reason is Reason.UNTRUSTED
    assert isinstance(opener(signing_key=key).lookup(make.key_of(1), make.always), Hit)


def test_only_what_failed_is_quarantined(published: Any, make: SimpleNamespace) -> None:
    """An entry that another process put in the place of the one that did not load stays."""
    cache = published()
    hit = hit_of(cache.lookup(make.key_of(1), make.always))
    other = published()
    other.publish(make.draft(1), make.contents(2))
    assert other.flush()
    cache.quarantine(make.key_of(1), "v0", "it did not load", hit.sealed)
    assert hit_of(published().lookup(make.key_of(1), make.always)).tier == "disk"
    assert hit_of(cache.lookup(make.key_of(1), make.always)).blobs["aot"] != hit.blobs["aot"]
