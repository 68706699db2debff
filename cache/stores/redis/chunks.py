"""Blobs in pieces of at most 1 MiB, each sealed under its place. Not the blobs' own encoding (`blobs`), no I/O.

Redis serves other clients between two commands, so pieces keep everybody's waits short. A piece is
`seal("<digest>:<i>/<n>", flag + payload)`; flag 1 says that the payload is zstd. The seal is checked before anything
is decompressed: what lies in a shared server was perhaps written by someone else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...format.seal import HEADER_BYTES, Signer, Verifier, seal, unseal
from ...typing import BlobRef, CorruptEntry, Untrusted

PIECE_BYTES = 2**20  # of a value in Redis
PAYLOAD_BYTES = PIECE_BYTES - HEADER_BYTES - 1  # of a blob, in one piece
_PLAIN, _ZSTD = b"\0", b"\1"
_LEVEL = 3
_MAX_WINDOW = 8 * 2**20  # as in `blobs`


class CorruptBlob(CorruptEntry):
    """A blob whose pieces are not what was written. ref: which."""

    def __init__(self, message: str, ref: BlobRef) -> None:
        super().__init__(message)
        self.ref = ref


class UntrustedBlob(CorruptBlob, Untrusted):
    """The same, sealed by someone who is not known here."""


def count(ref: BlobRef) -> int:
    """How many pieces `ref` has; one when it is empty."""
    return max(1, -(-ref.size // PAYLOAD_BYTES))


def cut(ref: BlobRef, data: bytes, signer: Signer | None) -> Iterator[bytes]:
    """The pieces of `data`, in order. Raises ValueError when it is not of the size that `ref` says."""
    if len(data) != ref.size:
        raise ValueError(f"blob {ref.name!r:.80} has {len(data)} bytes, not {ref.size}")
    pieces = count(ref)
    for number in range(pieces):
        payload = data[number * PAYLOAD_BYTES : (number + 1) * PAYLOAD_BYTES]
        yield seal(_place(ref, number, pieces), _packed(ref, payload), signer)


def join(ref: BlobRef, pieces: Sequence[bytes], verifier: Verifier) -> bytes:
    """The blob. Raises CorruptBlob, UntrustedBlob, and nothing else."""
    opened = []
    for number, piece in enumerate(pieces):
        try:
            opened.append(_unpacked(unseal(_place(ref, number, len(pieces)), piece, verifier), _size(ref, number)))
        except CorruptEntry as error:
            kind = UntrustedBlob if isinstance(error, Untrusted) else CorruptBlob
            raise kind(f"blob {ref.name!r:.80}, piece {number}: {error}", ref) from error
    return opened[0] if len(opened) == 1 else b"".join(opened)


def _place(ref: BlobRef, number: int, pieces: int) -> str:
    return f"{ref.digest}:{number}/{pieces}"


def _size(ref: BlobRef, number: int) -> int:
    return min(PAYLOAD_BYTES, ref.size - number * PAYLOAD_BYTES)


def _packed(ref: BlobRef, payload: bytes) -> bytes:
    if ref.encoding == "raw":
        import zstandard  # imported late: 8 ms

        smaller = zstandard.ZstdCompressor(level=_LEVEL).compress(payload)
        if len(smaller) < len(payload):
            return _ZSTD + smaller
    return _PLAIN + payload


def _unpacked(body: bytes, size: int) -> bytes:
    flag, payload = body[:1], body[1:]
    if flag == _ZSTD:
        payload = _decompressed(payload, size)
    elif flag != _PLAIN:
        raise CorruptEntry("it is packed in a way that is not known")
    if len(payload) != size:
        raise CorruptEntry(f"it has {len(payload)} bytes, not {size}")
    return payload


def _decompressed(payload: bytes, size: int) -> bytes:
    import zstandard

    try:
        # One-shot decoding allocates what the header says, at most PAYLOAD_BYTES here.
        if zstandard.get_frame_parameters(payload).content_size != size:
            raise CorruptEntry("it claims another size than its place has")
        decoder = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        return decoder.decompress(payload, max_output_size=size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptEntry(f"it is not zstd: {error}") from error
