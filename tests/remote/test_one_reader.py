"""Ranks of a host that miss at once: one fetches from the server, the others find it in the folder. Never a hang."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import Cache, Entry, Role, configure, flush, new_key, open_cache, reset_settings
from warmgraph.cache.stores.disk.layout import Layout
from warmgraph.cache.stores.disk.locks import FileLeases

KEY = f"wg1{'5e' * 32}"
BLOBS = [(Role.AOT_RESULT, "result", b"a result " * 40), (Role.CPP_KERNEL, "kernel", b"\x7fELF" + bytes(500))]


@pytest.fixture
def rank(server: Any, tmp_path: Path) -> Any:
    """Opens another rank's cache on one host, where another host has published before."""
    shared = {"url": server.patient_url, "signing_key": new_key(), "strict": True}
    cache = open_cache(configure(dir=tmp_path / "other", **shared))
    cache.publish(Entry(KEY, "v0", {}, None, {}, ()), BLOBS)
    assert flush()

    def opened() -> Cache:
        reset_settings()
        return open_cache(configure(dir=tmp_path / "host", **shared))

    yield opened
    reset_settings()


def looked_up(cache: Cache) -> str:
    return cache.lookup(KEY, lambda entry: True).tier  # type: ignore[union-attr]


def test_eight_ranks_fetch_once(
    rank: Callable[[], Cache], server: Any, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    """Whoever comes first reads the entry and each blob; nobody else reads anything."""
    monkeypatch.setattr("warmgraph.cache.tiers.one_reader._SECONDS", 60.0)  # a busy machine is not the matter here
    caches = [rank() for _ in range(8)]
    make.servers.wait_for_revocations()
    server.raw.config_resetstat()
    found: list[str] = []
    start = threading.Barrier(8)

    def run(cache: Cache) -> None:
        start.wait()
        found.append(looked_up(cache))

    threads = [threading.Thread(target=run, args=(cache,)) for cache in caches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == ["disk"] * 7 + ["redis"]
    # The entry, the end of the revocations, and each blob.
    assert server.raw.info("commandstats")["cmdstat_getrange"]["calls"] == 2 + len(BLOBS)


def test_a_killed_reader_lets_go(
    rank: Callable[[], Cache], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    monkeypatch.setattr("warmgraph.cache.tiers.one_reader._SECONDS", 600.0)
    cache = rank()
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom warmgraph.cache.stores.disk.locks import FileLeases\n"
        "lease = FileLeases(Path(sys.argv[1]), fetch=True).acquire(sys.argv[2])\nprint('has it', flush=True)\n"
        "time.sleep(600)"
    )
    command = [sys.executable, "-c", program, str(tmp_path / "host"), KEY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "has it\n"
        found: list[str] = []
        waiter = threading.Thread(target=lambda: found.append(looked_up(cache)), daemon=True)
        waiter.start()
        waiter.join(0.3)
        assert (found, waiter.is_alive()) == ([], True), "nobody waited"
        reader.send_signal(signal.SIGKILL)
        waiter.join(60)
        assert found == ["redis"], "the folder had nothing: it asked the server itself"


def test_a_reader_that_stalls_is_not_waited_for_long(
    rank: Callable[[], Cache], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warmgraph.cache.tiers.one_reader._SECONDS", 0.05)
    cache = rank()
    lease = FileLeases(tmp_path / "host", fetch=True).acquire(KEY)
    assert looked_up(cache) == "redis"
    lease.release(ok=True)  # type: ignore[union-attr]


def test_nothing_is_left_behind(rank: Callable[[], Cache], tmp_path: Path) -> None:
    """Nor does a lock that a killed process left count as a foreign file: it is swept with the others."""
    assert looked_up(rank()) == "redis"
    layout = Layout(tmp_path / "host")
    assert list(layout.lock_files()) == []
    lock = layout.lock(KEY, fetch=True)
    lock.touch()
    assert [path for path, _ in layout.lock_files()] == [lock]
    assert lock not in [path for path, *_ in layout.strays()]


def test_who_compiles_holds_up_no_reader(rank: Callable[[], Cache], tmp_path: Path) -> None:
    """The lock of those who compile is another one."""
    cache = rank()
    with cache.flight(KEY):
        assert looked_up(cache) == "redis"
        assert list((tmp_path / "host" / "locks").rglob("*.fetch")) == []
