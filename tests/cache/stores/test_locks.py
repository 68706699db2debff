"""File locks as leases: who has one, what is said of it, and what a death, a fork or a hostile file costs."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from warmgraph.cache import DiskStore, StoreUnavailable
from warmgraph.cache.stores.disk.locks import FileLeases
from warmgraph.cache.tiers.flight import Flights
from warmgraph.cache.tiers.one_reader import OneReader
from warmgraph.cache.typing import Held, Leases

KEY = f"wg1{'0' * 64}"
OTHER = f"wg1{'1' * 64}"

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.fixture
def leases(tmp_path: Path) -> FileLeases:
    return FileLeases(tmp_path / "store")


def lock_file(leases: FileLeases) -> Path:
    return leases._layout.lock(KEY)


def taken(leases: FileLeases, key: str = KEY) -> bool:
    """Whether `acquire` gives the lease, which is given back at once."""
    lease = leases.acquire(key)
    if isinstance(lease, Held):
        return False
    lease.release(ok=True)
    return True


def python(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def finish(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def test_one_has_it_and_others_are_told_who(leases: FileLeases, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease excludes every other holder of the same key, and no other key; Held names host, process and rank."""
    monkeypatch.setenv("RANK", "3")
    protocol: Leases = leases
    lease = protocol.acquire(KEY)
    assert not isinstance(lease, Held)
    assert lease.token == 0
    for elsewhere in (leases, FileLeases(leases._layout.root)):
        held = elsewhere.acquire(KEY)
        assert held == elsewhere.peek(KEY)
        assert held == Held(f"rank 3 (pid {os.getpid()} on {os.uname().nodename})")
    assert taken(leases, OTHER)
    lease.release(ok=True)
    assert leases.peek(KEY) is None
    assert taken(leases)


def test_good_end_leaves_no_file(leases: FileLeases) -> None:
    """A lock file is private, appears with the lease and goes with it; giving back twice is giving back once."""
    first = leases.acquire(KEY)
    assert not isinstance(first, Held)
    path = lock_file(leases)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    first.release(ok=True)
    assert not path.exists()
    second = leases.acquire(KEY)
    first.release(ok=True)
    assert isinstance(leases.acquire(KEY), Held), "the first lease is no longer the first's to give back"
    assert not isinstance(second, Held)
    second.release(ok=False)
    second.release(ok=True)
    assert path.exists()


def test_failure_is_told_for_a_while(leases: FileLeases, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a failed compile everyone is told that there is nothing to wait for; later the lease is free again."""
    monkeypatch.setattr("warmgraph.cache.stores.disk.locks.FAILED_SECONDS", 60.0)
    lease = leases.acquire(KEY)
    assert not isinstance(lease, Held)
    lease.release(ok=False)
    for _ in range(2):
        told = leases.acquire(KEY)
        assert isinstance(told, Held)
        assert told.failed
        assert leases.peek(KEY) == told
    path = lock_file(leases)
    said = json.loads(path.read_text())
    for seconds in (-61.0, 600.0):  # a clock that was set, or another host's
        path.write_text(json.dumps(said | {"time": time.time() + seconds}))
        assert leases.peek(KEY) is None
    assert taken(leases)


HOLDER = """
import sys, time
from pathlib import Path
from warmgraph.cache.stores.disk.locks import FileLeases
lease = FileLeases(Path(sys.argv[1])).acquire(sys.argv[2])
print(type(lease).__name__, flush=True)
time.sleep(600)
"""


def test_killed_owner_frees_it_at_once(leases: FileLeases) -> None:
    """kill -9 of the owner: the next acquire has the lease."""
    process = python(HOLDER, leases._layout.root, KEY)
    assert line_of(process) == "FileLease"
    held = leases.acquire(KEY)
    assert isinstance(held, Held)
    assert f"pid {process.pid} on " in held.owner
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert leases.peek(KEY) is None
    assert taken(leases)


def test_nobody_waits_for_a_stopped_owner(leases: FileLeases) -> None:
    """Ctrl-Z, or a debugger of another kind: its lock is not freed, and no result comes. It is had again afterwards."""
    process = python(HOLDER, leases._layout.root, KEY)
    try:
        assert line_of(process) == "FileLease"
        assert leases.acquire(KEY) == Held(f"pid {process.pid} on {os.uname().nodename}")
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        held = leases.acquire(KEY)
        assert isinstance(held, Held) and held.stopped
        waited: list[float] = []
        flights = Flights([leases], wait=3600.0, sleep=waited.append)
        with flights.flight(KEY) as flight:
            assert "disk" not in flight._leases
        with OneReader(leases, sleep=waited.append).turn(KEY):
            pass
        assert waited == []
        process.send_signal(signal.SIGCONT)
        os.waitid(os.P_PID, process.pid, os.WCONTINUED | os.WNOWAIT)
        held = leases.acquire(KEY)
        assert isinstance(held, Held) and not held.stopped
    finally:
        process.kill()
        process.communicate()


FORKING = """
import os, sys, time
from pathlib import Path
from warmgraph.cache.stores.disk.locks import FileLeases
leases = FileLeases(Path(sys.argv[1]))
lease = leases.acquire(sys.argv[2])
told, tells = os.pipe()
child = os.fork()
if child:
    os.read(told, 1)
    print(child, flush=True)
else:
    lease.release(ok=True)
    os.write(tells, b"x")
time.sleep(600)
"""


def test_child_of_a_fork_does_not_keep_a_dead_parents_lock(leases: FileLeases) -> None:
    """A forked worker cannot give its parent's lease back, and does not hold it when the parent is killed."""
    process = python(FORKING, leases._layout.root, KEY)
    child = int(line_of(process))
    try:
        assert isinstance(leases.acquire(KEY), Held), "the child's release is nothing to the parent's lease"
        process.send_signal(signal.SIGKILL)
        process.wait()
        os.kill(child, 0)  # lives
        assert taken(leases)
    finally:
        os.kill(child, signal.SIGKILL)
        process.communicate()


def test_child_of_a_fork_takes_leases_of_its_own(leases: FileLeases) -> None:
    """In a child the parent's lease is another process's; its end frees nothing."""
    lease = leases.acquire(KEY)
    pid = os.fork()
    if pid == 0:
        try:
            good = isinstance(leases.acquire(KEY), Held) and taken(leases, OTHER)
            os._exit(0 if good else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert isinstance(leases.acquire(KEY), Held)
    assert not isinstance(lease, Held)
    lease.release(ok=True)
    assert taken(leases)


def test_started_programs_inherit_nothing(leases: FileLeases) -> None:
    """No descriptor survives exec."""
    assert not isinstance(leases.acquire(KEY), Held)
    assert [os.get_inheritable(descriptor) for descriptor in leases._open.values()] == [False]


def open_files() -> list[str]:
    """What this process has open, by name. Others come and go meanwhile, with whatever else runs in it."""
    found = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return found


def test_nothing_stays_open(leases: FileLeases) -> None:
    """However it ends, a try or a lease leaves no descriptor behind."""
    for ok in (True, False) * 20:
        lease = leases.acquire(KEY)
        leases.acquire(KEY)
        leases.peek(KEY)
        if not isinstance(lease, Held):
            lease.release(ok=ok)
        elif lease.failed:
            lock_file(leases).unlink()
    assert [name for name in open_files() if name.startswith(str(leases._layout.root))] == []
    assert leases._open == {}


HAMMER = """
import sys
from pathlib import Path
from warmgraph.cache.stores.disk.locks import FileLeases
from warmgraph.cache.typing import Held
leases, counter = FileLeases(Path(sys.argv[1])), Path(sys.argv[3])
for _ in range(int(sys.argv[4])):
    while isinstance(lease := leases.acquire(sys.argv[2]), Held):
        assert not lease.failed
    counter.write_text(str(int(counter.read_text()) + 1))
    lease.release(ok=True)
"""


def test_exclusion_holds_while_files_come_and_go(leases: FileLeases, tmp_path: Path) -> None:
    """Six processes take and remove one lock 150 times each, without pause: no increment of a plain file is lost."""
    counter = tmp_path / "counter"
    counter.write_text("0")
    processes = [python(HAMMER, leases._layout.root, KEY, counter, 150) for _ in range(6)]
    for process in processes:
        finish(process)
    assert counter.read_text() == "900"
    assert not lock_file(leases).exists()


def test_exclusion_holds_among_threads(leases: FileLeases) -> None:
    """Eight threads of one process: one has it at a time."""
    inside, most, had = [0], [0], []

    def work() -> None:
        for _ in range(100):
            while isinstance(lease := leases.acquire(KEY), Held):
                time.sleep(0)
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(0)
            inside[0] -= 1
            lease.release(ok=True)
            had.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert (most[0], len(had)) == (1, 800)


HOSTILE = [
    b"",
    b"{",
    b"[" * 5000,
    b"\xff\xfe\x00",
    b"null\n",
    b'{"host": "\\u001b[2J\\nroot: all is well", "pid": 1, "rank": 0, "time": 0}\n',
    b'{"host": "\\u202e\\ud800", "pid": 1}\n',
    b'{"host": "' + b"h" * 300 + b'", "pid": 1}\n',
    b'{"host": [], "pid": {}, "rank": "1", "time": "now", "failed": 1}\n',
    b'{"failed": true, "time": NaN}\n',
    b'{"failed": true, "time": Infinity}\n',
    b'{"failed": true, "time": 1' + b"0" * 400 + b"}\n",
    b'{"pid": ' + b"9" * 5000 + b"}",
    os.urandom(4096),
]


@pytest.mark.parametrize("content", HOSTILE, ids=range(len(HOSTILE)))
def test_content_is_only_a_name(leases: FileLeases, content: bytes) -> None:
    """Whatever the file says, a held lock is held, a free one can be had, and the owner is a short printable line."""
    path = lock_file(leases)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert leases.peek(KEY) is None
    lease = leases.acquire(KEY)
    assert not isinstance(lease, Held)
    path.write_bytes(content)
    held = leases.acquire(KEY)
    assert isinstance(held, Held)
    assert leases.peek(KEY) == held
    assert not held.failed
    assert held.owner.isprintable()
    assert 0 < len(held.owner) <= 100
    held.owner.encode()
    lease.release(ok=True)
    assert not path.exists()


def test_read_only_folder_is_unavailable(mounted: Callable[[str], Path]) -> None:
    """Where nothing can be written there are no leases: StoreUnavailable, and peek finds nobody."""
    folder = mounted("size=1m")
    free, held = FileLeases(folder / "store"), f"wg1{'2' * 64}"
    lease = free.acquire(held)
    assert not isinstance(lease, Held)
    lease.release(ok=False)
    subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
    for key in (KEY, held):
        with pytest.raises(StoreUnavailable, match="read-only"):
            free.acquire(key)
    assert free.peek(KEY) is None


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EACCES, errno.EIO])
def test_no_locks_on_this_file_system(leases: FileLeases, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """A file system without locks makes leases unavailable, and leaves nothing open."""

    def flock(descriptor: int, kind: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(StoreUnavailable, match="cannot lock"):
        leases.acquire(KEY)
    assert leases._open == {}
    with pytest.raises(StoreUnavailable, match="cannot look at"):
        leases.peek(KEY)


def test_something_else_in_its_place(leases: FileLeases, tmp_path: Path) -> None:
    """A link or a folder where the lock should be is refused; a file where the folder should be, too."""
    path = lock_file(leases)
    path.parent.mkdir(parents=True)
    victim = tmp_path / "victim"
    victim.write_text("precious")
    path.symlink_to(victim)
    with pytest.raises(StoreUnavailable):
        leases.acquire(KEY)
    path.unlink()
    path.mkdir()
    with pytest.raises(StoreUnavailable):
        leases.acquire(KEY)
    assert victim.read_text() == "precious"
    shutil.rmtree(path.parent)
    path.parent.write_text("a file")
    with pytest.raises(StoreUnavailable):
        leases.acquire(KEY)
    with pytest.raises(ValueError, match="not a key"):
        leases.acquire("../../etc/passwd")


def test_full_disk_costs_only_the_name(leases: FileLeases, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the file cannot be written, the lease is had all the same, and can be given back either way."""

    def pwrite(descriptor: int, data: bytes, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", pwrite)
    lease = leases.acquire(KEY)
    assert not isinstance(lease, Held)
    assert leases.acquire(KEY) == Held("another process")
    lease.release(ok=False)
    assert taken(leases)


def test_removed_store_is_no_trouble(leases: FileLeases) -> None:
    """The folder is removed while a lease is held: the next one gets its own, which the first does not take away."""
    first = leases.acquire(KEY)
    shutil.rmtree(leases._layout.root)
    second = leases.acquire(KEY)
    assert not isinstance(first, Held)
    assert not isinstance(second, Held)
    for ok in (True, False):
        first.release(ok=ok)
        assert lock_file(leases).exists()
        assert isinstance(leases.acquire(KEY), Held)
    second.release(ok=True)


def test_sweep_removes_old_locks_that_nobody_holds(leases: FileLeases) -> None:
    """After a day a leftover lock file goes; a young one and a held one stay. None of them is foreign to verify."""
    store = DiskStore(leases._layout.root)
    keys = [f"wg1{number:064x}" for number in range(3)]
    held = leases.acquire(keys[0])
    for key in keys[1:]:
        lease = leases.acquire(key)
        assert not isinstance(lease, Held)
        lease.release(ok=False)
    for key in keys[:2]:
        os.utime(store.layout.lock(key), (time.time() - 2 * 86_400,) * 2)
    (store.root / "locks" / "00" / "notes.txt").write_text("mine")
    assert [finding.path.name for finding in store.verify().findings] == ["notes.txt"]
    assert store.usage().files == 0
    assert store.sweep() == 1
    left = {path.name for path in (store.root / "locks").rglob("*") if path.is_file()}
    assert left == {keys[0], keys[2], "notes.txt"}
    assert not isinstance(held, Held)
    held.release(ok=True)
