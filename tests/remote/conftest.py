"""Real servers and stores on them; no thread may outlive its test by much."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from warmgraph.cache import BlobRef, Role
from warmgraph.cache.format.keyring import Keyring, new_key, parse_keys
from warmgraph.cache.stores.redis import RedisLeases, RedisStore, parse_url

HERE = Path(__file__).parent


def load(name: str) -> ModuleType:
    """A module of this folder: pytest's importlib mode puts no folder on the path."""
    full = f"warmgraph_tests_remote_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, HERE / f"{name}.py")
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[full] = module
        spec.loader.exec_module(module)
    return sys.modules[full]


proxying = load("proxy")
servers = load("servers")
RING: Keyring = parse_keys(new_key())


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


def ref_of(data: bytes, role: Role = Role.AOT_RESULT, encoding: str = "zstd") -> BlobRef:
    return BlobRef(hashlib.sha256(data).hexdigest(), len(data), role, "name", encoding, len(data))


def open_store(url: str, *, timeout: float | None = 10.0, **changes: Any) -> RedisStore:
    """A store.

    timeout: seconds for a request, where `url` does not say. A busy machine's, as most tests are not about silence;
    None: the product's own.
    """
    parsed = parse_url(url)
    if timeout is not None and "_timeout=" not in url:
        parsed = replace(parsed, deadline=timeout, connect_deadline=timeout)
    settings = {"namespace": "tests", "ttl": 3600.0}
    return RedisStore(parsed, **(settings | changes))


def listed(*entries: tuple[str, int, bytes]) -> bytes:
    """(variant, generation, sealed) as they lie in Redis; a second writing of the format, by its documentation."""
    return b"".join(b"%s %d %d\n%s" % (variant.encode(), at, len(data), data) for variant, at, data in entries)


@pytest.fixture
def make() -> SimpleNamespace:
    return SimpleNamespace(
        key_of=key_of,
        ref_of=ref_of,
        open_store=open_store,
        ring=RING,
        Mode=proxying.Mode,
        servers=servers,
        listed=listed,
    )


@pytest.fixture(scope="session")
def running() -> ModuleType:
    return servers


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("redis")
    with servers.server(folder, "--unixsocket", str(folder / "s"), "--enable-debug-command", "yes") as one:
        yield one


@pytest.fixture
def server(shared_server: Any) -> Any:
    """The shared server, emptied."""
    shared_server.raw.flushall()
    return shared_server


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Any]:
    """A server of the test's own, which it may kill."""
    with servers.server(tmp_path / "redis") as one:
        yield one


@pytest.fixture
def store(server: Any) -> RedisStore:
    return open_store(server.url)


@pytest.fixture
def fleet(server: Any, make: Any) -> Iterator[Callable[..., RedisLeases]]:
    """Leases as another process would have them, each with connections of its own.

    They outlast a stall; a test that waits for the end of one makes it short. What a test that failed left is
    prolonged no more: it would stand in the next one's way.
    """
    made: list[RedisLeases] = []

    def join(url: str = "", **changes: Any) -> RedisLeases:
        store: RedisStore = make.open_store(url or server.url)
        made.append(RedisLeases(store.clients, **({"namespace": "tests", "seconds": 20.0, "beat": 0.2} | changes)))
        return made[-1]

    yield join
    for leases in made:
        for lease in list(leases._held):
            leases.forget(lease)


@pytest.fixture
def proxy(server: Any) -> Iterator[Any]:
    with proxying.Proxy(("127.0.0.1", server.port), servers.free_port()) as one:
        yield one


@pytest.fixture
def proxies(server: Any) -> Iterator[Callable[[], Any]]:
    """Makes as many proxies as are wanted."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(proxying.Proxy(("127.0.0.1", server.port), servers.free_port()))


@pytest.fixture
def through_proxy(proxy: Any) -> Callable[..., RedisStore]:
    """Opens stores that reach the server through the proxy; with the product's own deadline unless told otherwise."""

    def open_it(timeout: float | None = None, **changes: Any) -> RedisStore:
        return open_store(f"redis://127.0.0.1:{proxy.port}/0", timeout=timeout, **changes)

    return open_it


@pytest.fixture
def random_blob() -> Callable[[int], tuple[BlobRef, bytes]]:
    def blob(size: int) -> tuple[BlobRef, bytes]:
        data = os.urandom(size)
        return ref_of(data), data

    return blob


@pytest.fixture(scope="session")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A server that speaks TLS only, and asks for a certificate; `certificates` is the folder of all of them."""
    folder = servers.certificates(tmp_path_factory.mktemp("tls"))
    port = servers.free_port()
    connect = {
        "port": port,
        "ssl": True,
        "ssl_ca_certs": str(folder / "ca.crt"),
        "ssl_certfile": str(folder / "client.crt"),
        "ssl_keyfile": str(folder / "client.key"),
    }
    options = [f"--tls-port {port}", "--port 0", "--bind 127.0.0.1", f"--tls-ca-cert-file {folder}/ca.crt"]
    options += [f"--tls-cert-file {folder}/server.crt", f"--tls-key-file {folder}/server.key"]
    arguments = [word for option in options for word in option.split()]
    with servers.server(folder / "redis", *arguments, **connect) as one:
        one.certificates = folder
        yield one


@pytest.fixture(scope="session")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with servers.cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with servers.sentinel(tmp_path_factory.mktemp("sentinel")) as found:
        yield found
