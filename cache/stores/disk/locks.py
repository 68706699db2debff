"""Leases among the processes of one host: a file lock per key. No waiting (`flight`), no entries.

The kernel frees a lock with its owner, however that dies. What the file says is for people, with one exception:
a mark that the last owner's compile gave nothing, so that those who waited for it need not try one by one.

The races, and what each costs:

- An owner removes the file while another opens it: the other locks a file that has no name. So whoever gets
  the lock compares what it holds with what bears the name now, and opens anew when they differ.
- The content is read while it is written: it may be torn, or of the owner before. It only names an owner.
- A lock is held for a moment without being owned (to read the mark, to peek, to sweep): who asks just then is
  told that it is held, and asks again.
- A process forks in the instant between opening a file and noting it: should the parent be killed while it
  compiles, the child keeps its lock. Others wait as long as they may, and compile.
- The folder is shared over NFS: `flock` works among its hosts, but a client may believe for some seconds that
  a removed file still bears its name. Two hosts may then compile the same graph.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

from ...config.config import rank
from ...process.forks import reset_in_child
from ...typing import Held, StoreSilent
from .files import GONE, host_name, make_folders, translating
from .layout import Layout
from .mount import Mount, mount_of

FAILED_SECONDS = 5.0  # how long a failed compile is told to those who ask; who waits asks at least every second
SOMEONE = "another process"

_ATTEMPTS = 16
_MAX_CONTENT = 512
_MAX_OWNER = 100
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # the last: should it be a pipe, opening must not block


class FileLeases:
    """The locks under a disk store's root. Thread-safe; two threads of one process exclude each other, too.

    fetch: not of those who compile a key, but of those who fetch it from a shared tier.
    """

    name = "disk"
    seconds = 0.0

    def __init__(self, root: Path, *, fetch: bool = False) -> None:
        self._layout = Layout(root)
        self._mount = mount_of(root)
        self._fetch = fetch
        self._open: dict[FileLease, int] = {}  # descriptors by lease; only single, atomic operations on it
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        """Close the parent's files, or this child would keep them locked when the parent dies.

        Closed and not unlocked: what is shared with the parent is the lock itself.
        """
        inherited = list(self._open.values())
        self._open.clear()
        for descriptor in inherited:
            with suppress(OSError):
                os.close(descriptor)

    def acquire(self, key: str, *, waits: bool = False) -> FileLease | Held:
        return self._mount.call(partial(self._acquire, key, waits=waits), undo=_give_back)

    def peek(self, key: str) -> Held | None:
        return self._mount.call(partial(self._peek, key))

    def _acquire(self, key: str, *, waits: bool) -> FileLease | Held:
        path = self._layout.lock(key, fetch=self._fetch)
        with translating("lock", path):
            for _ in range(_ATTEMPTS):
                lease = FileLease(path, self._open, self._mount)
                try:
                    answer = lease.take(create=not waits)
                except BaseException:
                    lease.drop()
                    raise
                if answer is None:
                    return lease
                lease.drop()
                if isinstance(answer, Held):
                    return answer
        return Held(SOMEONE)  # a file that is replaced this often has people at work on it

    def _peek(self, key: str) -> Held | None:
        path = self._layout.lock(key, fetch=self._fetch)
        with translating("look at", path):
            try:
                descriptor = os.open(path, os.O_RDONLY | _FLAGS)
            except OSError as error:
                if error.errno in GONE:
                    return None
                raise
            try:
                free = lock(descriptor, fcntl.LOCK_SH)  # for a moment: an owner has it exclusively
                said = _content(descriptor)
            finally:
                unlock_and_close(descriptor)
        return None if free and not said.failed else said


class FileLease:
    """One lock file, opened. Given back by `release`, or by the end of the process."""

    __slots__ = ("_mount", "_open", "_path")

    token = 0

    def __init__(self, path: Path, opened: dict[FileLease, int], mount: Mount) -> None:
        self._path = path
        self._open = opened
        self._mount = mount

    def take(self, *, create: bool) -> Held | bool | None:
        """Try to lock. None: it is ours. Held: it is not. False: the file lost its name meanwhile; try anew.

        create: not who waits; where there is no file, the lease was given back.
        """
        found = _descriptor(self._path, create=create)
        if found is None:  # who gives nothing back, or dies, leaves the file
            return Held(SOMEONE, given_back=True)
        # Noted before it is locked, so that no child keeps a lock that the parent took after the fork.
        descriptor = self._open[self] = found
        locked = lock(descriptor, fcntl.LOCK_EX)
        said = _content(descriptor)
        if locked and not _bears(descriptor, self._path):
            return False
        # A fresh mark is nobody's lock: it is only overwritten once it is old.
        if said.failed or not locked:
            return said
        with suppress(OSError):  # full disk: nobody will know who has it, but it is had
            _write(descriptor, failed=False)
        return None

    def drop(self) -> None:
        """Unlock and close, whatever was reached."""
        descriptor = self._open.pop(self, None)
        if descriptor is not None:
            unlock_and_close(descriptor)

    def release(self, *, ok: bool) -> None:
        with suppress(StoreSilent):  # it is given back when that comes back
            self._mount.call(partial(self._release, ok=ok), insist=True)

    def _release(self, *, ok: bool) -> None:
        # Forgotten first: a number is closed once only, and in a child of a fork it is not there at all.
        descriptor = self._open.pop(self, None)
        if descriptor is None:
            return
        try:
            with suppress(OSError):  # it stays as it is: free, with our name in it
                if _bears(descriptor, self._path):  # not when the store was removed and made anew meanwhile
                    if ok:
                        self._path.unlink()
                    else:
                        _write(descriptor, failed=True)
        finally:
            unlock_and_close(descriptor)


def _give_back(answer: FileLease | Held) -> None:
    if isinstance(answer, FileLease):
        answer.release(ok=True)


def remove_if_free(path: Path) -> bool:
    """Remove a lock file that nobody holds; whether it was. For sweeping: what cannot be removed just stays."""
    try:
        descriptor = os.open(path, os.O_RDWR | _FLAGS)
    except OSError:
        return False
    try:
        if lock(descriptor, fcntl.LOCK_EX) and _bears(descriptor, path):
            path.unlink()
            return True
    except OSError:
        pass
    finally:
        unlock_and_close(descriptor)
    return False


def _descriptor(path: Path, *, create: bool) -> int | None:
    flags = os.O_RDWR | _FLAGS | (os.O_CREAT if create else 0)
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        if error.errno not in GONE:
            raise
    if not create:
        return None
    make_folders(path.parent)
    return os.open(path, flags, 0o600)


def lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock_and_close(descriptor: int) -> None:
    # Unlocked as well as closed: a child that is just being forked may have the descriptor still.
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with suppress(OSError):
        os.close(descriptor)


def _bears(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one that bears the name."""
    held = os.fstat(descriptor)
    try:
        named = path.lstat()
    except OSError as error:
        if error.errno in GONE:
            return False
        raise
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)


def _write(descriptor: int, *, failed: bool) -> None:
    said = {"host": host_name(), "pid": os.getpid(), "rank": rank(), "time": time.time()}
    line = json.dumps(said | ({"failed": True} if failed else {})).encode() + b"\n"
    os.pwrite(descriptor, line, 0)  # before truncating: a reader sees the old line or the new one, not none
    os.ftruncate(descriptor, len(line))


def _content(descriptor: int) -> Held:
    """What a lock file says. Total: anyone may have written it, and not to the end."""
    line = os.pread(descriptor, _MAX_CONTENT, 0).split(b"\n")[0]
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        return Held(SOMEONE)
    written = said.get("time")
    # Compared first: a whole number may be too large to be subtracted from. In both directions: clocks differ.
    now = time.time()
    fresh = isinstance(written, int | float) and now - FAILED_SECONDS < written < now + FAILED_SECONDS
    host, pid = said.get("host"), said.get("pid")
    failed = said.get("failed") is True and fresh
    return Held(_owner(host, pid, said.get("rank")), failed, stopped=host == host_name() and _is_stopped(pid))


def _is_stopped(pid: object) -> bool:
    """Whether a process of this host waits to be continued. Of another process namespace's: whoever has its number."""
    if type(pid) is not int:
        return False
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 (at each poll)
            return file.read(_MAX_CONTENT).rpartition(b") ")[2][:1] == b"T"
    except OSError:  # gone, or no Linux
        return False


def _owner(host: object, pid: object, rank: object) -> str:
    who = f"pid {pid} on {host}" if isinstance(pid, int) and isinstance(host, str) else SOMEONE
    text = f"rank {rank} ({who})" if isinstance(rank, int) else who
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:_MAX_OWNER]
