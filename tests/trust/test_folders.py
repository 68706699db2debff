"""Folders as sshd checks them: who else can write on the way to one chooses what is believed there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from warmgraph.cache import DiskStore, Entry, Hit, Miss, Role, StoreUnavailable
from warmgraph_tests_trust_hosts import Host, key_of


def poisoned(folder: Path) -> Path:
    """A store of somebody else's, complete and right by its checksums."""
    Host(folder, url="").publish(1, text="theirs")
    return folder


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o2775])
def test_a_parent_that_others_write_is_refused(tmp_path: Path, mode: int) -> None:
    """It could be swapped after the check: the store in it was believed. Sticky, as /tmp is, it cannot."""
    parent = tmp_path / "shared"
    parent.mkdir()
    host = Host(parent / "deeper" / "store", url="")
    host.publish(1)
    parent.chmod(mode)
    assert isinstance(host.lookup(1), Miss)
    (parent / "deeper").rename(parent / "mine")
    poisoned(tmp_path / "theirs" / "store").parent.rename(parent / "deeper")
    assert isinstance(host.lookup(1), Miss)
    with pytest.raises(StoreUnavailable, match=f"chmod go-w {parent}"):
        DiskStore(host.root)
    parent.chmod(0o1777)
    assert isinstance(host.lookup(1), Hit)


@pytest.mark.parametrize("which", ["the store", "a folder within", "a shard"])
def test_a_link_is_not_followed(tmp_path: Path, which: str) -> None:
    """To an unpacked archive, say: a hit on somebody else's entries before."""
    theirs = poisoned(tmp_path / "archive")
    mine = Host(tmp_path / "mine", url="")
    if which == "the store":
        mine.root.symlink_to(theirs)
    else:
        mine.publish(2)
        for name in ("entries", "objects"):
            for path in [theirs / name] if which == "a folder within" else sorted((theirs / name).iterdir()):
                place = mine.root / path.relative_to(theirs)
                if place.exists():
                    place.rename(tmp_path / f"gone {path.name}")
                place.symlink_to(path)
    assert isinstance(mine.lookup(1), Miss)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("where", ["parent", "store", "entries", "shard of objects"])
def test_anothers_folder_is_refused(tmp_path: Path, where: str) -> None:
    """Wherever on the way, or within."""
    host = Host(tmp_path / "parent" / "store", url="")
    host.publish(1)
    shard = next((host.root / "objects").iterdir())
    places = {
        "parent": host.root.parent,
        "store": host.root,
        "entries": host.root / "entries",
        "shard of objects": shard,
    }
    os.chown(places[where], 12345, 12345)
    assert isinstance(host.lookup(1), Miss)
    os.chown(places[where], 0, 0)
    assert isinstance(host.lookup(1), Hit)


@pytest.mark.parametrize("name", ["entries", "objects"])
def test_a_folder_within_that_others_write_is_refused(tmp_path: Path, name: str) -> None:
    host = Host(tmp_path / "store", url="")
    host.publish(1)
    for path in (host.root / name, next((host.root / name).iterdir())):
        path.chmod(0o777)
        assert isinstance(host.lookup(1), Miss)
        path.chmod(0o700)
        assert isinstance(host.lookup(1), Hit)


def test_links_above_are_followed_to_where_they_lead(tmp_path: Path) -> None:
    """As /home -> /data/home is: what counts are the folders on the real way."""
    real = tmp_path / "data"
    real.mkdir()
    (tmp_path / "home").symlink_to(real)
    host = Host(tmp_path / "home" / "store", url="")
    host.publish(1)
    assert isinstance(host.lookup(1), Hit)
    real.chmod(0o777)
    assert isinstance(host.lookup(1), Miss)


def test_a_store_that_is_swapped_after_the_check_is_checked_again(tmp_path: Path) -> None:
    """While a process has it open: what bears its name then is another folder, which others can write to."""
    host = Host(tmp_path / "store", url="")
    host.publish(1)
    cache = host.cache()
    theirs = poisoned(tmp_path / "theirs")
    host.root.rename(tmp_path / "gone")
    theirs.rename(host.root)
    host.root.chmod(0o777)
    assert isinstance(cache.lookup(key_of(1), lambda entry: True), Miss)
    host.root.chmod(0o700)
    assert isinstance(host.lookup(1), Hit)


def test_a_store_that_is_removed_is_made_anew(tmp_path: Path) -> None:
    """By hand, while a process has it open."""
    host = Host(tmp_path / "store", url="")
    cache = host.cache()
    shutil.rmtree(host.root)
    assert isinstance(cache.lookup(key_of(1), lambda entry: True), Miss)
    cache.publish(Entry(key_of(1), "v0", {}, None, {}, ()), [(Role.AOT_RESULT, "r", b"x")])
    assert cache.flush()
    assert isinstance(host.lookup(1), Hit)
