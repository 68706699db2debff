"""A store on a folder that hosts share over NFS, as small as a store can be: docs/adding-a-store.md explains it.

    python examples/nfs_store.py

Every value is written beside its place and renamed into it, which NFS does in one step; there are no locks, no
eviction and no local files to open, so kernels are copied. What lies in it is signed like what lies in a Redis.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from warmgraph.cache import BlobRef, SimilarEntry, StoreUnavailable


class NfsStore:
    """Entries in `entries/<key>/<variant>`, blobs in `blobs/<digest>`. Nobody removes what is old."""

    name = "nfs"

    def __init__(self, root: Path) -> None:
        self._root = root

    def entries(self, key: str) -> Iterator[tuple[str, bytes]]:
        found = []
        with _translated():
            for path in (self._root / "entries" / key).glob("[!.]*"):
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    found.append((path.stat().st_mtime_ns, path.name, path.read_bytes()))
        return iter([(variant, sealed) for _, variant, sealed in sorted(found, reverse=True)])

    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        self._write(self._root / "entries" / key / variant, sealed)

    def touch(self, key: str, variant: str, refs: Sequence[BlobRef] = ()) -> None:
        with contextlib.suppress(OSError):
            os.utime(self._root / "entries" / key / variant)

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        path = self._root / "entries" / key / variant
        with _translated(), contextlib.suppress(FileNotFoundError):
            if sealed is None or path.read_bytes() == sealed:
                path.unlink()

    def blob(self, ref: BlobRef) -> bytes | None:
        with _translated(), contextlib.suppress(FileNotFoundError):
            return self._place(ref).read_bytes()
        return None

    def blobs(self, refs: Sequence[BlobRef]) -> dict[str, bytes]:
        return {ref.digest: data for ref in refs if (data := self.blob(ref)) is not None}

    def has_blob(self, ref: BlobRef) -> bool:
        with _translated(), contextlib.suppress(FileNotFoundError):
            return self._place(ref).stat().st_size == ref.size
        return False

    def put_blob(self, ref: BlobRef, data: bytes) -> None:
        if not self.has_blob(ref):
            self._write(self._place(ref), data)

    def drop_blob(self, ref: BlobRef) -> None:
        with _translated(), contextlib.suppress(FileNotFoundError):
            self._place(ref).unlink()

    def path_of(self, ref: BlobRef) -> Path | None:
        return None  # a library that is opened over NFS would fail when the server does

    def relate(self, addresses: Sequence[str], relative: SimilarEntry) -> None:
        return  # `warmgraph explain` does without

    def relatives(self, addresses: Sequence[str]) -> list[SimilarEntry]:
        return []

    def _place(self, ref: BlobRef) -> Path:
        return self._root / "blobs" / ref.digest[:2] / ref.digest

    def _write(self, path: Path, data: bytes) -> None:
        with _translated(absent=False):
            path.parent.mkdir(parents=True, exist_ok=True)
            beside = path.parent / f".{uuid.uuid4().hex}"
            try:
                beside.write_bytes(data)
                beside.replace(path)
            finally:
                beside.unlink(missing_ok=True)


@contextlib.contextmanager
def _translated(*, absent: bool = True) -> Iterator[None]:
    """Whatever the folder raises is an outage of this tier, which lookups survive. absent: not what is not there."""
    try:
        yield
    except OSError as error:
        if absent and isinstance(error, FileNotFoundError):
            raise
        raise StoreUnavailable(str(error)) from error


if __name__ == "__main__":
    store = NfsStore(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()))
    store.put_entry("wg1" + "0" * 64, "v0", b"sealed")
    print(dict(store.entries("wg1" + "0" * 64)))
