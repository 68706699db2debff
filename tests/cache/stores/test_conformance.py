"""The classes that ship in `warmgraph.testing`: our own stores and leases pass them, and the example does."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import pytest
from warmgraph.cache import DiskStore, Leases, MemoryStore, Store
from warmgraph.cache.stores.disk.locks import FileLeases

from warmgraph.testing import KEY, LeaseConformance, StoreConformance, store_machine

_FILE = Path(__file__).resolve().parents[3] / "examples" / "nfs_store.py"
_SPEC = importlib.util.spec_from_file_location("nfs_store", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
nfs_store = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(nfs_store)


class TestNfsStore(StoreConformance):
    """Written from docs/adding-a-store.md alone."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Store:
        made: Store = nfs_store.NfsStore(tmp_path)
        return made

    def reopened(self, store: Store) -> Store:
        made: Store = nfs_store.NfsStore(store._root)  # type: ignore[attr-defined]
        return made


class TestFileLeases(LeaseConformance):
    @pytest.fixture
    def leases(self, tmp_path: Path) -> Leases:
        return FileLeases(tmp_path)

    @pytest.fixture
    def other(self, leases: Leases) -> Leases:
        return FileLeases(leases._layout.root)  # type: ignore[attr-defined]


TestMemoryStoreAgainstADict = store_machine(MemoryStore)
TestDiskStoreAgainstADict = store_machine(lambda: DiskStore(Path(tempfile.mkdtemp()) / "store"))
TestNfsStoreAgainstADict = store_machine(lambda: nfs_store.NfsStore(Path(tempfile.mkdtemp())))


class _Forgetful(MemoryStore):
    """Takes an entry out although another has come in its place."""

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        super().quarantine(key, variant, why)


def test_a_store_that_breaks_a_promise_fails() -> None:
    store = _Forgetful()
    with pytest.raises(AssertionError):
        StoreConformance().test_only_the_entry_that_was_seen_is_quarantined(store)
    assert list(store.entries(KEY)) == []
