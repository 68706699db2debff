"""Files for the kernels of a hit (only a file can be `dlopen`ed): a store's own, or this process's. Not a store."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..process.exits import at_process_end
from ..stores.disk.files import read_bounded, translating, write_atomically
from ..typing import BlobRef, Entry, Role, Store, StoreUnavailable


def kernel_file(ref: BlobRef, data: bytes, found_in: Store, others: Iterable[Store], spill: Spill) -> Path:
    """A file of these verified bytes: of the store they were read from; of another; else a private one.

    Raises StoreUnavailable when there is none and none can be made.
    """
    path = found_in.path_of(ref)
    if path is not None:
        return path
    for other in others:
        try:
            path = other.path_of(ref)
            if path is not None and other.blob(ref) == data:
                return path
        except StoreUnavailable:
            continue  # whoever reads or writes there next will say why
    return spill.file(ref.digest, data)


def kernel_files(
    entry: Entry, contents: dict[str, bytes], found_in: Store, others: Sequence[Store], spill: Spill
) -> dict[str, Path]:
    """The files of an entry's kernels by name, which leave `contents`. Raises StoreUnavailable."""
    kernels = [ref for ref in entry.blobs if ref.role is Role.CPP_KERNEL]
    return {ref.name: kernel_file(ref, contents.pop(ref.name), found_in, others, spill) for ref in kernels}


class Spill:
    """A private temporary folder (0700) of this process, made when first needed. A forked child makes its own."""

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
