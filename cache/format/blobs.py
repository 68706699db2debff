"""Blobs: content to stored bytes and back, named by digest. Knows nothing of entries or stores."""

from __future__ import annotations

import hashlib

from ..typing import BlobRef, CorruptEntry, Role
from .codec import MAX_BLOB_BYTES

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
    return BlobRef(digest, len(data), role, name, encoding, len(content)), data


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
