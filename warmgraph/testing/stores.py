"""What every store must do, as a class of tests to inherit from, and as a state machine beside a dict."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from warmgraph.cache import BlobRef, Role, SimilarEntry, Store


def key_of_number(number: int) -> str:
    """A key as stores see them."""
    return f"wg1{number:064x}"


def ref_of(data: bytes, role: Role = Role.AOT_RESULT) -> BlobRef:
    """The reference under which an entry would name `data`."""
    return BlobRef(hashlib.sha256(data).hexdigest(), len(data), role, "name", "raw", len(data))


def _relative(number: int, time: float = 1.7e9, line: int | None = 7) -> SimilarEntry:
    return SimilarEntry(key_of_number(number), {"graph": "a" * 16, "inputs": f"{number:016x}"}, line, time)


KEY, OTHER = key_of_number(10), key_of_number(11)
ADDRESS, ANOTHER = "a" * 64, "b" * 64


class StoreConformance:
    """Subclasses give the fixture `store`: a fresh, empty one; and `reopened`, if it can be opened a second time."""

    @pytest.fixture
    def store(self) -> Store:
        raise NotImplementedError

    def reopened(self, store: Store) -> Store:
        """The same place, as another process sees it."""
        return store

    def test_is_a_store(self, store: Store) -> None:
        """It has the protocol's methods and a name."""
        assert isinstance(store, Store)
        assert store.name

    def test_absent_is_not_an_error(self, store: Store) -> None:
        """An absent entry or blob is nothing, and touching or removing it changes nothing."""
        ref = ref_of(b"x")
        assert list(store.entries(KEY)) == []
        assert store.blob(ref) is None
        assert store.blobs([ref]) == {}
        assert not store.has_blob(ref)
        assert store.path_of(ref) is None
        store.touch(KEY, "v0")
        store.quarantine(KEY, "v0", "why")
        store.drop_blob(ref)

    def test_put_entry_is_kept(self, store: Store) -> None:
        """An entry lies under its key and variant, and under no other; another process finds it."""
        store.put_entry(KEY, "v0", b"sealed")
        assert list(self.reopened(store).entries(KEY)) == [("v0", b"sealed")]
        assert list(store.entries(OTHER)) == []

    def test_put_entry_replaces(self, store: Store) -> None:
        """Putting a variant again replaces it."""
        store.put_entry(KEY, "v0", b"old")
        store.put_entry(KEY, "v0", b"new")
        assert list(self.reopened(store).entries(KEY)) == [("v0", b"new")]

    def test_all_variants_are_listed(self, store: Store) -> None:
        """Variants of one key live side by side."""
        for number in range(5):
            store.put_entry(KEY, f"v{number}", b"%d" % number)
        assert dict(store.entries(KEY)) == {f"v{number}": b"%d" % number for number in range(5)}

    @pytest.mark.parametrize("role", list(Role))
    def test_put_blob_is_kept(self, store: Store, role: Role) -> None:
        """A blob of any role is kept byte for byte; twice is once."""
        data = bytes(range(256))
        ref = ref_of(data, role)
        for _ in range(2):
            store.put_blob(ref, data)
        there = self.reopened(store)
        assert there.blob(ref) == data
        assert there.has_blob(ref)
        assert there.blobs([ref, ref_of(b"absent")]) == {ref.digest: data}

    def test_empty_blob(self, store: Store) -> None:
        """A blob may be empty, and is then there, not absent."""
        ref = ref_of(b"")
        store.put_blob(ref, b"")
        assert store.blob(ref) == b""
        assert store.has_blob(ref)

    def test_quarantined_entry_is_not_seen(self, store: Store) -> None:
        """A quarantined entry is out of sight, its siblings are not; it can be published again."""
        store.put_entry(KEY, "bad", b"bad")
        store.put_entry(KEY, "good", b"good")
        store.quarantine(KEY, "bad", "because")
        assert list(self.reopened(store).entries(KEY)) == [("good", b"good")]
        store.put_entry(KEY, "bad", b"mended")
        assert dict(store.entries(KEY)) == {"good": b"good", "bad": b"mended"}

    def test_only_the_entry_that_was_seen_is_quarantined(self, store: Store) -> None:
        """Another has come in its place meanwhile: that one stays."""
        store.put_entry(KEY, "v0", b"bad")
        store.put_entry(KEY, "v0", b"good")
        store.quarantine(KEY, "v0", "because", b"bad")
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

    def test_similar_entries_are_a_help(self, store: Store) -> None:
        """What was noted comes back from either address, or nothing does; it is no entry, and it stays bounded."""
        store.relate([ADDRESS, ANOTHER], _relative(1))
        assert store.relatives([ANOTHER]) in ([_relative(1)], [])
        assert list(store.entries(_relative(1).key)) == []
        for number in range(400):
            store.relate([ADDRESS], _relative(number, 1.7e9 + number))
        assert len(store.relatives([ADDRESS])) < 300

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
                except Exception as error:  # noqa: BLE001 - whatever it is, it is what the test is about
                    wrong.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []


def store_machine(make: Callable[[], Store]) -> type:
    """A test case of hypothesis: any sequence of calls, compared with a dict. make: a fresh, empty store."""
    keys, variants = st.sampled_from([KEY, OTHER]), st.sampled_from(["v0", "v1"])
    values, roles = st.binary(max_size=40), st.sampled_from([Role.AOT_RESULT, Role.CPP_KERNEL])

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.store = make()
            self.entries: dict[tuple[str, str], bytes] = {}
            self.blobs: dict[tuple[str, Role], bytes] = {}

        @rule(key=keys, variant=variants, sealed=values)
        def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
            self.store.put_entry(key, variant, sealed)
            self.entries[key, variant] = sealed

        @rule(key=keys, variant=variants)
        def quarantine(self, key: str, variant: str) -> None:
            self.store.quarantine(key, variant, "why")
            self.entries.pop((key, variant), None)

        @rule(key=keys, variant=variants, sealed=values)
        def quarantine_what_was_seen(self, key: str, variant: str, sealed: bytes) -> None:
            self.store.quarantine(key, variant, "why", sealed)
            if self.entries.get((key, variant)) == sealed:
                del self.entries[key, variant]

        @rule(key=keys, variant=variants)
        def touch(self, key: str, variant: str) -> None:
            self.store.touch(key, variant)

        @rule(key=keys)
        def look_up(self, key: str) -> None:
            wanted = {variant: sealed for (its, variant), sealed in self.entries.items() if its == key}
            assert dict(self.store.entries(key)) == wanted

        @rule(data=values, role=roles)
        def put_blob(self, data: bytes, role: Role) -> None:
            ref = ref_of(data, role)
            self.store.put_blob(ref, data)
            self.blobs[ref.digest, role] = data

        @rule(data=values, role=roles)
        def read_blob(self, data: bytes, role: Role) -> None:
            ref = ref_of(data, role)
            if (ref.digest, role) in self.blobs:
                assert self.store.blob(ref) == data
                assert self.store.blobs([ref]) == {ref.digest: data}
                assert self.store.has_blob(ref)

        @rule(data=values)
        def drop_blob(self, data: bytes) -> None:
            for role in (Role.AOT_RESULT, Role.CPP_KERNEL):
                ref = ref_of(data, role)
                self.store.drop_blob(ref)
                self.blobs.pop((ref.digest, role), None)
                assert self.store.blob(ref) is None

    Machine.TestCase.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
    return Machine.TestCase
