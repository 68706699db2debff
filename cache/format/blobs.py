"""Blobs: content to stored bytes and back, named by digest. Knows nothing of entries or stores."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from msgspec.structs import replace

from ..typing import BlobRef, CorruptEntry, Role
from .codec import MAX_BLOB_BYTES, PIECE_BYTES

_LEVEL = 3
# Level 3 never needs a window above 2 MiB; a frame that asks for more than 8 is not ours.
_MAX_WINDOW = 8 * 2**20
# A zstd block holds at most 128 KiB and takes at least 4 bytes, so no honest frame expands further than this.
# Together with the entry's size it bounds what a lying header can make us allocate.
_MAX_EXPANSION = 2**15


def encode_blob(role: Role, name: str, content: bytes) -> tuple[BlobRef, bytes]:
    """How `content` is stored. Kernels stay as they are: they are opened in place. Raises ValueError."""
    if len(content) > MAX_BLOB_BYTES:
        raise ValueError(f"blob {name!r:.80} has {len(content)} bytes, above {MAX_BLOB_BYTES}")
    if role is Role.CPP_KERNEL:
        encoding, data = "raw", content
    else:
        import zstandard  # imported late: 8 ms

        encoding, data = "zstd", zstandard.ZstdCompressor(level=_LEVEL).compress(content)
    digest = hashlib.sha256(data).hexdigest()
    ref = BlobRef(digest, len(data), role, name, encoding, len(content))
    pieces = tuple(hashlib.sha256(pack_piece(ref, part)).hexdigest() for part in slices(data))
    return replace(ref, pieces=pieces), data


def slices(data: bytes) -> Iterator[bytes]:
    """`data` in pieces, one when it is empty."""
    for begin in range(0, max(1, len(data)), PIECE_BYTES):
        yield data[begin : begin + PIECE_BYTES]


def pack_piece(ref: BlobRef, part: bytes) -> bytes:
    """A piece as it travels: what is raw (kernels) is compressed where that is smaller."""
    if ref.encoding != "raw":
        return part
    import zstandard

    smaller = zstandard.ZstdCompressor(level=_LEVEL).compress(part)
    return smaller if len(smaller) < len(part) else part


def unpack_piece(ref: BlobRef, number: int, piece: bytes) -> bytes:
    """Piece `number` as it is in the blob. Raises CorruptEntry.

    One that is as long as it is in the blob is that (the blob's digest is checked over all of them). A shorter one is
    packed, and decompressed only if the entry names its digest.
    """
    size = min(PIECE_BYTES, ref.size - number * PIECE_BYTES)
    if len(piece) == size:
        return piece
    if len(piece) > size or not ref.pieces or hashlib.sha256(piece).hexdigest() != ref.pieces[number]:
        raise CorruptEntry("it has another digest than its entry says")
    return _decompress(replace(ref, content_size=size), piece)


def verify_blob(ref: BlobRef, data: bytes) -> None:
    """Raise CorruptEntry unless `data` is what `ref` names."""
    if len(data) != ref.size:
        raise CorruptEntry(f"blob {ref.name!r:.80} has {len(data)} bytes, not {ref.size}")
    if hashlib.sha256(data).hexdigest() != ref.digest:
        raise CorruptEntry(f"blob {ref.name!r:.80} has another digest than its entry says")


def decode_blob(ref: BlobRef, data: bytes) -> bytes:
    """The content, after verifying `data`; never above `ref.content_size` bytes. Raises only CorruptEntry."""
    verify_blob(ref, data)
    if ref.encoding == "raw":
        content = data
    elif ref.encoding == "zstd":
        content = _decompress(ref, data)
    else:
        raise CorruptEntry(f"blob {ref.name!r:.80} has an unknown encoding")
    if len(content) != ref.content_size:
        raise CorruptEntry(f"blob {ref.name!r:.80} holds {len(content)} bytes, not {ref.content_size}")
    return content


def _decompress(ref: BlobRef, data: bytes) -> bytes:
    import zstandard

    try:
        # One-shot decoding allocates what the header says: it must say what the entry says, within reason.
        claimed = zstandard.get_frame_parameters(data).content_size
        if claimed != ref.content_size or claimed > len(data) * _MAX_EXPANSION:
            raise CorruptEntry(f"blob {ref.name!r:.80} claims {claimed} bytes, not {ref.content_size}")
        decoder = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
        return decoder.decompress(data, max_output_size=ref.content_size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise CorruptEntry(f"blob {ref.name!r:.80} is not zstd: {error}") from error
