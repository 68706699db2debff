"""The null store: holds nothing, accepts everything. For `mode=off`, and as a stand-in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..typing import BlobRef, SimilarEntry


class NullStore:
    """Every lookup is absent, every put is forgotten."""

    name = "null"

    def entries(self, key: str) -> Iterator[tuple[str, bytes]]:
        return iter(())

    def blob(self, ref: BlobRef) -> bytes | None:
        return None

    def blobs(self, refs: Sequence[BlobRef]) -> dict[str, bytes]:
        return {}

    def has_blob(self, ref: BlobRef) -> bool:
        return False

    def put_blob(self, ref: BlobRef, data: bytes) -> None:
        return

    def put_entry(self, key: str, variant: str, sealed: bytes) -> None:
        return

    def touch(self, key: str, variant: str, refs: Sequence[BlobRef] = ()) -> None:
        return

    def quarantine(self, key: str, variant: str, why: str, sealed: bytes | None = None) -> None:
        return

    def drop_blob(self, ref: BlobRef) -> None:
        return

    def path_of(self, ref: BlobRef) -> Path | None:
        return None

    def relate(self, addresses: Sequence[str], relative: SimilarEntry) -> None:
        return

    def relatives(self, addresses: Sequence[str]) -> list[SimilarEntry]:
        return []
