"""What was appended to a journal folder since the last look. Not the whole folder (`journal`); decodes nothing."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from ..stores.disk.files import listing, stat_of
from ..stores.disk.layout import JOURNAL_NAME
from ..typing import Position
from .events import MAX_LINE_BYTES
from .journal import day_of

logger = logging.getLogger(__package__)


class FolderTail:
    """Remembers how far each file was read; opens only those that grew. A look reads whole lines only.

    A line longer than any event is given cut at the limit (`MAX_LINE_BYTES`), at which it is refused.
    since: Unix seconds; files of earlier days are passed by, older events in the others are not.
    """

    def __init__(self, dir: Path, since: float | None = None) -> None:
        self._dir = dir
        self._first = "" if since is None else day_of(since)
        self._read: dict[str, int] = {}  # bytes, by name and inode: a file that was replaced begins anew

    def new(self) -> Iterator[tuple[Position, bytes]]:
        """Lines that were completed since the last look, and where each ends. Raises StoreUnavailable.

        What was not taken from the iterator is new again the next time.
        """
        found = {}
        for item in listing(self._dir):
            match = JOURNAL_NAME.fullmatch(item.name)
            info = stat_of(item) if match and match[1] >= self._first else None
            if info is not None:
                found[f"{item.name}:{info.st_ino}"] = (Path(item.path), info.st_size)
        self._read = {part: self._read.get(part, 0) for part in found}
        for part, (path, size) in sorted(found.items()):
            if size == self._read[part]:
                continue
            try:
                with path.open("rb") as file:
                    yield from self._new_in(part, file)
            except FileNotFoundError:
                continue  # pruned since it was listed
            except OSError as error:
                logger.warning("a journal file is left out: %s", error)

    def _new_in(self, part: str, file: BinaryIO) -> Iterator[tuple[Position, bytes]]:
        if os.fstat(file.fileno()).st_size < self._read[part]:
            self._read[part] = 0  # another file, which got the number of one that was removed
        end = file.seek(self._read[part])
        while True:
            line = rest = file.readline(MAX_LINE_BYTES)
            end += len(line)
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(MAX_LINE_BYTES)
                end += len(rest)
            if not rest:  # the end, or a line that is still being written
                return
            self._read[part] = end
            yield (part, (end, 0)), line
