"""What every store promises, as one class of claims that each store must pass. Not what a store does beyond that."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest
from warmgraph.cache import BlobRef, DiskStore, MemoryStore, NullStore, Role, SimilarEntry, Store
from warmgraph.cache.stores.similar import MAX_RECORDS, newest_each

KEY = f"wg1{'0a' * 32}"
OTHER = f"wg1{'0b' * 32}"


def ref_of(data: bytes, role: Role = Role.AOT_RESULT) -> BlobRef:
    return BlobRef(hashlib.sha256(data).hexdigest(), len(data), role, "name", "raw", len(data))


ADDRESS, ANOTHER = "a" * 64, "b" * 64


def relative_of(number: int, time: float = 1.7e9, line: int | None = 7) -> SimilarEntry:
    return SimilarEntry(f"wg1{number:064x}", {"graph": "a" * 16, "inputs": f"{number:016x}"}, line, time)


class StoreContract:
    """Subclasses give `store`, and `raw_entries` and `raw_blob` that look past it."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        raise NotImplementedError

    def raw_entries(self, store: Store, key: str) -> dict[str, bytes]:
        raise NotImplementedError

    def raw_blob(self, store: Store, ref: BlobRef) -> bytes | None:
        raise NotImplementedError

    def set_raw_entry(self, store: Store, key: str, variant: str, sealed: bytes) -> None:
        raise NotImplementedError

    def test_is_a_store(self, store: Store) -> None:
        """Every store has the protocol's methods and a name."""
        assert isinstance(store, Store)
        assert store.name

    def test_absent_is_not_an_error(self, store: Store) -> None:
        """An absent entry or blob is nothing, and touching or removing it changes nothing."""
        ref = ref_of(b"x")
        assert list(store.entries(KEY)) == []
        assert store.blob(ref) is None
        assert not store.has_blob(ref)
        assert store.path_of(ref) is None
        store.touch(KEY, "v0")
        store.quarantine(KEY, "v0", "why")
        store.drop_blob(ref)

    def test_put_entry_is_kept(self, store: Store) -> None:
        """What put_entry was given lies in the store under its key and variant, and under no other."""
        store.put_entry(KEY, "v0", b"sealed")
        assert self.raw_entries(store, KEY) == {"v0": b"sealed"}
        assert list(store.entries(KEY)) == [("v0", b"sealed")]
        assert list(store.entries(OTHER)) == []

    def test_raw_entry_is_read(self, store: Store) -> None:
        """An entry that another process put there is found."""
        self.set_raw_entry(store, KEY, "v7", b"theirs")
        assert list(store.entries(KEY)) == [("v7", b"theirs")]

    def test_put_entry_replaces(self, store: Store) -> None:
        """Putting a variant again replaces it."""
        store.put_entry(KEY, "v0", b"old")
        store.put_entry(KEY, "v0", b"new")
        assert self.raw_entries(store, KEY) == {"v0": b"new"}

    def test_all_variants_are_listed(self, store: Store) -> None:
        """Variants of one key live side by side."""
        for number in range(5):
            store.put_entry(KEY, f"v{number}", b"%d" % number)
        assert dict(store.entries(KEY)) == {f"v{number}": b"%d" % number for number in range(5)}

    @pytest.mark.parametrize("role", list(Role))
    def test_put_blob_is_kept(self, store: Store, role: Role) -> None:
        """A blob of any role is kept byte for byte."""
        data = bytes(range(256))
        ref = ref_of(data, role)
        store.put_blob(ref, data)
        assert self.raw_blob(store, ref) == data
        assert store.blob(ref) == data
        assert store.has_blob(ref)

    def test_put_blob_twice(self, store: Store) -> None:
        """Putting a blob that is there is harmless."""
        ref = ref_of(b"data")
        store.put_blob(ref, b"data")
        store.put_blob(ref, b"data")
        assert store.blob(ref) == b"data"

    def test_empty_blob(self, store: Store) -> None:
        """A blob may be empty, and is then there, not absent."""
        ref = ref_of(b"")
        store.put_blob(ref, b"")
        assert store.blob(ref) == b""
        assert store.has_blob(ref)

    def test_quarantined_entry_is_not_seen(self, store: Store) -> None:
        """A quarantined entry is out of sight, its siblings are not."""
        store.put_entry(KEY, "bad", b"bad")
        store.put_entry(KEY, "good", b"good")
        store.quarantine(KEY, "bad", "because")
        assert list(store.entries(KEY)) == [("good", b"good")]
        assert self.raw_entries(store, KEY) == {"good": b"good"}

    def test_quarantined_entry_may_come_again(self, store: Store) -> None:
        """A variant that was quarantined can be published again."""
        for sealed in (b"one", b"two", b"three"):
            store.put_entry(KEY, "v0", sealed)
            store.quarantine(KEY, "v0", "because")
        store.put_entry(KEY, "v0", b"good")
        assert list(store.entries(KEY)) == [("v0", b"good")]

    def test_dropped_blob_is_gone(self, store: Store) -> None:
        """A dropped blob is absent, whatever its role, and can be put again."""
        ref = ref_of(b"kernel", Role.CPP_KERNEL)
        store.put_blob(ref, b"kernel")
        store.drop_blob(ref)
        assert store.blob(ref) is None
        assert not store.has_blob(ref)
        store.put_blob(ref, b"kernel")
        assert store.blob(ref) == b"kernel"

    def test_path_holds_the_bytes(self, store: Store) -> None:
        """A path, where a store has one, holds exactly the blob."""
        ref = ref_of(b"kernel", Role.CPP_KERNEL)
        store.put_blob(ref, b"kernel")
        path = store.path_of(ref)
        assert path is None or path.read_bytes() == b"kernel"

    def test_removing_while_listing(self, store: Store) -> None:
        """An entry that goes while its key is being listed is skipped or served whole."""
        for number in range(4):
            store.put_entry(KEY, f"v{number}", b"sealed")
        found = []
        for variant, sealed in store.entries(KEY):
            found.append((variant, sealed))
            for number in range(4):
                store.quarantine(KEY, f"v{number}", "meanwhile")
        assert 1 <= len(found) <= 4
        assert {sealed for _, sealed in found} == {b"sealed"}

    def test_relatives_are_found_under_each_address(self, store: Store) -> None:
        """What was noted comes back from either address, field by field; elsewhere there is nothing."""
        assert store.relatives([ADDRESS, ANOTHER]) == []
        assert store.relatives([]) == []
        store.relate([ADDRESS, ANOTHER], relative_of(1))
        store.relate([ADDRESS], relative_of(2, line=None))
        assert sorted(store.relatives([ADDRESS]), key=lambda one: one.key) == [
            relative_of(1),
            relative_of(2, line=None),
        ]
        assert store.relatives([ANOTHER]) == [relative_of(1)]
        assert store.relatives(["c" * 64]) == []
        assert list(store.entries(relative_of(1).key)) == []

    def test_a_key_that_is_noted_again_counts_once(self, store: Store) -> None:
        """Of several records of one key the newest is what counts."""
        for time in (1.7e9, 1.7e9 + 2, 1.7e9 + 1):
            store.relate([ADDRESS], relative_of(1, time))
        store.relate([ADDRESS], relative_of(1, 1.7e9 + 3))
        assert newest_each(store.relatives([ADDRESS])) == [relative_of(1, 1.7e9 + 3)]

    def test_an_address_stays_bounded(self, store: Store) -> None:
        """However many entries resemble each other, a bounded number is noted, and the newest are among them."""
        for number in range(400):
            store.relate([ADDRESS], relative_of(number, 1.7e9 + number))
        found = newest_each(store.relatives([ADDRESS]))
        assert len(store.relatives([ADDRESS])) < 300
        assert len(found) == MAX_RECORDS
        assert found[0] == relative_of(399, 1.7e9 + 399)

    def test_many_threads(self, store: Store) -> None:
        """Threads that put, read and remove at once see whole values or none."""
        blobs = [bytes([number]) * 5000 for number in range(8)]
        wrong: list[object] = []

        def work(seed: int) -> None:
            for step in range(40):
                data = blobs[(seed + step) % len(blobs)]
                ref = ref_of(data)
                try:
                    store.put_blob(ref, data)
                    store.put_entry(KEY, f"v{seed % 3}", data)
                    if (found := store.blob(ref)) not in (data, None):
                        wrong.append(found)
                    wrong.extend(sealed for _, sealed in store.entries(KEY) if sealed not in blobs)
                    store.touch(KEY, "v0")
                    if step % 7 == 0:
                        store.quarantine(KEY, f"v{seed % 3}", "because")
                        store.drop_blob(ref)
                except Exception as error:
                    wrong.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return MemoryStore()

    def raw_entries(self, store: Store, key: str) -> dict[str, bytes]:
        return {name[2]: value for name, value in store._values.items() if name[:2] == ("entry", key)}  # type: ignore[attr-defined]

    def raw_blob(self, store: Store, ref: BlobRef) -> bytes | None:
        return store._values.get(("blob", ref.digest))  # type: ignore[attr-defined, no-any-return]

    def set_raw_entry(self, store: Store, key: str, variant: str, sealed: bytes) -> None:
        store._values["entry", key, variant] = sealed  # type: ignore[attr-defined]
        store._variants[key] = [variant]  # type: ignore[attr-defined]

    def test_last_used_first(self) -> None:
        """Entries are listed last used first."""
        store = MemoryStore()
        for variant in ("a", "b", "c"):
            store.put_entry(KEY, variant, b"sealed")
        store.touch(KEY, "a")
        assert [variant for variant, _ in store.entries(KEY)] == ["a", "c", "b"]

    def test_stays_within_its_bound(self) -> None:
        """The bound holds after every put, and what was used last stays."""
        store = MemoryStore(max_bytes=1000)
        for number in range(50):
            store.put_entry(KEY, f"v{number}", bytes(90))
            store.touch(KEY, "v0")
            assert sum(len(value) for value in store._values.values()) == store._bytes <= 1000
        kept = [variant for variant, _ in store.entries(KEY)]
        assert kept[0] == "v0"
        assert kept[1] == "v49"
        assert len(kept) == 11

    def test_too_large_is_not_kept(self) -> None:
        """A value above the bound is not kept, and nothing else has to go for it."""
        store = MemoryStore(max_bytes=1000)
        store.put_entry(KEY, "v0", bytes(900))
        store.put_blob(ref_of(bytes(2000)), bytes(2000))
        assert [variant for variant, _ in store.entries(KEY)] == ["v0"]
        assert not store.has_blob(ref_of(bytes(2000)))


class TestDiskStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        return DiskStore(tmp_path / "store")

    def _folder(self, store: Store, key: str) -> Path:
        assert isinstance(store, DiskStore)
        return store.root / "entries" / key[3:5] / key

    def raw_entries(self, store: Store, key: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self._folder(store, key).iterdir()}

    def raw_blob(self, store: Store, ref: BlobRef) -> bytes | None:
        assert isinstance(store, DiskStore)
        name = ref.digest + ".so" if ref.role is Role.CPP_KERNEL else ref.digest
        return (store.root / "objects" / ref.digest[:2] / name).read_bytes()

    def set_raw_entry(self, store: Store, key: str, variant: str, sealed: bytes) -> None:
        folder = self._folder(store, key)
        folder.mkdir(parents=True)
        (folder / variant).write_bytes(sealed)


def test_null_store_keeps_nothing() -> None:
    """The null store takes everything and has nothing."""
    store = NullStore()
    assert isinstance(store, Store)
    ref = ref_of(b"x")
    store.put_blob(ref, b"x")
    store.put_entry(KEY, "v0", b"sealed")
    store.touch(KEY, "v0")
    store.quarantine(KEY, "v0", "why")
    store.drop_blob(ref)
    assert list(store.entries(KEY)) == []
    assert store.blob(ref) is None
    assert not store.has_blob(ref)
    assert store.path_of(ref) is None
    store.relate([ADDRESS], relative_of(1))
    assert store.relatives([ADDRESS]) == []
