"""Whole files, safely among many processes and on network file systems. Knows nothing of entries.

The one place where an OSError becomes a StoreUnavailable.
"""

from __future__ import annotations

import errno
import functools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...process.calls import current_call
from ...typing import StoreSilent, StoreUnavailable

# Strict: sweeping removes what matches, and someone may point WARMGRAPH_DIR at a folder of other things.
TEMPORARY_NAME = re.compile(r"\.tmp-[A-Za-z0-9-]{1,64}-\d{1,10}-[0-9a-f]{16}", re.ASCII)
_ATTEMPTS = 5

_ADVICE = {
    errno.ENOSPC: "the disk is full; free some space, or set WARMGRAPH_DIR to another disk",
    errno.EDQUOT: "the disk quota is used up; free some space, or set WARMGRAPH_DIR to another disk",
    errno.EROFS: "the file system is read-only; set WARMGRAPH_DIR to a folder that can be written",
    errno.EACCES: "permission denied; make it yours (chown, chmod 700), or set WARMGRAPH_DIR",
    errno.EPERM: "not permitted; make it yours (chown, chmod 700), or set WARMGRAPH_DIR",
    errno.EIO: "the disk reports an error; check it, or set WARMGRAPH_DIR to another disk",
    errno.ENOTDIR: "a file is where a folder should be; move it away, or set WARMGRAPH_DIR",
    errno.EMFILE: "too many open files in this process; raise `ulimit -n`",
    errno.ENFILE: "too many open files on this machine",
}

# A file that is gone. ESTALE: another host removed it while this NFS client still knew its handle.
# ENOTDIR: a folder on the way was replaced by a foreign file; what we look for is not there either.
GONE = frozenset({errno.ENOENT, errno.ESTALE, errno.ENOTDIR})


def unavailable(doing: str, path: Path, error: OSError) -> StoreUnavailable:
    """What to tell of an OSError: what failed, on what, what to do."""
    advice = _ADVICE.get(error.errno or 0, "set WARMGRAPH_DIR to another folder if this lasts")
    return StoreUnavailable(f"cannot {doing} {path}: {error.strerror or error}; {advice}")


@contextmanager
def translating(doing: str, path: Path) -> Iterator[None]:
    """Turn any OSError of the body into StoreUnavailable."""
    try:
        yield
    except OSError as error:
        raise unavailable(doing, path, error) from error


@functools.cache
def host_name() -> str:
    """This host's name, fit for a file name."""
    return re.sub(r"[^A-Za-z0-9-]", "-", os.uname().nodename)[:64] or "host"


def make_folders(path: Path) -> None:
    """Create `path` and what is missing above it, each 0700 whatever the umask. There already: a no-op."""
    if path.is_dir():  # first, since mkdir on a read-only file system may say EROFS instead of EEXIST
        return
    make_folders(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)  # exist_ok: another process made it in the meantime


def read_bounded(path: Path, limit: int) -> bytes | None:
    """The file's bytes, at most `limit` + 1 (so that a caller sees that it is too long); None when gone."""
    try:
        with path.open("rb", buffering=0) as file:
            chunks = []
            left = limit + 1
            while left > 0 and (chunk := file.read(min(left, 2**24))):
                chunks.append(chunk)
                left -= len(chunk)
    except OSError as error:
        if error.errno in GONE:
            return None
        raise unavailable("read", path, error) from error
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def write_atomically(path: Path, data: bytes) -> None:
    """Make `data` appear at `path` whole or not at all, replacing what is there.

    There is no fsync. After a power cut a file may be torn under its final name; the digest and the seal make
    that a miss, and a cache need not pay a disk flush per publish for what costs one compile, rarely.
    A killed process leaves its temporary file, which no reader takes for an entry; `sweep` removes it.
    """
    with translating("write", path):
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                _write_and_rename(path, data)
                return
            except OSError as error:
                # The folder is not there yet, or eviction removed it because it was empty, a moment ago.
                if error.errno not in (errno.ENOENT, errno.ESTALE) or attempt == _ATTEMPTS:
                    raise
            make_folders(path.parent)


def _write_and_rename(path: Path, data: bytes) -> None:
    # Host and pid are for people who look; the random part is what makes the name unique over all hosts.
    name = f".tmp-{host_name()}-{os.getpid()}-{os.urandom(8).hex()}"
    temporary = path.with_name(name)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 (a descriptor, not a path)
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        # Leaving the block closes the file, and only then do some network file systems report a full disk.
        _refuse_if_late(path)
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):  # the error on its way out says more than this one would
            temporary.unlink()
        raise


def _refuse_if_late(path: Path) -> None:
    """Raises StoreSilent when nobody waits any more: what was to be written may have been set aside meanwhile."""
    if (call := current_call()) is not None and call.is_abandoned:
        raise StoreSilent(f"nobody waits any more for {path} to be written")


def remove(path: Path) -> bool:
    """Remove a file. False when it was gone already: another process was faster."""
    try:
        path.unlink()
    except OSError as error:
        if error.errno in GONE:
            return False
        raise unavailable("remove", path, error) from error
    return True


def modified(path: Path) -> float | None:
    """The file's modification time (unix seconds), or None when it is gone."""
    try:
        return path.stat().st_mtime
    except OSError as error:
        if error.errno in GONE:
            return None
        raise unavailable("read", path, error) from error


def listing(folder: Path) -> list[os.DirEntry[str]]:
    """What lies in `folder`; nothing when it is gone."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError as error:
        if error.errno in GONE:
            return []
        raise unavailable("list", folder, error) from error


def stat_of(item: os.DirEntry[str]) -> os.stat_result | None:
    """The stat of a regular file in a listing; None when it is gone, or is a link, a folder, ..."""
    try:
        return item.stat(follow_symlinks=False) if item.is_file(follow_symlinks=False) else None
    except OSError as error:
        if error.errno in GONE:
            return None
        raise unavailable("read", Path(item.path), error) from error
