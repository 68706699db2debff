"""When a folder's size is to be looked at: decided by all processes that write to it, in one small file they share.

The file says when somebody looked last and for which bound, and holds a dot for each MiB that was written since.
Counts may get lost (two NFS clients append at once, a process ends with less than a MiB to tell): a folder grows a
little past its bound.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from .files import GONE, make_folders, read_bounded, translating, unavailable
from .locks import lock, unlock_and_close

LOOK_AGAIN = 3600.0  # seconds: what is removed by its age, and what was not counted
_UNIT = 2**20
_HEAD_BYTES = 64
_FLAGS = os.O_CLOEXEC | os.O_NOFOLLOW


class Schedule(Struct):
    """One process's share in it. path: the shared file."""

    path: Path
    _untold: int = 0

    def is_due(self, written: int, every: int, now: float) -> bool:
        """Count `written` bytes; whether to look now, which one process of those that ask is told.

        every: bytes after which to look. now: unix seconds. Raises StoreUnavailable where the file cannot be read or
        written.
        """
        units, self._untold = divmod(self._untold + written, _UNIT)
        limit = max(1, every // _UNIT)

        def is_due(noted: bytes) -> bool:
            head, _, dots = noted.partition(b"\n")
            return len(dots) + units >= limit or _is_past(head, every, now)

        size = _HEAD_BYTES + limit
        noted = read_bounded(self.path, size)
        if noted is None or is_due(noted):
            return _begin(self.path, size, is_due, b"%d %d\n" % (now, every))
        if units:
            _append(self.path, b"." * units)
        return False


def _is_past(head: bytes, every: int, now: float) -> bool:
    """Whether the last look was long ago, by whichever host's clock, or for a wider bound; or cannot be read."""
    try:
        looked, wanted = map(int, head.split())
    except ValueError:
        return True
    return abs(now - looked) >= LOOK_AGAIN or every < wanted


def _begin(path: Path, size: int, is_due: Callable[[bytes], bool], head: bytes) -> bool:
    """Note that this process looks now; False: another one was faster, or is about to be.

    Under a lock, and looked at once more there: who found it due may have read what another one was just writing.
    """
    with translating("write", path):
        make_folders(path.parent)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _FLAGS, 0o600)
        try:
            if not _is_alone(descriptor) or not is_due(os.pread(descriptor, size, 0)):
                return False
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, head, 0)
        finally:
            unlock_and_close(descriptor)
    return True


def _is_alone(descriptor: int) -> bool:
    try:
        return lock(descriptor, fcntl.LOCK_EX)
    except OSError:  # a file system without locks: several may look at once
        return True


def _append(path: Path, dots: bytes) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | _FLAGS | os.O_APPEND)
    except OSError as error:
        if error.errno in GONE:  # somebody looks just now
            return
        raise unavailable("write", path, error) from error
    try:
        with translating("write", path):
            os.write(descriptor, dots)
    finally:
        os.close(descriptor)
