"""Blobs in pieces of at most 1 MiB, as they lie in Redis. Not how a piece is packed (`format.blobs`), no I/O.

Redis serves other clients between two commands, so pieces keep everybody's waits short. Nothing is sealed here: the
entry, which is, names the blob by its digest and each of its pieces by theirs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

from ...format.blobs import pack_piece, slices, unpack_piece, verify_blob
from ...format.codec import PIECE_BYTES, count_pieces
from ...typing import BlobRef, CorruptEntry

__all__ = ["PIECE_BYTES", "CorruptBlob", "count", "cut", "join", "sizes"]


class CorruptBlob(CorruptEntry):
    """A blob whose pieces are not what was written. ref: which."""

    def __init__(self, message: str, ref: BlobRef) -> None:
        super().__init__(message)
        self.ref = ref


def count(ref: BlobRef) -> int:
    """How many pieces `ref` has; one when it is empty."""
    return count_pieces(ref.size)


def sizes(ref: BlobRef) -> list[int]:
    """The most bytes that each piece can have."""
    return [min(PIECE_BYTES, ref.size - number * PIECE_BYTES) for number in range(count(ref))]


def cut(ref: BlobRef, data: bytes) -> Iterator[bytes]:
    """The pieces of `data`, in order. Raises ValueError when it is not of the size that `ref` says.

    A piece that this host would pack otherwise than whoever signed its digest goes as it is.
    """
    if len(data) != ref.size:
        raise ValueError(f"blob {ref.name!r:.80} has {len(data)} bytes, not {ref.size}")
    for number, part in enumerate(slices(data)):
        packed = pack_piece(ref, part)
        named = bool(ref.pieces) and hashlib.sha256(packed).hexdigest() == ref.pieces[number]
        yield packed if named else part


def join(ref: BlobRef, pieces: Sequence[bytes]) -> bytes:
    """The blob, verified. Raises CorruptBlob and nothing else."""
    parts = []
    try:
        for number, piece in enumerate(pieces):
            parts.append(unpack_piece(ref, number, piece))
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        verify_blob(ref, data)
    except CorruptEntry as error:
        raise CorruptBlob(f"blob {ref.name!r:.80}: {error}", ref) from error
    return data
