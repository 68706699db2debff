"""A folder on a network file system that stalls. A pipe in the place of a file stalls whoever opens it, as NFS does."""

from __future__ import annotations

import contextlib
import gc
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import Hit, Journal, Miss, Reason, StoreSilent, is_over_a_network
from warmgraph.cache.journal.events import Event, Outcome
from warmgraph.cache.journal.journal import day_of
from warmgraph.cache.process.calls import start_thread
from warmgraph.cache.stores.disk import locks, mount
from warmgraph.cache.stores.disk.files import host_name, write_atomically
from warmgraph.cache.stores.disk.locks import FileLease, FileLeases
from warmgraph.cache.stores.disk.mount import Mount
from warmgraph.cache.typing import Held

KEY = f"wg1{'0' * 64}"


@pytest.fixture(autouse=True)
def nfs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every folder is on one, and a call is waited for two seconds."""
    monkeypatch.setattr(mount, "mounted", lambda folder: (Path("/home"), "nfs4"))
    monkeypatch.setattr(mount, "SECONDS", 2.0)
    forget()
    yield
    forget()


def forget() -> None:
    mount.mount_of.cache_clear()
    mount._mount_at.cache_clear()


class Stall:
    """path is a pipe until it goes on; then there is nothing."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)

    def goes_on(self) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_NONBLOCK)  # lets those in who open it
        self.path.unlink()
        time.sleep(0.05)
        os.close(descriptor)


def all_is_back(folder: Mount) -> bool:
    for _ in range(500):
        if not folder._given_up:
            return True
        time.sleep(0.01)
    return False


def a_blob(root: Path) -> Path:
    return next(path for path in root.glob("objects/*/*") if path.is_file())


def hang(threads: int) -> bool:
    """Whether so many hang: the others end."""
    for _ in range(500):
        if sum(thread.name == "warmgraph-remote" for thread in threading.enumerate()) == threads:
            return True
        time.sleep(0.01)
    return False


def test_a_stall_costs_one_deadline_and_one_thread(published: Any, make: SimpleNamespace) -> None:
    """Lookups and leases go on without the folder; when it answers again, it is used again."""
    blob = a_blob(published.root)
    content = blob.read_bytes()
    cache = published()
    assert cache.flush()
    folder = mount.mount_of(published.root)
    stall = Stall(blob)
    for _ in range(3):
        found = cache.lookup(make.key_of(1), make.always)
        assert isinstance(found, Miss) and found.reason is Reason.UNREADABLE
        assert "/home (nfs4) has not answered for" in str(found.detail)
        with cache.flight(make.key_of(2)) as flight:
            assert "disk" not in flight._leases
        with pytest.raises(StoreSilent, match="set WARMGRAPH_DIR to a folder on a local disk"):
            FileLeases(published.root).acquire(make.key_of(2))
    assert hang(1)
    stall.goes_on()
    assert all_is_back(folder)
    blob.write_bytes(content)
    assert isinstance(published().lookup(make.key_of(1), make.always), Hit)


def test_publishing_is_not_held_up(opener: Any, make: SimpleNamespace) -> None:
    errors: list[Any] = []
    cache = opener(on_published=lambda entry, seconds, error: errors.append(error))
    contents = make.contents(1)
    cache.publish(make.draft(1), contents)
    assert cache.flush()
    stall = Stall(a_blob(opener.root))  # read again before it is written
    cache.publish(make.draft(1), contents)
    cache.publish(make.draft(2), make.contents(2))
    assert cache.flush(30)
    assert errors[0] is None and isinstance(errors[1], StoreSilent) and isinstance(errors[2], StoreSilent)
    stall.goes_on()
    assert all_is_back(mount.mount_of(opener.root))


def test_events_are_lost_and_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    folder.mkdir(mode=0o700)
    now = time.time()
    stall = Stall(folder / f"{day_of(now)}.{host_name()}.jsonl")
    journal = Journal(folder)
    assert [journal.append(Event(Outcome.SICK, time=now)) for _ in range(3)] == [False] * 3
    stall.goes_on()
    assert all_is_back(mount.mount_of(folder))
    assert journal.append(Event(Outcome.SICK, time=now))


def test_a_lease_that_comes_too_late_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows that it was had: it must not be held until the process ends."""
    leases, goes_on = FileLeases(tmp_path), threading.Event()
    take = FileLease.take

    def slowly(self: FileLease, *, create: bool) -> Any:
        goes_on.wait(30)
        return take(self, create=create)

    monkeypatch.setattr(FileLease, "take", slowly)
    with pytest.raises(StoreSilent):
        leases.acquire(KEY)
    goes_on.set()
    assert all_is_back(mount.mount_of(tmp_path))
    assert not leases._open
    assert isinstance(leases.acquire(KEY), FileLease)


def test_a_lease_is_given_back_during_a_stall(tmp_path: Path) -> None:
    """By a thread of its own, once the folder answers; not waited for."""
    leases, goes_on = FileLeases(tmp_path), threading.Event()
    lease = leases.acquire(KEY)
    assert isinstance(lease, FileLease)
    with pytest.raises(StoreSilent):
        mount.mount_of(tmp_path).call(lambda: goes_on.wait(30))
    lease.release(ok=True)
    goes_on.set()
    for _ in range(500):
        if not isinstance(FileLeases(tmp_path)._peek(KEY), Held):
            break
        time.sleep(0.01)
    assert FileLeases(tmp_path)._peek(KEY) is None


def test_a_stall_that_ends_while_a_lease_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given back once: its descriptor's number may be another file's by then."""
    leases, goes_on = FileLeases(tmp_path), threading.Event()
    lease = leases.acquire(KEY)
    assert isinstance(lease, FileLease)
    folder, closed = mount.mount_of(tmp_path), list[int]()
    close = locks.unlock_and_close
    monkeypatch.setattr(locks, "unlock_and_close", lambda number: (closed.append(number), close(number)))
    with pytest.raises(StoreSilent):
        folder.call(lambda: goes_on.wait(30))

    def start_late(work: Callable[[], None], name: str) -> bool:
        goes_on.set()
        assert all_is_back(folder)
        return start_thread(work, name)

    monkeypatch.setattr(mount, "start_thread", start_late)
    lease.release(ok=True)
    for _ in range(500):
        if closed:
            break
        time.sleep(0.01)
    lease.release(ok=True)
    assert len(closed) == 1


def test_an_interrupt_before_a_call_begins_is_no_stall(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C: nothing hangs. A lease is given back all the same."""
    leases, folder = FileLeases(tmp_path), mount.mount_of(tmp_path)
    lease = leases.acquire(KEY)

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    assert isinstance(lease, FileLease) and folder.kind == "nfs4"
    with monkeypatch.context() as patch:
        patch.setattr(mount, "bounded", interrupted)
        with pytest.raises(KeyboardInterrupt):
            folder.call(lambda: 7)
        with pytest.raises(KeyboardInterrupt):
            lease.release(ok=True)
    assert folder.call(lambda: 7) == 7
    for _ in range(500):
        if not leases._open:
            break
        time.sleep(0.01)
    assert not leases._open


def test_what_is_written_too_late_does_not_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been found wrong, and set aside, since its writer was given up."""
    goes_on, file = threading.Event(), tmp_path / "file"
    opened = os.open

    def slowly(path: Any, *arguments: Any, **named: Any) -> int:
        if ".tmp-" in str(path):
            goes_on.wait(30)
        return opened(path, *arguments, **named)

    monkeypatch.setattr(os, "open", slowly)
    with pytest.raises(StoreSilent):
        mount.mount_of(tmp_path).call(lambda: write_atomically(file, b"x"))
    goes_on.set()
    assert all_is_back(mount.mount_of(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_nothing_of_a_call_stays_in_memory(tmp_path: Path) -> None:
    """What failed holds what it was to write, which may be large: no cycle keeps it until the collector comes."""

    class Large:
        def fail(self) -> None:
            raise ZeroDivisionError

    large = Large()
    known = weakref.ref(large)
    gc.disable()
    try:
        with contextlib.suppress(ZeroDivisionError):
            mount.mount_of(tmp_path).call(large.fail)
        del large
        for _ in range(100):
            if known() is None:
                break
            time.sleep(0.01)
        assert known() is None
    finally:
        gc.enable()


def test_what_comes_in_time_is_as_it_is(tmp_path: Path) -> None:
    """Results, exceptions, calls within calls; more time for more bytes."""
    folder = mount.mount_of(tmp_path)
    assert folder.call(lambda: folder.call(lambda: 7) + 1) == 8
    with pytest.raises(ZeroDivisionError):
        folder.call(lambda: 1 // 0)
    assert folder.call(lambda: time.sleep(2.5) or 5, size=2**24) == 5
    assert not folder._given_up


def test_a_child_of_a_fork_is_not_held_up_by_what_hangs_in_its_parent(tmp_path: Path) -> None:
    folder, goes_on = mount.mount_of(tmp_path), threading.Event()
    with pytest.raises(StoreSilent):
        folder.call(lambda: goes_on.wait(30))
    child = os.fork()
    if child == 0:
        os._exit(0 if folder.call(lambda: 7) == 7 else 1)
    assert os.waitpid(child, 0)[1] == 0
    goes_on.set()


def test_local_disks_are_called_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread, and no deadline."""
    monkeypatch.setattr(mount, "mounted", lambda folder: (Path("/"), "ext4"))
    callers: list[Callable[[], threading.Thread]] = [threading.current_thread]
    assert mount.mount_of(tmp_path).call(callers[0]) is threading.current_thread()


@pytest.mark.parametrize(
    ("kind", "remote"),
    [
        *(("nfs4", True), ("fuse.sshfs", True), ("lustre", True), ("virtiofs", True), ("ext4", False), ("", False)),
        *(("autofs", True), ("fuse", True)),
        *(("fuseblk", False), ("fuse.fuse-overlayfs", False), ("overlay", False), ("tmpfs", False)),
    ],
)
def test_kinds(kind: str, remote: bool) -> None:
    assert is_over_a_network(kind) == remote
