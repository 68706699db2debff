"""The memory store: entries and blobs of this process, bounded, least recently used out first. No files."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..format.seal import same_entry
from ..process.forks import fork_safe_lock
from ..typing import BlobRef, SimilarEntry
from .similar import newest_each

_Name = tuple[str, ...]  # ("entry", key, variant) or ("blob", digest)
_MAX_ADDRESSES = 4096


class MemoryStore:
    """Thread-safe and fork-safe. Entries and blobs age alike; an entry whose blob went is incomplete, a miss.

    max_bytes bounds the sum of all values; one that is larger by itself is not kept.
    """

    def __init__(self, max_bytes: int = 256 * 2**20, *, name: str = "memory") -> None:
        self.name = name
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: OrderedDict[_Name, bytes] = OrderedDict()  # least recently used first
        self._variants: dict[str, list[str]] = {}  # by key, last used last
        self._near: OrderedDict[str, list[SimilarEntry]] = OrderedDict()  # by address, last noted last
        self._lock = fork_safe_lock()

    def entries(self, key: str) -> Iterator[tuple[str, bytes]]:
        with self._lock:
            variants = self._variants.get(key, [])
            # Somebody may have been interrupted between the two tables.
            names = [("entry", key, variant) for variant in reversed(variants)]
            found = [(name[2], self._values[name]) for name in names if name in self._values]
        yield from found

    def blob(self, ref: BlobRef) -> bytes | None:
        with self._lock:
            name = ("blob", ref.digest)
            if name in self._values:
                self._values.move_to_end(name)
            return self._values.get(name)

    def blobs(self, refs: Sequence[BlobRef]) -> dict[str, bytes]:
        found = ((ref.digest, self.blob(ref)) for ref in refs)
        return {digest: data for digest, data in found if data is not None}

    def has_blob(self, ref: BlobRef) -> bool:
        with self._lock:
            data = self._values.get(("blob", ref.digest))
            return data is not None and len(data) == ref.size

    def put_blob(self, ref: BlobRef, data: bytes) -> None:
        with self._lock:
            self._put(("blob", ref.digest), data)

    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        with self._lock:
            self._put(("entry", key, variant), sealed)

    def touch(self, key: str, variant: str, refs: Sequence[BlobRef] = ()) -> None:
        with self._lock:
            sealed = self._values.get(("entry", key, variant))
            if sealed is not None:
                self._put(("entry", key, variant), sealed)

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        """There is nothing to keep for study here: the entry is dropped."""
        with self._lock:
            there = self._values.get(("entry", key, variant))
            if sealed is not None and (there is None or not same_entry(there, sealed)):
                return
            self._drop(("entry", key, variant))

    def drop_blob(self, ref: BlobRef) -> None:
        with self._lock:
            self._drop(("blob", ref.digest))

    def path_of(self, ref: BlobRef) -> Path | None:
        return None

    def relate(self, addresses: Sequence[str], relative: SimilarEntry) -> None:
        with self._lock:
            for address in addresses:
                self._near[address] = newest_each([*self._near.pop(address, []), relative])
            while len(self._near) > _MAX_ADDRESSES:
                self._near.popitem(last=False)

    def relatives(self, addresses: Sequence[str]) -> list[SimilarEntry]:
        with self._lock:
            return [relative for address in addresses for relative in self._near.get(address, [])]

    def _put(self, name: _Name, value: bytes) -> None:
        self._drop(name)
        if len(value) > self._max_bytes:
            return
        self._values[name] = value
        self._bytes += len(value)
        if name[0] == "entry":
            self._variants.setdefault(name[1], []).append(name[2])
        while self._bytes > self._max_bytes:
            self._drop(next(iter(self._values)))

    def _drop(self, name: _Name) -> None:
        value = self._values.pop(name, None)
        if value is None:
            return
        self._bytes -= len(value)
        if name[0] == "entry":
            variants = self._variants.get(name[1], [])
            if name[2] in variants:
                variants.remove(name[2])
            if not variants:
                self._variants.pop(name[1], None)
