"""Kernels as files of this process alone, for hits that no store has a file of. Not a store; gone at exit."""

from __future__ import annotations

import os
from pathlib import Path

from .exits import at_process_end
from .files import read_bounded, translating, write_atomically


class Spill:
    """A private temporary folder (0700), made when first needed. A forked child makes its own."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._owner = -1

    def file(self, digest: str, data: bytes) -> Path:
        """A file holding exactly `data`, whose digest was verified. Raises StoreUnavailable."""
        path = self._own_folder() / f"{digest}.so"
        if read_bounded(path, len(data)) != data:
            write_atomically(path, data)
        return path

    def _own_folder(self) -> Path:
        if self._folder is None or self._owner != os.getpid() or not self._folder.is_dir():
            import tempfile  # imported late: 5 ms

            with translating("write below", Path(tempfile.gettempdir())):
                folder = Path(tempfile.mkdtemp(prefix="warmgraph-kernels-"))
            at_process_end(lambda: _remove(folder))
            self._folder, self._owner = folder, os.getpid()
        return self._folder


def _remove(folder: Path) -> None:
    """A file that is still open as a kernel lives on until it is unmapped."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
