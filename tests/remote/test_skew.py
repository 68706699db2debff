"""In a job, a rank that hits does not run ahead of ranks that compile the same; nobody waits without bound, or in vain.

Another rank is a lease that it has, on connections of its own.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import Entry, Hit, Role, configure, flush, new_key, open_cache, reset_settings, settings
from warmgraph.cache.config.config import ranks_of
from warmgraph.cache.stores.redis import RedisLease

KEY, OTHER = f"wg1{'5a' * 32}", f"wg1{'5b' * 32}"
BLOBS = [(Role.AOT_RESULT, "result", b"a result " * 40)]
LONG = 600.0


@pytest.fixture
def rank(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Rank 0 of two, whose folder has KEY and OTHER; the server has neither."""
    for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_NTASKS", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    shared = {"dir": tmp_path / "host", "url": server.patient_url, "signing_key": new_key(), "job": "a job"}
    cache = open_cache(configure(**shared))
    for key in (KEY, OTHER):
        cache.publish(Entry(key, "v0", {}, None, {}, ()), BLOBS)
    assert flush()
    server.raw.flushall()

    def opened(**changes: Any) -> Any:
        reset_settings()
        return open_cache(configure(**(shared | {"skew": LONG} | changes)))

    def there(key: str = KEY) -> bool:
        return bool(server.raw.exists(f"wg:default:{{{key}}}:e"))

    yield SimpleNamespace(open=opened, there=there, shared=shared, job=lambda: ranks_of(settings()))
    reset_settings()


@pytest.fixture
def compiling(fleet: Any) -> Callable[..., RedisLease]:
    """Another process compiles KEY: a rank of `job`."""

    def compiles(job: str | None, **changes: Any) -> RedisLease:
        lease = fleet(namespace="default", job=job, rank=1, **changes).acquire(KEY)
        assert isinstance(lease, RedisLease)
        return lease

    return compiles


class Agreeing:
    """A rank that hit, in a thread. waited: what became of it."""

    def __init__(self, cache: Any, key: str = KEY) -> None:
        found = cache.lookup(key, lambda entry: True)
        assert isinstance(found, Hit)
        assert found.tier == "disk"
        self.waited: list[Any] = []
        self._thread = threading.Thread(target=lambda: self.waited.append(cache.agree(found, lambda: LONG)))
        self._thread.daemon = True
        self._thread.start()

    def still_waits(self, seconds: float = 0.4) -> bool:
        self._thread.join(seconds)
        return self._thread.is_alive()

    def ends(self) -> Any:
        self._thread.join(60)
        [waited] = self.waited
        return waited


def test_waits_until_it_is_published(rank: Any, compiling: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="warmgraph.cache")
    cache = rank.open()
    lease = compiling(rank.job())
    hitting = Agreeing(cache)
    assert hitting.still_waits()
    other = rank.open(dir=rank.shared["dir"].parent / "another host", job="")
    other.publish(Entry(KEY, "v0", {}, None, {}, ()), BLOBS)
    assert other.flush()
    assert hitting.still_waits(), "of this variant: who compiles may need another one"
    lease.release(ok=True)
    waited = hitting.ends()
    assert (waited.owner.startswith("rank 1 (pid "), waited.in_vain, waited.seconds > 0.4) == (True, False, True)
    lines = [record.message for record in caplog.records if "waiting for rank 1" in record.message]
    assert len(lines) == 1


def test_a_killed_rank_lets_go(rank: Any, compiling: Any) -> None:
    """No heartbeat, and its lease expires: who waited gives the entry back, and goes on."""
    cache = rank.open()
    lease = compiling(rank.job(), seconds=1.0)
    lease.abandon()
    waited = Agreeing(cache).ends()
    assert waited is None or not waited.in_vain
    assert rank.there()


def test_a_rank_that_comes_later_finds_it(rank: Any) -> None:
    """Nobody compiles it yet: who hits gives it to the server first, and only then runs ahead."""
    assert Agreeing(rank.open()).ends() is None
    assert rank.there()
    late = rank.open(dir=rank.shared["dir"].parent / "another host")
    assert late.lookup(KEY, lambda entry: True).tier == "redis"


def test_ranks_with_other_graphs_hold_up_nobody(rank: Any, compiling: Any) -> None:
    """Stages of a pipeline: another rank compiles, and not this."""
    cache = rank.open()
    compiling(rank.job())
    assert Agreeing(cache, OTHER).ends() is None


def test_another_job_is_waited_for_where_ranks_of_this_one_may_be(rank: Any, compiling: Any) -> None:
    """Its lease is what a rank of ours that misses stands behind; once the entry is there, none does."""
    cache = rank.open()
    lease = compiling("another")
    hitting = Agreeing(cache)
    assert hitting.still_waits()
    lease.release(ok=True)
    assert not hitting.ends().in_vain
    compiling("another")
    assert Agreeing(rank.open()).ends() is None


def test_the_bound(rank: Any, compiling: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Once in vain is enough: the process waits for nobody any more, and says so."""
    cache = rank.open(skew=2.0)
    lease = compiling(rank.job())
    waited = Agreeing(cache).ends()
    assert waited.in_vain
    assert ["waited" in record.message for record in caplog.records if record.levelno == logging.WARNING] == [True]
    assert Agreeing(cache, OTHER).ends() is None
    lease.release(ok=True)


@pytest.mark.parametrize("off", ["skew", "job", "alone"])
def test_off(rank: Any, compiling: Any, off: str, monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Any] = {"skew": {"skew": 0}, "job": {"job": ""}, "alone": {}}[off]
    job = rank.job()
    if off == "alone":
        monkeypatch.setenv("WORLD_SIZE", "1")
    cache = rank.open(**changes)
    compiling(job)
    assert Agreeing(cache).ends() is None


def test_readers_wait_and_write_nothing(rank: Any, compiling: Any) -> None:
    cache = rank.open(url_mode="readonly")
    lease = compiling(rank.job())
    hitting = Agreeing(cache)
    assert hitting.still_waits()
    lease.release(ok=True)
    assert not hitting.ends().in_vain
    assert not rank.there()


def test_a_server_that_falls_silent_lets_go(rank: Any, compiling: Any, proxy: Any, make: Any) -> None:
    cache = rank.open(url=f"redis://127.0.0.1:{proxy.port}/0?socket_timeout=10&socket_connect_timeout=10")
    compiling(rank.job())
    hitting = Agreeing(cache)
    assert hitting.still_waits()
    cache._healing._shared._clients.deadline = 0.15
    proxy.mode = make.Mode.SILENT
    assert not hitting.ends().in_vain
    assert "redis" in cache.health()


def test_nobody_waits_inside_a_flight(rank: Any, compiling: Any) -> None:
    """Somebody may wait for that."""
    cache = rank.open(wait=0)
    compiling(rank.job())
    with cache.flight(OTHER):
        hit = cache.lookup(KEY, lambda entry: True)
        assert cache.agree(hit, lambda: LONG) is None


def test_where_all_hit_it_is_one_more_command(rank: Any, server: Any, make: Any) -> None:
    """In the round trip that asks for the entry; and nothing is written."""
    for key in (KEY, OTHER):
        Agreeing(rank.open(), key).ends()
    assert flush()
    cache = rank.open()
    assert flush()
    make.servers.wait_for_revocations()
    server.raw.config_resetstat()
    for key in (KEY, OTHER):
        assert Agreeing(cache, key).ends() is None
    calls = {name.removeprefix("cmdstat_"): row["calls"] for name, row in server.raw.info("commandstats").items()}
    assert calls["strlen"] == 2
    assert calls["getrange"] == 2, "the leases"
    assert not calls.keys() & {"set", "evalsha", "eval"}


def test_what_a_job_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several ranks under one name; steps of Slurm are apart, a torchrun's restarts are not."""
    found = set()
    for variables in (
        {"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "2"},
        {"TORCHELASTIC_RUN_ID": "b", "WORLD_SIZE": "2"},
        {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2"},
        {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "1", "SLURM_NTASKS": "2"},
    ):
        with monkeypatch.context() as context:
            for name, value in variables.items():
                context.setenv(name, value)
            job = ranks_of(configure())
            reset_settings()
            context.setenv("TORCHELASTIC_RESTART_COUNT", "1")
            assert ranks_of(configure()) == job
            reset_settings()
            context.setenv("WORLD_SIZE", "1")
            assert ranks_of(configure()) is None
            reset_settings()
            found.add(job)
    assert len(found) == 4
    assert None not in found
