"""The index of resemblances (`near`) on disk: one small file of records per address. Not what a record says.

A record is appended in one write, so any number of processes may note at once. The races, and what each costs:

- A process is killed within its write, or two NFS clients write at one place: torn lines, which are passed by. A
  record begins with a newline, so that the torn one before it takes no other along.
- A file is rewritten, when it has grown too long, while another process appends: that record is lost, and a later
  miss may be explained with another entry, or with none.
- Eviction removes a file that is being appended to: as above.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...typing import SimilarEntry
from ..similar import decode_relative, encode_relative, newest_each
from .files import GONE, make_folders, read_bounded, translating, write_atomically

_LONG = 32 * 1024  # bytes; above it a file is rewritten without what is doubled or old
MAX_FILE_BYTES = 4 * _LONG  # what more than that is read of is no file of ours


def append(path: Path, relative: SimilarEntry) -> None:
    """Note a record in the file at `path`. Raises StoreUnavailable."""
    with translating("write", path):
        size = _append(path, b"\n" + encode_relative(relative) + b"\n")
    if size > _LONG:
        kept = [encode_relative(one) for one in newest_each(read(path))]
        write_atomically(path, b"".join(record + b"\n" for record in kept))


def read(path: Path) -> list[SimilarEntry]:
    """The records in the file at `path`; what is torn or foreign is passed by. Raises StoreUnavailable."""
    data = read_bounded(path, MAX_FILE_BYTES)
    if data is None:
        return []
    found = (decode_relative(line) for line in data[:MAX_FILE_BYTES].splitlines() if line)
    return [relative for relative in found if relative is not None]


def _append(path: Path, record: bytes) -> int:
    """The file's size after the write."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno not in GONE:
            raise
        make_folders(path.parent)
        descriptor = os.open(path, flags, 0o600)
    try:
        os.write(descriptor, record)  # on a full disk a part of it: torn, and passed by
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
