"""Where everything lies under a disk store's root, and which names are ours. Paths and listings, no contents.

    objects/ab/<digest>            a blob as stored; kernels are `<digest>.so`
    entries/ab/<key>/<variant>     a sealed entry
    quarantine/                    `<key>.<variant>.<unix ns>` and beside it `.why`
    journal/                       `<YYYY-MM-DD>.<host>.jsonl`
    locks/ab/<key>                 who compiles the key now (`locks`); `<key>.fetch`: who fetches it from a shared tier
    near/ab/<address>              which entries resemble each other (`near`)
    size-looked-at                 when somebody looked at its size, and what was written since (`schedule`)
    CACHEDIR.TAG                   tells backup programs to pass by

Every name is matched whole against a strict pattern before it becomes a path, so none can leave the root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from ...format.codec import DIGEST, KEY, VARIANT, check_name
from .files import TEMPORARY_NAME, listing, stat_of

CACHEDIR_TAG = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"
    b"# This folder is a cache of warmgraph. It can be removed at any time.\n"
)
KERNEL_SUFFIX = ".so"
JOURNAL_NAME = re.compile(r"(\d{4}-\d{2}-\d{2})\.[A-Za-z0-9-]{1,64}\.jsonl", re.ASCII)
_SHARD = re.compile(r"[0-9a-f]{2}")
_BLOB_NAME = re.compile(r"[0-9a-f]{64}(?:\.so)?")
NEAR_FOLDER = "near"
_QUARANTINE_NAME = re.compile(r"wg1[0-9a-f]{32,64}\.[a-z0-9_-]+\.(\d{1,20})(?:\.why)?", re.ASCII)
LOCK_NAME = re.compile(KEY.pattern + r"(?:\.fetch)?", re.ASCII)
_ROOT_NAME = re.compile(r"CACHEDIR\.TAG|size-looked-at")
_NO_NAME = re.compile(r"(?!)")


class EntryFile(Struct, frozen=True):
    """An entry as it lies on disk. size: bytes of the entry file alone. last_used: unix seconds."""

    path: Path
    key: str
    variant: str
    size: int
    last_used: float


class BlobFile(Struct, frozen=True):
    """A blob as it lies on disk, or a file of the index beside entries. written: unix seconds.

    name: the blob's digest, with `.so` for a kernel; `near/<address>` in the index.
    """

    path: Path
    name: str
    size: int
    written: float


class Layout(Struct, frozen=True):
    """Paths under one root. Raises ValueError for a key, variant or digest that is not one."""

    root: Path

    def blob(self, digest: str, *, kernel: bool) -> Path:
        check_name(DIGEST, digest, "digest")
        return self.root / "objects" / digest[:2] / (digest + KERNEL_SUFFIX if kernel else digest)

    def variants(self, key: str) -> Path:
        check_name(KEY, key, "key")
        return self.root / "entries" / key[3:5] / key

    def entry(self, key: str, variant: str) -> Path:
        check_name(VARIANT, variant, "variant")
        return self.variants(key) / variant

    def quarantined(self, key: str, variant: str, nanoseconds: int) -> Path:
        check_name(KEY, key, "key")
        check_name(VARIANT, variant, "variant")
        return self.quarantine / f"{key}.{variant}.{nanoseconds}"

    @property
    def quarantine(self) -> Path:
        return self.root / "quarantine"

    @property
    def journal(self) -> Path:
        return self.root / "journal"

    def lock(self, key: str, *, fetch: bool = False) -> Path:
        check_name(KEY, key, "key")
        return self.root / "locks" / key[3:5] / (f"{key}.fetch" if fetch else key)

    def near(self, address: str) -> Path:
        check_name(DIGEST, address, "address")
        return self.root / NEAR_FOLDER / address[:2] / address

    @property
    def tag(self) -> Path:
        return self.root / "CACHEDIR.TAG"

    @property
    def size_looked_at(self) -> Path:
        return self.root / "size-looked-at"

    def key_folders(self) -> Iterator[Path]:
        """The folder of every key."""
        for shard in _shards(self.root / "entries"):
            yield from (Path(item.path) for item in listing(shard) if KEY.fullmatch(item.name))

    def entries_of(self, folder: Path) -> list[EntryFile]:
        """The entries in a key's folder, last used first (ties by variant, so that order is stable)."""
        found = []
        for item in listing(folder):
            if VARIANT.fullmatch(item.name) and (info := stat_of(item)) is not None:
                path = Path(item.path)
                found.append(EntryFile(path, folder.name, item.name, info.st_size, info.st_mtime))
        return sorted(found, key=lambda file: (-file.last_used, file.variant))

    def all_entries(self) -> Iterator[EntryFile]:
        for folder in self.key_folders():
            yield from self.entries_of(folder)

    def all_blobs(self) -> Iterator[BlobFile]:
        for shard in _shards(self.root / "objects"):
            for item in listing(shard):
                if _BLOB_NAME.fullmatch(item.name) and (info := stat_of(item)) is not None:
                    yield BlobFile(Path(item.path), item.name, info.st_size, info.st_mtime)

    def near_files(self) -> Iterator[BlobFile]:
        """Every file of the index of resemblances."""
        for shard in _shards(self.root / NEAR_FOLDER):
            for item in listing(shard):
                if DIGEST.fullmatch(item.name) and (info := stat_of(item)) is not None:
                    yield BlobFile(Path(item.path), f"{NEAR_FOLDER}/{item.name}", info.st_size, info.st_mtime)

    def quarantined_files(self) -> Iterator[tuple[Path, float]]:
        """Every file in quarantine with the unix seconds at which it came there."""
        for item in listing(self.quarantine):
            if match := _QUARANTINE_NAME.fullmatch(item.name):
                yield Path(item.path), int(match[1]) / 1e9

    def lock_files(self) -> Iterator[tuple[Path, float]]:
        """Every lock file with the unix seconds at which it was last taken or given back."""
        for shard in _shards(self.root / "locks"):
            for item in listing(shard):
                if LOCK_NAME.fullmatch(item.name) and (info := stat_of(item)) is not None:
                    yield Path(item.path), info.st_mtime

    def strays(self) -> Iterator[tuple[Path, float, bool]]:
        """(path, mtime, is temporary) of each file in our folders that is no entry, blob, note or lock."""
        for folder, ours in self._folders():
            for item in listing(folder):
                if (info := stat_of(item)) is not None and not ours.fullmatch(item.name):
                    yield Path(item.path), info.st_mtime, TEMPORARY_NAME.fullmatch(item.name) is not None

    def _folders(self) -> Iterator[tuple[Path, re.Pattern[str]]]:
        """Each folder of ours, with the names of the files that belong there."""
        yield self.root, _ROOT_NAME
        yield self.quarantine, _QUARANTINE_NAME
        yield self.journal, JOURNAL_NAME
        yield self.root / "objects", _NO_NAME
        yield self.root / "entries", _NO_NAME
        yield self.root / "locks", _NO_NAME
        yield self.root / NEAR_FOLDER, _NO_NAME
        yield from ((folder, _BLOB_NAME) for folder in _shards(self.root / "objects"))
        yield from ((folder, _NO_NAME) for folder in _shards(self.root / "entries"))
        yield from ((folder, LOCK_NAME) for folder in _shards(self.root / "locks"))
        yield from ((folder, DIGEST) for folder in _shards(self.root / NEAR_FOLDER))
        yield from ((folder, VARIANT) for folder in self.key_folders())


def _shards(folder: Path) -> Iterator[Path]:
    for item in listing(folder):
        if _SHARD.fullmatch(item.name):
            yield Path(item.path)
