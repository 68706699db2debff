"""The store contract, over every way to reach a server."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from warmgraph.cache import BlobRef, Store, StoreUnavailable
from warmgraph.cache.format.blobs import unpack_piece
from warmgraph.cache.stores.redis import RedisStore, chunks
from warmgraph.cache.stores.redis.store import _newest_first

_FILE = Path(__file__).parent.parent / "cache" / "stores" / "test_store_contract.py"
_SPEC = importlib.util.spec_from_file_location("warmgraph_tests_store_contract", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
_MODULE = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(_MODULE)

PASSWORD = "p@ss:w/rd#?%é &"


class _OnRedis(_MODULE.StoreContract):  # type: ignore[misc, name-defined]
    """raw: looks past the store, at a server or cluster."""

    @pytest.fixture
    def raw(self, server: Any) -> Any:
        return server.raw

    @pytest.fixture
    def url(self, server: Any) -> str:
        return str(server.url)

    @pytest.fixture
    def store(self, url: str, raw: Any, make: Any) -> Iterator[RedisStore]:
        store = make.open_store(url)
        store.raw_for_tests = raw
        yield store
        assert store.flush_touches(20)

    def raw_entries(self, store: Store, key: str) -> dict[str, bytes]:
        return dict(_newest_first(store.raw_for_tests.get(f"wg:tests:{{{key}}}:e") or b""))  # type: ignore[attr-defined]

    def raw_blob(self, store: Store, ref: BlobRef) -> bytes | None:
        assert isinstance(store, RedisStore)
        count = chunks.count(ref)
        names = [f"wg:tests:b:{ref.digest}:{number}" for number in range(count)]
        parts = [store.raw_for_tests.get(name) for name in names]  # type: ignore[attr-defined]
        return b"".join(unpack_piece(ref, number, part) for number, part in enumerate(parts))

    def set_raw_entry(self, store: Store, key: str, variant: str, sealed: bytes) -> None:
        name, record = f"wg:tests:{{{key}}}:e", b"%s 0 %d\n%s" % (variant.encode(), len(sealed), sealed)
        store.raw_for_tests.append(name, record)  # type: ignore[attr-defined]


class TestTcp(_OnRedis):
    pass


class TestValkeyAlias(_OnRedis):
    @pytest.fixture
    def url(self, server: Any) -> str:
        return f"valkey://localhost:{server.port}?decode_responses=true&protocol=3"


class TestUnixSocket(_OnRedis):
    @pytest.fixture
    def url(self, server: Any) -> str:
        return f"unix://{server.folder}/s"


class TestAnotherDatabase(_OnRedis):
    @pytest.fixture
    def raw(self, server: Any) -> Any:
        server.connect = {"db": 5}
        raw = server.raw
        server.connect = {}
        return raw

    @pytest.fixture
    def url(self, server: Any) -> str:
        return f"redis://127.0.0.1:{server.port}/5?client_name=tests"


class TestPassword(_OnRedis):
    """A user and a password full of what URLs treat specially."""

    @pytest.fixture
    def url(self, server: Any) -> str:
        server.raw.execute_command("ACL", "SETUSER", "us@r", "on", f">{PASSWORD}", "~*", "&*", "+@all", "-client")
        return f"redis://us%40r:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/0"


class TestTls(_OnRedis):
    """The server wants the client's certificate, the client the server's name."""

    @pytest.fixture
    def raw(self, tls: Any) -> Any:
        tls.raw.flushall()
        return tls.raw

    @pytest.fixture
    def url(self, tls: Any) -> str:
        at = tls.certificates
        options = f"ssl_ca_certs={at}/ca.crt&ssl_certfile={at}/client.crt&ssl_keyfile={at}/client.key"
        return f"rediss://127.0.0.1:{tls.connect['port']}/0?{options}"

    def test_without_a_certificate_it_is_refused(self, tls: Any, make: Any) -> None:
        """Neither a client without its certificate, nor a server that nobody vouches for."""
        from warmgraph.cache import StoreUnavailable

        place = f"rediss://127.0.0.1:{tls.connect['port']}/0"
        for url in (place, f"{place}?ssl_ca_certs={tls.certificates}/ca.crt", place.replace("rediss", "redis")):
            with pytest.raises(StoreUnavailable, match=r"TLS|rediss"):
                make.open_store(url).probe("read")


class TestCluster(_OnRedis):
    @pytest.fixture
    def raw(self, nodes: Any) -> Any:
        from redis.cluster import RedisCluster

        raw = RedisCluster(host="127.0.0.1", port=nodes[0].port, protocol=2)
        raw.flushall(target_nodes=RedisCluster.PRIMARIES)
        return raw

    @pytest.fixture
    def url(self, nodes: Any) -> str:
        places = ",".join(f"127.0.0.1:{node.port}" for node in nodes)
        return f"redis+cluster://{places}?socket_timeout=10"

    def test_what_tools_see(self, store: RedisStore, make: Any, random_blob: Any) -> None:
        """A scan goes over all nodes; blobs lie on several; leases work."""
        from warmgraph.cache.stores.redis import RedisLeases

        ref, data = random_blob(6 * 2**20)
        store.put_blob(ref, data)
        assert store.blob(ref) == data
        for number in range(20):
            store.put_entry(make.key_of(number), "v0", b"sealed")
        assert sorted(store.scan()) == [(make.key_of(number), "v0", b"sealed") for number in range(20)]
        assert store.usage(count_bytes=True).entries == 20
        assert store.usage().pieces == 6
        assert store.ping()["mode"] == "cluster"
        store.probe("write")
        lease = RedisLeases(store.clients, namespace="tests").acquire(make.key_of(1))
        lease.release(ok=True)


class TestSentinel(_OnRedis):
    @pytest.fixture
    def raw(self, watched: Any) -> Any:
        raw = watched[1][0].raw
        raw.flushall()
        return raw

    @pytest.fixture
    def url(self, watched: Any) -> str:
        return f"redis+sentinel://127.0.0.1:1,127.0.0.1:{watched[0]}/main/0?socket_timeout=10"


def test_a_late_answer_is_nobody_elses(watched: Any, make: Any, random_blob: Any) -> None:
    """A connection that was given up on is closed: what comes over it later is not the next one's blob."""
    port, (primary, _) = watched
    store = make.open_store(f"redis+sentinel://127.0.0.1:{port}/main/0?socket_timeout=2")
    (first, one), (second, other) = random_blob(1000), random_blob(1000)
    make.servers.wait_for(lambda: store.probe("write") is None, "it is not there")
    store.put_blob(first, one)
    store.put_blob(second, other)
    primary.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(StoreUnavailable):
            store.blob(first)
    finally:
        primary.process.send_signal(signal.SIGCONT)
    found = []

    def answered() -> bool:
        with contextlib.suppress(StoreUnavailable):
            found.append(store.blob(second))
        return bool(found)

    make.servers.wait_for(answered, "it does not answer again")
    assert found == [other]


def test_sentinel_failover(tmp_path: Path, make: Any) -> None:
    """After the primary died, the same store finds the new one, and what was replicated."""
    with make.servers.sentinel(tmp_path) as (port, servers):
        store = make.open_store(f"redis+sentinel://127.0.0.1:{port}/main?socket_timeout=10")
        store.put_entry(make.key_of(1), "v0", b"sealed")
        make.servers.wait_for(lambda: servers[1].raw.dbsize() == 1, "it is not replicated")
        make.servers.Server(tmp_path, port).raw.sentinel_set("main", "down-after-milliseconds", 500)
        servers[0].stop()

        make.servers.wait_for(lambda: store.probe("write") is None, "no failover", seconds=60)
        assert list(store.entries(make.key_of(1))) == [("v0", b"sealed")]
