"""One entry as stores hold it: sealed, its blobs encoded. Not where it is kept (stores), nor how read (`reading`)."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ..typing import BlobRef, Entry, Role
from .blobs import encode_blob
from .codec import canonical_entry
from .seal import DEFAULT_NAMESPACE, Signer, seal


class Packed(Struct, frozen=True):
    """entry, and its bytes: `sealed` for the entry itself, one pair for each blob."""

    entry: Entry
    sealed: bytes
    blobs: tuple[tuple[BlobRef, bytes], ...]

    @property
    def size(self) -> int:
        """Bytes in a store."""
        return len(self.sealed) + sum(len(data) for _, data in self.blobs)


def pack(
    draft: Entry,
    blobs: Sequence[tuple[Role, str, bytes]],
    signer: Signer | None = None,
    generation: int = 0,
    *,
    namespace: str = DEFAULT_NAMESPACE,
) -> Packed:
    """Encode blobs, name them in the entry, seal it. Raises ValueError for what could not be read back."""
    encoded = tuple(encode_blob(role, name, content) for role, name, content in blobs)
    entry = replace(draft, blobs=tuple(ref for ref, _ in encoded))
    return Packed(entry, seal(entry.key, canonical_entry(entry), signer, generation, namespace=namespace), encoded)
