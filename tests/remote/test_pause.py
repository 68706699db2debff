"""A server that pauses for a moment (a fork to save): who missed meanwhile looks again before it compiles."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import Cache, Entry, Hit, Miss, Role, configure, new_key, open_cache, reset_settings
from warmgraph.cache.stores import circuit_breaker

KEYS = [f"wg1{number:064x}" for number in (1, 2)]
BLOBS = [(Role.AOT_RESULT, "result", b"a result " * 40)]


@pytest.fixture
def far(own_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    """The cache of a fresh host, where another one has published both keys, and the server has answered once."""
    monkeypatch.setattr(circuit_breaker, "PAUSE_SECONDS", 60.0)  # however busy this machine is
    key = new_key()
    other = open_cache(configure(dir=tmp_path / "other", url=own_server.patient_url, signing_key=key))
    for name in KEYS:
        other.publish(Entry(name, "v0", {}, None, {}, ()), BLOBS)
    assert other.flush()
    reset_settings()
    yield open_cache(configure(dir=tmp_path / "host", url=f"{own_server.url}?socket_timeout=0.5", signing_key=key))
    reset_settings()


def looked_up(cache: Cache, key: str) -> Hit | Miss:
    return cache.lookup(key, lambda entry: True)


def test_a_pause_costs_no_compile(far: Cache, own_server: Any, make: Any) -> None:
    make.servers.wait_for(lambda: isinstance(looked_up(far, KEYS[0]), Hit), "it never answered")
    own_server.process.send_signal(signal.SIGSTOP)
    try:
        assert isinstance(looked_up(far, KEYS[1]), Miss)
        threading.Timer(0.3, own_server.process.send_signal, [signal.SIGCONT]).start()
        with far.flight(KEYS[1]):
            assert isinstance(looked_up(far, KEYS[1]), Hit)
    finally:
        own_server.process.send_signal(signal.SIGCONT)
