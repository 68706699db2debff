"""Calls on a folder that end, wherever it lies. A network file system may stall for minutes, and with it who calls it.

There each call runs in a thread of its own, and is waited for so long. While one that was given up has not come back,
no other is begun: a stall costs a process one deadline and one thread. A local disk is called as it is.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from ...process.calls import bounded, current_call, seconds_for, start_thread
from ...process.forks import reset_in_child
from ...typing import BlobRef, StoreSilent, StoreUnavailable

SECONDS = 10.0  # that a call which moves no bytes is waited for
# Beginnings of names of file systems: of FUSE's all, but those that are made of local ones.
_OVER_A_NETWORK = (
    *("nfs", "cifs", "smb3", "smbfs", "lustre", "ceph", "gpfs", "beegfs", "fuse.", "9p", "afs"),
    *("virtiofs", "panfs", "wekafs", "orangefs", "pvfs2", "autofs"),
)
_LOCAL = ("fuse.fuse-overlayfs", "fuse.lxcfs")

T = TypeVar("T")
P = ParamSpec("P")


class Mount:
    """One file system. point: where it is mounted. kind: its type, if it is one over a network; else None."""

    def __init__(self, point: Path, kind: str | None) -> None:
        self.point = point
        self.kind = kind
        self.after_fork_in_child()
        reset_in_child(self)

    def after_fork_in_child(self) -> None:
        """Who hangs, hangs in the parent."""
        self._lock = threading.Lock()
        self._given_up: set[_Late[Any]] = set()  # calls that have not come back

    def call(
        self,
        work: Callable[[], T],
        *,
        size: int = 0,
        undo: Callable[[T], object] | None = None,
        insist: bool = False,
    ) -> T:
        """What `work` returns or raises; StoreSilent where that takes too long. size: bytes that it moves.

        undo: is given what it returns when nobody waits for that any more. insist: it is done in any case, if late.
        """
        if self.kind is None or current_call() is not None:  # within a call that is waited for so long
            return work()
        late = _Late(work, undo)
        if (begun := self._stalled_since()) is not None:
            if insist:
                start_thread(partial(self._run, late), "warmgraph-folder")
            raise StoreSilent(self._told(begun))
        try:
            bounded(partial(self._run, late), seconds_for(size, SECONDS), late="", inline=True)
        except BaseException as error:  # it is late, or we are interrupted
            is_over = self._is_over(late)
            if insist and not late.has_begun:
                start_thread(partial(self._run, _Late(work, None)), "warmgraph-folder")
            if not isinstance(error, StoreSilent):
                if is_over:
                    late.undo()
                raise
            if not is_over:
                raise StoreSilent(self._told(late.since)) from None
        return late.result()

    def refuse_while_stalled(self) -> None:
        """Raises StoreSilent while a call that was given up has not come back."""
        if (begun := self._stalled_since()) is not None:
            raise StoreSilent(self._told(begun))

    def _stalled_since(self) -> float | None:
        with self._lock:
            return min((late.since for late in self._given_up), default=None)

    def _run(self, late: _Late[Any]) -> None:
        with self._lock:
            if late.is_cancelled:
                return
            late.has_begun = True
        if (call := current_call()) is not None:
            call.begins()  # from here on it is the folder that is late
        late.run()
        with self._lock:
            late.is_over = True
            was_given_up = late in self._given_up
            self._given_up.discard(late)
        if was_given_up:
            late.undo()

    def _is_over(self, late: _Late[Any]) -> bool:
        """Whether it came back just now. Else it is given up; or never begun, where no thread came to it."""
        with self._lock:
            if not late.has_begun:
                late.is_cancelled = True
            elif not late.is_over:
                self._given_up.add(late)
            return late.is_over

    def _told(self, begun: float) -> str:
        return (
            f"{self.point} ({self.kind}) has not answered for {time.monotonic() - begun:.0f} s; "
            f"set WARMGRAPH_DIR to a folder on a local disk if this lasts"
        )


class _Late(Generic[T]):
    """A call, and what came of it. since: monotonic. The rest is the mount's, under its lock."""

    def __init__(self, work: Callable[[], T], undo: Callable[[T], object] | None) -> None:
        self.since = time.monotonic()
        self.has_begun = self.is_over = self.is_cancelled = False
        self._work: Callable[[], T] | None = work
        self._undo = undo
        self._found: list[T] = []
        self._errors: list[BaseException] = []

    def run(self) -> None:
        work, self._work = self._work, None  # what it holds may be large
        assert work is not None
        try:
            self._found.append(work())
        except BaseException as error:  # noqa: BLE001 (raised again by whoever asked)
            self._errors.append(error)

    def undo(self) -> None:
        if self._undo is not None and self._found:
            self._undo(self._found.pop())

    def result(self) -> T:
        if self._errors:
            raise self._errors.pop()
        return self._found.pop()


@functools.lru_cache(maxsize=64)
def mount_of(folder: Path) -> Mount:
    """What `folder` lies on: one for all folders there."""
    try:
        # The way there may lead over what stalls.
        point, kind = bounded(partial(mounted, folder), SECONDS, late="", inline=True)
    except StoreUnavailable:
        return _mount_at(folder, "a file system that does not answer")
    return _mount_at(point, kind if is_over_a_network(kind) else None)


@functools.lru_cache(maxsize=64)
def _mount_at(point: Path, kind: str | None) -> Mount:
    return Mount(point, kind)


class Mounted(Protocol):
    """mount: where what it keeps lies."""

    mount: Mount


S = TypeVar("S", bound=Mounted)


def timed(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Of a method: it raises StoreSilent rather than waiting for a stalled file system."""
    return _timed(method, lambda args: 0)


def timed_by_size(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """As `timed`; bytes and blobs among its arguments are moved, which takes its time."""
    return _timed(method, _size)


def _timed(
    method: Callable[Concatenate[S, P], T], size: Callable[[tuple[object, ...]], int]
) -> Callable[Concatenate[S, P], T]:
    @functools.wraps(method)
    def call(self: S, /, *args: P.args, **named: P.kwargs) -> T:
        if self.mount.kind is None:
            return method(self, *args, **named)
        return self.mount.call(partial(method, self, *args, **named), size=size(args))

    return call


def _size(value: object) -> int:
    if isinstance(value, bytes):
        return len(value)
    if isinstance(value, BlobRef):
        return value.size
    return sum(map(_size, value)) if isinstance(value, (list, tuple)) else 0


def is_over_a_network(kind: str) -> bool:
    return kind == "fuse" or (kind.startswith(_OVER_A_NETWORK) and kind not in _LOCAL)


def mounted(folder: Path) -> tuple[Path, str]:
    """Where the file system of `folder` is mounted, and its type; the folder and "" where nothing says so."""
    real = Path(os.path.realpath(folder))  # before the list is read: to go there may mount it
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
            return file_system_of(real, file.read())
    except OSError:
        return real, ""


def file_system_of(real: Path, mounts: str) -> tuple[Path, str]:
    """As `mounted`, of a path without links, from the text of /proc/self/mountinfo (proc(5))."""
    best, found = -1, (real, "")
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(fields[4].replace("\\040", " "))
        depth = len(point.parts)
        if real.is_relative_to(point) and depth >= best:  # of two on one point, the later covers the earlier
            best, found = depth, (point, after.split(" ")[0])
    return found
