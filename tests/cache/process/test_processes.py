"""Real processes on one folder: killed at any moment, publishing all at once, forked in the middle."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import DiskStore, Flaw, Hit, Miss, Reason

WORKER = Path(__file__).parents[1] / "workers" / "publish.py"


def start(root: Path, seed: int, rounds: int, max_size: int = 10**9) -> subprocess.Popen[str]:
    command = [sys.executable, str(WORKER), str(root), str(seed), str(rounds), str(max_size)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output_of(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert "Traceback" not in err, err
    return out


def test_killed_publisher_leaves_nothing_that_a_reader_takes(opener: Any, make: SimpleNamespace) -> None:
    """kill -9 at 25 random moments of publishing: every lookup hits rightly or misses, and tools clean up."""
    seeded = random.Random(7)
    sys.path.insert(0, str(WORKER.parent))
    try:
        import publish as worker  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(WORKER.parent))
    for seed in range(25):
        process = start(opener.root, seed, 10_000)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(seeded.random() * 0.06)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        cache = opener()
        for number in range(12):
            found = cache.lookup(make.key_of(number), make.always)
            if isinstance(found, Hit):
                worker.check(found)
            else:
                assert found == Miss(Reason.ABSENT, 0, None), "a kill makes no damage, only absence"
        assert cache.health() == {}
    store = DiskStore(opener.root)
    assert store.usage().entries > 0
    assert store.verify().ok
    later = time.time() + 7200
    store.prune(10**9, 10**6, now=later)
    assert not list(opener.root.rglob(".tmp-*"))
    assert store.verify().findings == ()


def test_eight_processes_on_one_folder(opener: Any) -> None:
    """Eight processes publish and read the same keys, evicting all the while: right bytes only, no leftovers."""
    processes = [start(opener.root, seed, 25, max_size=3_000_000) for seed in range(8)]
    lines = [output_of(process).splitlines()[-1] for process in processes]
    assert sum(int(line.split()[1]) for line in lines) > 0, "some of the lookups were hits"
    assert not list(opener.root.rglob(".tmp-*"))
    report = DiskStore(opener.root).verify()
    assert {finding.flaw for finding in report.findings} <= {Flaw.ORPHAN_BLOB, Flaw.INCOMPLETE}
    assert report.entries > 0


def test_what_is_published_just_before_exit_is_written(opener: Any, make: SimpleNamespace) -> None:
    """A process that ends right after publishing waits for its writes."""
    code = f"""
import sys; sys.path.insert(0, {str(WORKER.parent)!r})
import publish
from pathlib import Path
from warmgraph.cache import configure, open_cache
cache = open_cache(configure(dir={str(opener.root)!r}))
for number in range(10):
    publish.publish(cache, number, 0)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    cache = opener()
    assert all(isinstance(cache.lookup(make.key_of(number), make.always), Hit) for number in range(10))


def in_child(body: Any) -> int:
    """Run `body` in a forked child; its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            body()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_spilled_kernels_go_with_their_process(method: str) -> None:
    """The private folder of a process is gone when it ended, also of a multiprocessing child."""
    code = """
import multiprocessing, sys
from warmgraph.cache import Cache, Entry, MemoryStore, Role
def hit():
    cache, key = Cache(MemoryStore()), "wg1" + "0" * 64
    cache.publish(Entry(key, "v0", {}, None, {}, ()), [(Role.CPP_KERNEL, "k", b"kernel")])
    path = cache.lookup(key, lambda entry: True).files["k"]
    assert path.exists()
    print(path.parent, flush=True)
if __name__ == "__main__":
    hit()
    child = multiprocessing.get_context(sys.argv[1]).Process(target=hit)
    child.start()
    child.join()
    assert child.exitcode == 0
"""
    script = Path(os.environ["TMPDIR"]) / "spilling.py"
    script.write_text(code)
    done = subprocess.run([sys.executable, str(script), method], check=True, capture_output=True, text=True, timeout=60)
    folders = {Path(line) for line in done.stdout.split()}
    assert len(folders) == 2
    assert not any(folder.exists() for folder in folders)


def test_fork_in_the_middle_of_publishing(opener: Any, make: SimpleNamespace) -> None:
    """A child forked while writes are under way looks up, publishes and flushes; the parent's writes go on."""
    cache = opener()
    for number in range(30):
        cache.publish(make.draft(number), make.contents(number))
        if number % 10 != 5:
            continue

        def child(number: int = number) -> None:
            assert isinstance(cache.lookup(make.key_of(number), make.always), Hit)
            mine = 100 + number
            cache.publish(make.draft(mine), make.contents(mine))
            assert isinstance(cache.lookup(make.key_of(mine), make.always), Hit)
            assert cache.flush(30)
            assert cache.health() == {}

        assert in_child(child) == 0
    assert cache.flush()
    fresh = opener()
    for number in (*range(30), 105, 115, 125):
        assert isinstance(fresh.lookup(make.key_of(number), make.always), Hit), number
    assert not list(opener.root.rglob(".tmp-*"))


def test_fork_while_other_threads_use_the_cache(opener: Any, make: SimpleNamespace) -> None:
    """No lock that another thread holds at the moment of a fork is left locked in the child."""
    import threading

    cache = opener()
    stop = threading.Event()

    def work(seed: int) -> None:
        number = seed
        while not stop.is_set():
            cache.publish(make.draft(number % 20), make.contents(number % 20, size=100))
            cache.lookup(make.key_of(number % 20), make.always)
            number += 1

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    try:

        def child() -> None:
            signal.alarm(20)  # a deadlock ends the child
            cache.publish(make.draft(50), make.contents(50))
            assert isinstance(cache.lookup(make.key_of(50), make.always), Hit)
            assert cache.flush(15)

        assert [in_child(child) for _ in range(10)] == [0] * 10
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert cache.flush()


INTERRUPTED = """
import os, sys, threading
from warmgraph.cache.process import forks

class Thing:
    def after_fork_in_child(self):
        print("reset", flush=True)

def other():
    with locks[1]:
        taken.set()
        leave.wait()

locks, thing = [forks.fork_safe_lock() for _ in range(3)], Thing()
forks.reset_in_child(thing)
taken, leave = threading.Event(), threading.Event()
thread = threading.Thread(target=other)
thread.start()
taken.wait()

import faulthandler, signal
signal.signal(signal.SIGALRM, signal.default_int_handler)
faulthandler.dump_traceback_later(60, exit=True)
signal.setitimer(signal.ITIMER_REAL, 0.3)  # Ctrl-C, while the fork waits for what the other thread has
child = os.fork()
if child == 0:
    os._exit(0)
status = os.waitpid(child, 0)[1]
assert locks[1].acquire(blocking=False) is False, "released for the other thread"
leave.set()
thread.join()
for lock in (*locks, forks.fork_safe_lock()):
    with lock:
        pass
child = os.fork()
if child == 0:
    for lock in locks:
        with lock:
            pass
    os._exit(0)
print(status, os.waitpid(child, 0)[1])
"""


def test_a_fork_that_is_interrupted_leaves_no_lock_taken() -> None:
    """Python swallows what the hooks raise, and forks all the same. A later fork and all locks work."""
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "KeyboardInterrupt" in done.stderr  # so it was interrupted there
    assert done.stdout.split() == ["reset", "reset", "0", "0"]


def test_spilled_kernels_after_fork(make: SimpleNamespace) -> None:
    """A child spills into a folder of its own and leaves the parent's alone."""
    from warmgraph.cache import Cache, MemoryStore

    cache = Cache(MemoryStore())
    cache.publish(make.draft(1), make.contents(1))
    found = cache.lookup(make.key_of(1), make.always)
    assert isinstance(found, Hit)

    def child() -> None:
        again = cache.lookup(make.key_of(1), make.always)
        assert isinstance(again, Hit)
        assert again.files["kernel"].parent != found.files["kernel"].parent
        assert again.files["kernel"].read_bytes() == found.files["kernel"].read_bytes()

    assert in_child(child) == 0
    assert found.files["kernel"].exists()


def _publish_in_multiprocessing(root: str) -> None:
    from warmgraph.cache import Entry, Role, configure, open_cache

    cache = open_cache(configure(dir=root))
    for number in range(10):
        draft = Entry(f"wg1{number:064x}", "v0", {}, None, {}, ())
        cache.publish(draft, [(Role.AOT_RESULT, "aot", os.urandom(100_000))])


def test_multiprocessing_child_writes_before_it_ends(opener: Any, make: SimpleNamespace) -> None:
    """A forked multiprocessing child, which runs no atexit functions, waits for its writes all the same."""
    child = multiprocessing.get_context("fork").Process(target=_publish_in_multiprocessing, args=(str(opener.root),))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    cache = opener()
    assert all(isinstance(cache.lookup(make.key_of(number), make.always), Hit) for number in range(10))
