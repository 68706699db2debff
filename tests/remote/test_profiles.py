"""Profiles through a real server: a second host's first call compiles nothing, and writers at once lose nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import Mode, ProfileStore, new_key, open_cache, profile_of, today
from warmgraph.cache.config.config import configure
from warmgraph.cache.profiles.store import Place

CODE = """
import torch

def f(x, y):
    return x.sort().values, y.sort().values
"""
RUN = """
import importlib.util, json, sys, torch, warmgraph
from warmgraph.cache.profiles import store as learning

learning.CONNECTING_SECONDS = 20.0  # a busy machine's
spec = importlib.util.spec_from_file_location("user_code", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
compiled = torch.compile(module.f, backend="warmgraph")
agree, after = [], []
for size in json.loads(sys.argv[2]):
    values = torch.arange(float(size)).flip(0), torch.ones(3)
    agree.append(all(map(torch.equal, compiled(*values), module.f(*values))))
    stats = warmgraph.stats()
    after.append([stats["hits"], stats["misses"], stats["bypasses"] + stats["failures"]])
warmgraph.flush()
print(json.dumps({"agree": agree, "after": after}))
"""


@pytest.fixture
def host(run_python: Any, server: Any, tmp_path: Path) -> Callable[..., Any]:
    """Runs calls on a host of its own: own folder, own path to the code, own rank, the shared server."""
    key, url = new_key(), server.patient_url
    made = 0

    def run(sizes: str, **extra: Any) -> Any:
        nonlocal made
        made += 1
        place = tmp_path / f"host-{made}"
        place.mkdir()
        (place / f"code_{made}.py").write_text("#\n" * made + CODE)  # other lines, too
        settings = {"WARMGRAPH_URL": url, "WARMGRAPH_SIGNING_KEY": key, "WARMGRAPH_DIR": place / "store"}
        return run_python(RUN, place / f"code_{made}.py", sizes, **(settings | {"RANK": made} | extra))

    return run


@pytest.mark.exhaustive
def test_a_second_hosts_first_call_compiles_nothing(host: Callable[..., Any]) -> None:
    """Sizes A, B and C on one host; on others D first, with the switch on and off."""
    first = host("[5, 9, 12]")
    assert first["after"][-1] == [0, 2, 0]
    second = host("[30, 9, 5]", compiler=False)
    assert second["after"] == [[1, 0, 0]] * 3
    without = host("[30, 9]", WARMGRAPH_PGO="0")
    assert without["after"] == [[0, 1, 0], [1, 1, 0]], "otherwise this proves nothing"
    assert all(first["agree"] + second["agree"] + without["agree"])


KEY = f"wg1{'c' * 64}"


def test_ranks_that_write_at_once_lose_nothing(server: Any, make: Any) -> None:
    """Eight ranks of two hosts, each with lines of its own, at the same moment."""
    start = threading.Barrier(16)
    ring = make.ring
    verifier = ring.verifier(unsigned=False)

    def write(number: int) -> None:
        store = make.open_store(server.url)
        learning = ProfileStore([Place(store, verifier, verifier, remote=True)], signer=ring.signer)
        start.wait()
        for step in range(3):
            learning._write(KEY, profile_of({f"{number} {step}": today()}), "f")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store = make.open_store(server.url)
    found = ProfileStore([Place(store, verifier, verifier, remote=True)]).profile(KEY)
    assert set(found.lines) == {f"{number} {step}" for number in range(16) for step in range(3)}
    assert len(list(store.entries(KEY))) <= 16


def test_a_profile_expires_and_is_kept_near(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a life as entries have; and who has read it knows it without the server."""
    monkeypatch.setattr("warmgraph.cache.profiles.store.CONNECTING_SECONDS", 20.0)
    key, url = new_key(), server.patient_url
    one = open_cache(configure(dir=tmp_path / "one", url=url, signing_key=key, ttl=100)).learning
    one.learn(KEY, profile_of({"x": today()}), "f")
    assert one._writer.flush(10)
    (name,) = server.raw.keys("*:e")
    assert 0 < server.raw.ttl(name) <= 100
    other = open_cache(configure(dir=tmp_path / "other")).learning
    assert other.profile(KEY).lines
    assert other._writer.flush(10)
    alone = open_cache(configure(url="", mode=Mode.READONLY)).learning
    assert set(alone.profile(KEY).lines) == {"x"}


def test_a_profile_goes_back_to_an_emptied_server(server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was sealed, by whoever reads it in a folder; what nobody there would believe stays."""
    monkeypatch.setattr("warmgraph.cache.profiles.store.CONNECTING_SECONDS", 20.0)
    key, url = new_key(), server.patient_url
    own, unsigned = f"wg1{'d' * 64}", f"wg1{'e' * 64}"
    configure(dir=tmp_path / "one", signing_key="", url="")
    alone = open_cache(configure()).learning
    alone.learn(unsigned, profile_of({"u": today()}), "f")
    assert alone._writer.flush(10)
    shared = configure(url=url, signing_key=key)
    learning = open_cache(shared).learning
    learning.learn(own, profile_of({"x": today()}), "f")
    assert learning._writer.flush(10)
    server.raw.flushall()
    again = open_cache(shared).learning
    assert (set(again.profile(own).lines), set(again.profile(unsigned).lines)) == ({"x"}, {"u"})
    assert again._writer.flush(10)
    [name] = server.raw.keys("*:e")
    [file] = (tmp_path / "one" / "entries" / own[3:5] / own).iterdir()
    assert server.raw.get(name).partition(b"\n")[2] == file.read_bytes()


def test_a_silent_server_is_waited_for_once(proxy: Any, make: Any, through_proxy: Any) -> None:
    """The profile finds it silent, and the lookup that follows does not wait again; a strict one raises."""
    from warmgraph.cache.stores.circuit_breaker import Health

    store = through_proxy(timeout=10)
    assert list(store.entries(KEY)) == []
    assert not store.connecting()
    proxy.mode, store.clients.deadline = make.Mode.SILENT, 0.15
    health = Health({"redis": store.probe})
    verifier = make.ring.verifier(unsigned=False)
    assert not ProfileStore([Place(store, verifier, verifier, remote=True)], health=health).profile(KEY).lines
    assert not health.usable("redis", "read")
