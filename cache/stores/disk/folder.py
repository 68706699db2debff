"""Is this folder ours alone? A stored result is code: whoever can write here can run code as us. No entries."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ...typing import StoreUnavailable
from .files import make_folders, translating


def open_private(root: Path, *, create: bool) -> None:
    """Check `root`, creating it 0700 when it is missing and `create`. Raises StoreUnavailable.

    root is checked after creating it, so it does not matter who created it in the meantime.
    Root's own folders are accepted: root needs no folder to run code as us (a cache baked into an image).
    """
    with translating("open", root):
        if not root.exists():
            if not create:
                return
            make_folders(root)
        info = root.stat()
    if not stat.S_ISDIR(info.st_mode):
        raise StoreUnavailable(f"{root} is not a folder; move it away, or set WARMGRAPH_DIR")
    if info.st_uid not in (os.geteuid(), 0):
        raise StoreUnavailable(
            f"{root} belongs to user {info.st_uid}, who could run code through it as you; "
            f"set WARMGRAPH_DIR to a folder of your own"
        )
    if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreUnavailable(
            f"{root} can be written by others, who could run code through it as you; "
            f"run `chmod 700 {root}`, or set WARMGRAPH_DIR"
        )
