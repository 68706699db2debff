"""When a folder's size is to be looked at: decided by all processes that write to it, in one small file they share.

The file says when somebody looked last and for which bound, and holds a dot for each MiB that was written since.
Counts may get lost (two NFS clients append at once, a process ends with less than a MiB to tell): a folder grows a
little past its bound.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from .files import GONE, make_folders, read_bounded, remove, translating, unavailable

LOOK_AGAIN = 3600.0  # seconds: what is removed by its age, and what was not counted
_UNIT = 2**20
_HEAD_BYTES = 64
_FLAGS = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW


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
        noted = read_bounded(self.path, _HEAD_BYTES + limit)
        if noted is None:
            return _begin(self.path, every, now)
        head, _, dots = noted.partition(b"\n")
        if len(dots) + units < limit and not _is_past(head, every, now):
            if units:
                _append(self.path, b"." * units)
            return False
        return remove(self.path) and _begin(self.path, every, now)  # of all that see it due, one removes it


def _is_past(head: bytes, every: int, now: float) -> bool:
    """Whether the last look was long ago, by whichever host's clock, or for a wider bound; or cannot be read."""
    try:
        looked, wanted = map(int, head.split())
    except ValueError:
        return True
    return abs(now - looked) >= LOOK_AGAIN or every < wanted


def _begin(path: Path, every: int, now: float) -> bool:
    """Note that this process looks now; False: another one was faster."""
    with translating("write", path):
        make_folders(path.parent)
        try:
            descriptor = os.open(path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return False
        try:
            os.write(descriptor, b"%d %d\n" % (now, every))
        finally:
            os.close(descriptor)
    return True


def _append(path: Path, dots: bytes) -> None:
    try:
        descriptor = os.open(path, _FLAGS | os.O_APPEND)
    except OSError as error:
        if error.errno in GONE:  # somebody looks just now
            return
        raise unavailable("write", path, error) from error
    try:
        with translating("write", path):
            os.write(descriptor, dots)
    finally:
        os.close(descriptor)
