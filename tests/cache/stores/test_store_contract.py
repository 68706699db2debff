"""What every store promises, as one class of claims that each store must pass. Not what a store does beyond that."""

from __future__ import annotations

from pathlib import Path

import pytest
from warmgraph.cache import BlobRef, DiskStore, MemoryStore, Role, SimilarEntry, Store
from warmgraph.cache.stores.similar import MAX_RECORDS, newest_each

from warmgraph.testing import KEY, StoreConformance, ref_of

ADDRESS, ANOTHER = "a" * 64, "b" * 64


def relative_of(number: int, time: float = 1.7e9, line: int | None = 7) -> SimilarEntry:
    return SimilarEntry(f"wg1{number:064x}", {"graph": "a" * 16, "inputs": f"{number:016x}"}, line, time)


class StoreContract(StoreConformance):
    """Subclasses give `store`, and `raw_entries` and `raw_blob` that look past it."""

    def raw_entries(self, store: Store, key: str) -> dict[str, bytes]:
        raise NotImplementedError

    def raw_blob(self, store: Store, ref: BlobRef) -> bytes | None:
        raise NotImplementedError

    def set_raw_entry(self, store: Store, key: str, variant: str, sealed: bytes) -> None:
        raise NotImplementedError

    def test_what_is_put_lies_where_others_look(self, store: Store) -> None:
        """What put_entry and put_blob were given lies in the store under its name."""
        ref = ref_of(b"data")
        store.put_blob(ref, b"data")
        store.put_entry(KEY, "v0", b"sealed")
        assert self.raw_entries(store, KEY) == {"v0": b"sealed"}
        assert self.raw_blob(store, ref) == b"data"

    def test_raw_entry_is_read(self, store: Store) -> None:
        """An entry that another process put there is found."""
        self.set_raw_entry(store, KEY, "v7", b"theirs")
        assert list(store.entries(KEY)) == [("v7", b"theirs")]

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
