"""Checks of the folder, its file system and clock, of torch's own, and of limits. Not what is in the store."""

from __future__ import annotations

import fcntl
import getpass
import mmap
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from warmgraph.cache import (
    ConfigError,
    DiskStore,
    Mode,
    StoreUnavailable,
    is_over_a_network,
    mounted,
    store_root,
)

from ..output import size
from .command import Finding, ok, problem, warning
from .settings import current_settings

_LITTLE_SPACE = 10**9
_FEW_FILES = 10_000
_CLOCK_SECONDS = 10.0
_LATEST_LOOKED_AT = 2000  # files of the store; enough to meet a wrong clock
_FEW_OPEN_FILES = 1024


def check_folder() -> Iterator[Finding]:
    """Private, writable, with room, and on a file system from which code may be loaded."""
    current = current_settings()
    if isinstance(current, ConfigError):
        return
    readonly = Mode.READONLY in (current.mode, current.dir_mode)
    root = store_root(current)
    try:
        if root != current.dir:
            DiskStore(current.dir, readonly=True)
        DiskStore(root, readonly=True)
    except StoreUnavailable as error:
        yield problem("folder", str(error), "until then nothing is kept here")
        return
    place = next(path for path in (root, *root.parents) if path.is_dir())
    if place != root and not os.access(place, os.W_OK | os.X_OK):
        yield problem("folder", f"{root} is not there, and {place} is not yours to write", "set WARMGRAPH_DIR")
        return
    if place != root:
        yield ok("folder", f"{root} is not there yet; it is made on first use")
    elif readonly:
        yield ok("folder", f"{root}, private, used readonly")
    else:
        yield from _writable(root)
    yield from _file_system(place, current.max_size, readonly=readonly)


def _writable(root: Path) -> Iterator[Finding]:
    try:
        with tempfile.TemporaryFile(dir=root) as file:
            file.write(b"\0" * mmap.PAGESIZE)
            file.flush()
            off = os.fstat(file.fileno()).st_mtime - time.time()
            yield from _locks(root, file.fileno())
    except OSError as error:
        yield problem("folder", f"{root} cannot be written: {error.strerror}", "make it yours, or set WARMGRAPH_DIR")
        return
    yield ok("folder", f"{root}, private and writable")
    ahead = max([*_ages_ahead(root), off])
    if max(ahead, -off) > _CLOCK_SECONDS:
        seconds = ahead if ahead > _CLOCK_SECONDS else off
        yield warning(
            "clock",
            f"files in {root} are {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} this host's clock",
            "eviction and ages go by it: let this host, and the server of its disk, follow NTP",
        )
    else:
        yield ok("clock", "files have the time of this host")


def _locks(root: Path, descriptor: int) -> Iterator[Finding]:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        yield warning(
            "locks",
            f"files in {root} cannot be locked ({error.strerror}): processes of this host do not wait for each other, "
            f"and compile the same graph at once",
            "mount it with locks (Lustre: -o flock; NFS: with lockd), or set WARMGRAPH_DIR to a local disk",
        )
    else:
        yield ok("locks", "files can be locked: one process compiles, the others of this host wait for it")


def _ages_ahead(root: Path) -> Iterator[float]:
    """By how many seconds entries and journals are from the future."""
    now = time.time()
    for folder in ("entries", "journal"):
        found = (root / folder).rglob("*")
        for _, path in zip(range(_LATEST_LOOKED_AT), found, strict=False):
            try:
                yield path.stat().st_mtime - now
            except OSError:  # gone meanwhile
                continue


def _file_system(place: Path, wanted: int, *, readonly: bool) -> Iterator[Finding]:
    about = os.statvfs(place)
    if about.f_flag & os.ST_NOEXEC:
        yield problem(
            "noexec",
            f"{place} is on a file system mounted noexec: C++ kernels are loaded in place, so no CPU graph will hit",
            "mount it without noexec, or set WARMGRAPH_DIR to another disk",
        )
    _, kind = mounted(place)
    if is_over_a_network(kind):
        yield warning(
            "disk",
            f"{place} is on {kind}, over a network: it is safe there, but every look-up waits for it (at most 10 s)",
            "give each host a folder on its own disk, and share through a Redis (WARMGRAPH_URL)",
        )
    if readonly:
        return
    free, files = about.f_bavail * about.f_frsize, about.f_favail
    if free < _LITTLE_SPACE:
        advice = f"the store may take {size(wanted)}: free some, or set WARMGRAPH_DIR or WARMGRAPH_MAX_SIZE"
        yield warning("disk", f"{size(free)} free at {place}", advice)
    elif about.f_files and files < _FEW_FILES:  # some file systems have no such count, and say 0
        yield warning("disk", f"only {files} more files fit at {place}", "free some, or set WARMGRAPH_DIR")
    else:
        yield ok("disk", f"{kind or 'unknown file system'}, {size(free)} free; the store may take {size(wanted)}")


def check_torch_folder() -> Iterator[Finding]:
    """Where Inductor builds what missed, and loads it from."""
    given = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    folder = Path(given) if given else Path(tempfile.gettempdir()) / f"torchinductor_{_user()}"
    place = next(path for path in (folder, *folder.absolute().parents) if path.is_dir())
    advice = "set TORCHINDUCTOR_CACHE_DIR to a folder on another disk; only misses use it"
    about = os.statvfs(place)
    if not os.access(place, os.W_OK | os.X_OK):
        yield problem("inductor", f"{place}, where torch compiles, is not yours to write", advice)
    elif about.f_flag & os.ST_NOEXEC:
        yield problem("inductor", f"{place}, where torch compiles, is mounted noexec", advice)
    elif (free := about.f_bavail * about.f_frsize) < _LITTLE_SPACE:
        yield warning("inductor", f"{size(free)} free at {place}, where torch compiles", advice)
    else:
        yield ok("inductor", f"torch compiles in {folder}, {size(free)} free")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user in a container: torch does the same
        return f"uid_{os.getuid()}"


def check_limits() -> Iterator[Finding]:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    written, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if files != resource.RLIM_INFINITY and files < _FEW_OPEN_FILES:
        yield warning("limits", f"{files} open files per process", f"ulimit -n {_FEW_OPEN_FILES} or more")
    if written != resource.RLIM_INFINITY:
        yield warning(
            "limits", f"no file may exceed {size(written)}", "ulimit -f unlimited: larger results are not kept"
        )
    if (files == resource.RLIM_INFINITY or files >= _FEW_OPEN_FILES) and written == resource.RLIM_INFINITY:
        yield ok("limits", f"{'any number of' if files == resource.RLIM_INFINITY else files} open files")
