"""Forks, threads and imports: one store object, used from everywhere at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import StoreUnavailable
from warmgraph.cache.stores.redis import RedisStore


def test_importing_imports_no_redis() -> None:
    """Nor sockets, TLS or zstd."""
    program = (
        "import sys, warmgraph; before = set(sys.modules); import warmgraph.cache.stores.redis as r\n"
        "store = r.RedisStore(r.parse_url('redis://nowhere'), namespace='x', ttl=9)\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "sys.exit(' '.join(new & {'redis', 'socket', 'ssl', 'zstandard', 'torch', 'msgpack'}) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_forked_child_connects_anew(proxy: Any, through_proxy: Any, make: Any, random_blob: Any) -> None:
    """Parent and children use one store at once, each over its own connections."""
    store: RedisStore = through_proxy(timeout=10)
    blobs = [random_blob(100_000) for _ in range(4)]
    for ref, data in blobs:
        store.put_blob(ref, data)
    store.probe("read")
    before = proxy.connections
    children = []
    for _ in range(3):
        child = os.fork()
        if child == 0:
            right = False
            try:
                right = all(patiently(store, ref) == data for _ in range(20) for ref, data in blobs)
            finally:
                os._exit(0 if right else 1)
        children.append(child)
    assert all(patiently(store, ref) == data for _ in range(20) for ref, data in blobs)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0, 0]
    assert proxy.connections >= before + 3
    store.probe("read")


def patiently(store: RedisStore, ref: Any) -> bytes | None:
    """On a busy machine a deadline of 0.2 s is missed now and then."""
    for _ in range(20):
        try:
            return store.blob(ref)
        except StoreUnavailable:
            time.sleep(0.05)
    return None


def test_fork_while_others_read(server: Any, make: Any, random_blob: Any) -> None:
    """No lock that a thread held is held for ever in the child."""
    store = make.open_store(server.url)
    ref, data = random_blob(3000)
    store.put_blob(ref, data)
    stop = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        while not stop.is_set():
            if store.blob(ref) != data:
                wrong.append(1)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                right = False
                try:
                    right = store.blob(ref) == data
                finally:
                    os._exit(0 if right else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_sixteen_threads_at_once(server: Any, make: Any, random_blob: Any) -> None:
    """Each gets its own answers."""
    store = make.open_store(server.url)
    blobs = [random_blob(number * 1000) for number in range(16)]
    wrong: list[object] = []

    def work(number: int) -> None:
        ref, data = blobs[number]
        try:
            store.put_blob(ref, data)
            store.put_entry(make.key_of(number), "v0", data)
            for _ in range(10):
                if store.blob(ref) != data or list(store.entries(make.key_of(number))) != [("v0", data)]:
                    wrong.append(number)
        except StoreUnavailable as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_publishing_at_exit(server: Any, make: Any) -> None:
    """A process that ends at once still writes what was handed to the background."""
    program = (
        "import sys; from warmgraph.cache.stores.redis import *\n"
        "from warmgraph.cache.format.seal import accept_checksum\n"
        "from warmgraph.cache.process.writer import Writer\n"
        "store = RedisStore(parse_url(sys.argv[1]), namespace='tests', ttl=9)\n"
        "store.probe('read'); writer = Writer()\n"
        "writer.submit(lambda: (__import__('time').sleep(0.3), store.put_entry(sys.argv[2], 'v0', b'sealed')))\n"
    )
    command = [sys.executable, "-c", program, server.patient_url, make.key_of(1)]
    subprocess.run(command, check=True, timeout=60)
    assert server.raw.get(f"wg:tests:{{{make.key_of(1)}}}:e") == make.listed(("v0", 0, b"sealed"))


_OPENING = (
    "import os, sys, time; from warmgraph.cache.stores.redis import *\n"
    "from warmgraph.cache.format.seal import accept_checksum\n"
    "url = parse_url(sys.argv[1])\n"
    "store = RedisStore(url, namespace='tests', ttl=9)\n"
)


@pytest.mark.parametrize("url", ["redis://{}", "redis+cluster://{}", "redis+sentinel://{}/main", "rediss://{}"])
def test_nothing_is_imported_behind_a_fork(server: Any, url: str) -> None:
    """Once warming up returns, what its threads do imports nothing: no import lock can be held in a child."""
    program = _OPENING + (
        "store.warm_up(); before = set(sys.modules)\n"
        "try: store.probe('write')\n"
        "except Exception: pass\n"
        "from warmgraph.cache.format.revocations import Revocations; from warmgraph.cache.format.seal import *\n"
        "from warmgraph.cache.format.revocations import Revocation, statement\n"
        "Revocations().learn(statement(Revocation('', '', 0, 'x', 1), None), accept_checksum)\n"
        "new = {one for one in set(sys.modules) - before if not one.startswith('warmgraph')}\n"
        "sys.exit(' '.join(new) or 0)"
    )
    command = [sys.executable, "-c", program, url.format(f"127.0.0.1:{server.port}")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_fork_right_after_warming_up(server: Any) -> None:
    """The child can import and ask, whatever the parent's threads were at."""
    program = _OPENING + (
        "store.warm_up(); child = os.fork()\n"
        "if child == 0:\n"
        "    import asyncio, urllib.request, redis\n"
        "    store.probe('read'); os._exit(0)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    command = [sys.executable, "-c", program, server.patient_url]
    assert subprocess.run(command, timeout=60).returncode == 0


def test_a_broken_redis_py_is_a_store_that_is_not_there(tmp_path: Path) -> None:
    """Whatever it raises when it is imported."""
    (tmp_path / "redis.py").write_text("raise AttributeError('module ssl has no attribute X')\n")
    program = _OPENING + (
        "from warmgraph.cache import StoreUnavailable\n"
        "store.warm_up()\n"
        "try: store.probe('read')\n"
        "except StoreUnavailable as error: sys.exit('cannot be imported' not in str(error))\n"
        "sys.exit(2)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", program, "redis://a"], env=environment, timeout=60).returncode == 0


@pytest.mark.parametrize("what", ["write", "write large", "leases", "touch"])
def test_a_silent_server_does_not_hold_up_the_end(proxy: Any, make: Any, what: str) -> None:
    """Of a process, whose requests were under way when the server fell silent."""
    program = _OPENING + (
        "import hashlib; from warmgraph.cache.typing import *; from warmgraph.cache.process.writer import Writer\n"
        "what, data = sys.argv[2], bytes(30_000_000 if 'large' in sys.argv[2] else 9)\n"
        "ref = BlobRef(hashlib.sha256(data).hexdigest(), len(data), Role.AOT_RESULT, 'n', 'zstd', len(data))\n"
        "key = 'wg1%064x'; leases = RedisLeases(store.clients, namespace='end'); held = []\n"
        "def asked():\n"
        "    try: return [store.probe(use) for use in ('read', 'write')]\n"
        "    except StoreSilent: return []  # this machine is busy\n"
        "while not asked(): pass\n"
        "writer = Writer()\n"
        "for number in range(20 if what == 'leases' else 0):\n"
        "    try: held.append(leases.acquire(key % number))\n"
        "    except StoreSilent: pass\n"
        "print(flush=True); sys.stdin.readline()\n"
        "for lease in held: lease.release(ok=True)\n"
        "def write():\n"
        "    try: store.put_blob(ref, data)\n"
        "    except StoreSilent: pass\n"
        "if 'write' in what: writer.submit(write)\n"
        "for number in range(20):\n"
        "    if what == 'touch': store.touch(key % number, 'v0')\n"
        "print(time.monotonic(), flush=True)\n"
    )
    command = [sys.executable, "-c", program, f"redis://127.0.0.1:{proxy.port}", what]

    def seconds_of_an_end() -> float:
        proxy.mode = make.Mode.PASS
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdout.readline()
            proxy.mode = make.Mode.SILENT
            process.stdin.write("\n")
            process.stdin.flush()
            ended = float(process.stdout.readline())
            assert process.wait(60) == 0
            return time.monotonic() - ended

    # 0.25, and the interpreter's own end. On a busy machine that may take longer, but hardly ten times in a row.
    assert any(seconds_of_an_end() < 0.9 for _ in range(10))


def test_ending_is_this_process_own() -> None:
    """From the first function called at its end; a child forked there is not ending."""
    program = (
        "import os, sys; from warmgraph.cache.process.exits import at_process_end, ending, seconds_ending\n"
        "def last():\n"
        "    child = os.fork()\n"
        "    if child == 0: os._exit(ending() or seconds_ending() > 0)\n"
        "    print(ending(), seconds_ending() > 0, os.waitpid(child, 0)[1])\n"
        "at_process_end(last); print(ending(), seconds_ending())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout.split("\n") == ["False 0.0", "True True 0", ""]
