"""Forks, threads and imports: one store object, used from everywhere at once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from typing import Any

from warmgraph.cache import StoreUnavailable
from warmgraph.cache.remote import RedisStore


def test_importing_imports_no_redis() -> None:
    """Nor sockets, TLS or zstd."""
    program = (
        "import sys, warmgraph; before = set(sys.modules); import warmgraph.cache.remote as r\n"
        "store = r.RedisStore(r.parse_url('redis://nowhere'), namespace='x', signer=None, verifier=None, ttl=9)\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "sys.exit(' '.join(new & {'redis', 'socket', 'ssl', 'zstandard', 'torch', 'msgpack'}) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr.strip()) == (0, "")


def test_a_forked_child_connects_anew(proxy: Any, through_proxy: Any, make: Any, random_blob: Any) -> None:
    """Parent and children use one store at once, each over its own connections."""
    store: RedisStore = through_proxy()
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
    store = make.open_store(f"{server.url}?socket_timeout=5")
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
    store = make.open_store(f"{server.url}?socket_timeout=10")
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
        "import sys; from warmgraph.cache.remote import *; from warmgraph.cache.seal import accept_checksum\n"
        "from warmgraph.cache.writer import Writer\n"
        "store = RedisStore(parse_url(sys.argv[1]), namespace='tests', signer=None, verifier=accept_checksum, ttl=9)\n"
        "store.probe('read'); writer = Writer()\n"
        "writer.submit(lambda: (__import__('time').sleep(0.3), store.put_entry(sys.argv[2], 'v0', b'sealed')))\n"
    )
    command = [sys.executable, "-c", program, f"{server.url}?socket_timeout=10", make.key_of(1)]
    subprocess.run(command, check=True, timeout=60)
    assert server.raw.hget(f"wg:tests:{{{make.key_of(1)}}}:e", "v0") == b"sealed"
