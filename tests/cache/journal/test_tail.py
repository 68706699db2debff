"""Following a folder of journals: each line once, also where files go and come. Streams: `tests/remote`."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from warmgraph.cache import FolderTail

NAME = "2026-11-20.somehost.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "journal"
    place.mkdir()
    return place


def new(tail: FolderTail) -> list[bytes]:
    return [line.strip() for _, line in tail.new()]


def test_each_line_is_given_once_and_only_when_it_is_whole(folder: Path) -> None:
    """A line that is being written is given when its end is there."""
    tail = FolderTail(folder)
    (folder / NAME).write_bytes(b"1\n2\n3")
    assert new(tail) == [b"1", b"2"]
    with (folder / NAME).open("ab") as file:
        file.write(b"3\n4\n")
    assert (new(tail), new(tail)) == ([b"33", b"4"], [])


@pytest.mark.parametrize("count", [1, 3])
def test_a_folder_that_was_removed_and_made_anew_is_read_from_its_begin(folder: Path, count: int) -> None:
    """A store may be removed at any time; a new file often gets the number of the one that went."""
    tail = FolderTail(folder)
    (folder / NAME).write_bytes(b"old\n" * 10)
    assert len(new(tail)) == 10
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / NAME).write_bytes(b"new\n" * count)
    assert new(tail) == [b"new"] * count
    (folder / NAME).write_bytes(b"x\n")  # emptied in place
    assert new(tail) == [b"x"]
