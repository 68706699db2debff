"""What the disk store does beyond the contract: privacy, names, whole files, last use, tools."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import BlobRef, CorruptEntry, DiskStore, Role, StoreUnavailable
from warmgraph.cache.stores.disk import files

KEY = f"wg1{'0a' * 32}"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_everything_is_private(opener: Any, make: SimpleNamespace, umask: int) -> None:
    """Whatever the umask, folders are 0700 and files 0600, also the folders above that had to be made."""
    before = os.umask(umask)
    try:
        opener.root = opener.root / "deeper" / "still"
        cache = opener()
        cache.publish(make.draft(1), make.contents(1))
        assert cache.flush()
        cache.quarantine(make.key_of(1), "v0", "why")
    finally:
        os.umask(before)
    top = opener.root.parent.parent
    for path in (top, *top.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_cachedir_tag(published: Any) -> None:
    """Backup programs find the tag they know, with the signature of bford.info/cachedir."""
    text = (published.root / "CACHEDIR.TAG").read_bytes()
    assert text.startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")


def test_layout(published: Any, make: SimpleNamespace) -> None:
    """Entries lie under two hex digits of their key, blobs under two of their digest, kernels as .so."""
    key = make.key_of(1)
    entry, _ = DiskStore(published.root).read_entry(key, "v0") or pytest.fail("the entry is not there")
    assert (published.root / "entries" / key[3:5] / key / "v0").is_file()
    for ref in entry.blobs:
        suffix = ".so" if ref.role is Role.CPP_KERNEL else ""
        path = published.root / "objects" / ref.digest[:2] / (ref.digest + suffix)
        assert path.stat().st_size == ref.size


BAD_NAMES = ["", ".", "..", "../x", "a/b", "/etc/passwd", ".tmp-x", "v0\n", "v0\0", "V0", "é", "x" * 65, "a.b"]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_no_path_is_made_of_a_bad_name(tmp_path: Path, name: str) -> None:
    """A key, variant or digest that is none is a ValueError in every method, and makes no path."""
    store = DiskStore(tmp_path / "store")
    ref = BlobRef(name, 1, Role.AOT_RESULT, "aot", "raw", 1)
    calls: list[Callable[[], object]] = [
        lambda: list(store.entries(name)),
        lambda: store.put_entry(name, "v0", b""),
        lambda: store.put_entry(KEY, name, b""),
        lambda: store.touch(KEY, name),
        lambda: store.quarantine(KEY, name, "why"),
        lambda: store.read_entry(KEY, name),
        lambda: store.blob(ref),
        lambda: store.has_blob(ref),
        lambda: store.put_blob(ref, b""),
        lambda: store.path_of(ref),
        lambda: store.drop_blob(ref),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=r"not a (key|variant|digest)"):
            call()
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] in ([], ["CACHEDIR.TAG"])


def test_last_used_first(tmp_path: Path) -> None:
    """Entries are listed last used first; publishing and touching count as use."""
    store = DiskStore(tmp_path / "store")
    folder = store.root / "entries" / KEY[3:5] / KEY
    for age, variant in ((9000, "a"), (8000, "b"), (7000, "c")):
        store.put_entry(KEY, variant, b"sealed")
        os.utime(folder / variant, (time.time() - age,) * 2)
    assert [variant for variant, _ in store.entries(KEY)] == ["c", "b", "a"]
    store.touch(KEY, "a")
    assert [variant for variant, _ in store.entries(KEY)] == ["a", "c", "b"]


def test_touch_of_a_time_in_the_future(tmp_path: Path) -> None:
    """A clock that ran ahead does not make an entry immortal: the next use sets it right."""
    store = DiskStore(tmp_path / "store")
    store.put_entry(KEY, "v0", b"sealed")
    path = store.root / "entries" / KEY[3:5] / KEY / "v0"
    os.utime(path, (time.time() + 10**6,) * 2)
    store.touch(KEY, "v0")
    assert abs(path.stat().st_mtime - time.time()) < 100


def test_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the rename fails, or the process is interrupted in it, the temporary file is removed."""
    store = DiskStore(tmp_path / "store")
    store.put_entry(KEY, "v0", b"good")
    for error, seen in ((OSError(errno.EIO, "bad"), StoreUnavailable), (KeyboardInterrupt(), KeyboardInterrupt)):

        def failing(self: Path, target: Path, error: BaseException = error) -> Path:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", failing)
            with pytest.raises(seen):
                store.put_entry(KEY, "v0", b"worse")
        assert list(store.entries(KEY)) == [("v0", b"good")]
        assert not list(store.root.rglob(".tmp-*"))


def test_folder_removed_between_making_and_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When eviction removes the empty folder just before a file is made in it, the write makes it again."""
    store = DiskStore(tmp_path / "store")
    real, races = files.make_folders, []

    def racing(path: Path) -> None:
        real(path)
        if path.name == KEY and len(races) < 2:
            races.append(path)
            path.rmdir()

    monkeypatch.setattr(files, "make_folders", racing)
    store.put_entry(KEY, "v0", b"sealed")
    assert len(races) == 2
    assert list(store.entries(KEY)) == [("v0", b"sealed")]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO, errno.EBADMSG])
def test_every_error_says_what_to_do(tmp_path: Path, code: int) -> None:
    """An OSError becomes one line: what failed, on what, why, and what to do."""
    error = files.unavailable("write", tmp_path, OSError(code, os.strerror(code)))
    text = str(error)
    assert text.startswith(f"cannot write {tmp_path}: {os.strerror(code)}; ")
    assert "\n" not in text
    assert "free some space" in text or "WARMGRAPH_DIR" in text


@pytest.mark.parametrize("code", [errno.ENOENT, errno.ESTALE])
def test_file_that_goes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A file that another process (or, over NFS, another host) removes in the meantime is absent, not an error."""
    store = DiskStore(tmp_path / "store")
    ref = BlobRef("0" * 64, 4, Role.AOT_RESULT, "aot", "raw", 4)
    store.put_entry(KEY, "v0", b"sealed")
    store.put_blob(ref, b"data")

    def gone(self: Path, *args: object, **options: object) -> object:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "open", gone)
    assert list(store.entries(KEY)) == []
    assert store.blob(ref) is None
    assert store.read_entry(KEY, "v0") is None


def test_reading_one_entry(published: Any, make: SimpleNamespace) -> None:
    """Tools read one entry: checked, or None, or CorruptEntry."""
    store = DiskStore(published.root)
    found = store.read_entry(make.key_of(1), "v0")
    assert found is not None
    assert found[0].facts["host"] == "here"
    assert found[1] == next(iter(store.scan())).size
    assert store.read_entry(make.key_of(1), "v9") is None
    store.put_entry(make.key_of(1), "v9", b"nonsense")
    with pytest.raises(CorruptEntry):
        store.read_entry(make.key_of(1), "v9")


def test_scan_and_usage(opener: Any, make: SimpleNamespace) -> None:
    """scan names every entry; usage counts what lies there, quarantine apart."""
    cache = opener()
    for number in range(4):
        cache.publish(make.draft(number), make.contents(number))
    assert cache.flush()
    cache.quarantine(make.key_of(3), "v0", "why")
    store = DiskStore(opener.root)
    assert {file.key for file in store.scan()} == {make.key_of(number) for number in range(3)}
    usage = store.usage()
    assert (usage.entries, usage.blobs, usage.files, usage.quarantined) == (3, 12, 15, 1)
    kept = [path for folder in ("entries", "objects") for path in (opener.root / folder).rglob("*") if path.is_file()]
    assert usage.bytes == sum(path.stat().st_size for path in kept)
