"""Is this folder ours alone? A stored result is code: whoever can write here can run code as us. No entries.

As sshd checks the way to its files: every folder from / on belongs to root or to us and cannot be written by others,
unless it is sticky (as /tmp is: there nobody removes what is another's). The last component is no link, and what lies
within is checked in the same way before it is used. Root's own folders are accepted: root needs no folder to run code
as us (a cache baked into an image).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...typing import StoreUnavailable
from .files import GONE, make_folders, translating

_ADVICE = "set WARMGRAPH_DIR to a folder of your own"
_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


Identity = tuple[int, int]  # device and inode: which folder it was that was checked


def open_private(root: Path, *, create: bool) -> Identity | None:
    """Check `root`, creating it 0700 when it is missing and `create`; None: it is not there. Raises StoreUnavailable.

    root is checked after creating it, so it does not matter who created it in the meantime; and each folder on the way
    through the descriptor of the one above it, so it does not matter who moves what meanwhile.
    """
    if root.is_symlink():
        raise StoreUnavailable(f"{root} is a link, and whoever made it chose what is believed here; {_ADVICE}")
    with translating("open", root):
        if not root.exists():
            if not create:
                return None
            make_folders(root)
        if not root.is_dir():
            raise StoreUnavailable(f"{root} is not a folder; move it away, or set WARMGRAPH_DIR")
        # Links above it are followed first: what counts is where they lead, and every folder on that way.
        return _walk(root.parent.resolve() / root.name)


def identity_of(root: Path) -> Identity | None:
    """Which folder bears this name now."""
    try:
        info = root.lstat()
    except OSError:
        return None
    return info.st_dev, info.st_ino


def _walk(path: Path) -> Identity:
    above = os.open("/", _FLAGS)
    try:
        so_far = Path("/")
        _check(so_far, os.fstat(above), last=False)
        for name in path.parts[1:]:
            below = os.open(name, _FLAGS, dir_fd=above)
            os.close(above)
            above, so_far = below, so_far / name
            _check(so_far, os.fstat(above), last=so_far == path)
        info = os.fstat(above)
        return info.st_dev, info.st_ino
    finally:
        os.close(above)


def check_within(root: Path, folder: Path, known: set[Path]) -> None:
    """Check `folder` and those between it and `root`, each once. known: which ones were. Raises StoreUnavailable."""
    if folder in known or folder == root:
        return
    check_within(root, folder.parent, known)
    try:
        info = folder.lstat()
    except OSError as error:
        if error.errno in GONE:
            return
        with translating("open", folder):
            raise
    if not stat.S_ISDIR(info.st_mode):
        raise StoreUnavailable(f"{folder} is a link, or no folder; move it away")
    _check(folder, info, last=True)
    known.add(folder)


def _check(path: Path, info: os.stat_result, *, last: bool) -> None:
    if info.st_uid not in (os.geteuid(), 0):
        raise StoreUnavailable(f"{path} belongs to user {info.st_uid}, who could run code through it as you; {_ADVICE}")
    sticky = not last and info.st_mode & stat.S_ISVTX
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        mode = "700" if last else "go-w"
        raise StoreUnavailable(
            f"{path} can be written by others, who could run code through it as you; "
            f"run `chmod {mode} {path}`, or set WARMGRAPH_DIR"
        )
