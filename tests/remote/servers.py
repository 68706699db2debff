"""Real servers for tests: one, with TLS, a cluster, a sentinel. Started on free ports, gone with their `with`."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


def free_port() -> int:
    """A port that is free, as is the one 10000 above it, where a cluster's bus listens.

    Both below those that the system hands out: a server that is restarted finds its own free again.
    """
    while True:
        port = random.SystemRandom().randrange(12_000, 22_000)
        with contextlib.suppress(OSError), socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port


def need(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        pytest.skip(f"{program} is not installed")
    return found


@dataclass
class Server:
    """A redis-server that can be killed and started again. raw: redis-py's client, past the store."""

    folder: Path
    port: int
    arguments: tuple[str, ...] = ()
    connect: dict[str, Any] = field(default_factory=dict)
    process: Any = None

    @property
    def raw(self) -> Any:
        import redis

        where = {"host": "127.0.0.1", "port": self.port} | self.connect
        return redis.Redis(**where, protocol=2, socket_timeout=5)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def patient_url(self) -> str:
        """For tests that are not about silence: a busy machine's server may answer later than the product waits."""
        return f"{self.url}?socket_timeout=10"

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [need("redis-server"), *self.arguments, "--save", "", "--dir", str(self.folder)]
        if "--port" not in self.arguments:
            command += ["--port", str(self.port), "--bind", "127.0.0.1"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_for(self._is_up, f"redis-server did not come up: {self.folder}/log")

    def _is_up(self) -> bool:
        assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
        with contextlib.closing(self.raw) as raw:
            return bool(raw.ping())

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait(10)
            self.process = None


@contextlib.contextmanager
def server(folder: Path, *arguments: str, **connect: Any) -> Iterator[Server]:
    one = Server(folder, free_port(), arguments, connect)
    try:
        one.start()
        yield one
    finally:
        one.stop()


@contextlib.contextmanager
def cluster(folder: Path) -> Iterator[list[Server]]:
    """Three primaries."""
    nodes = []
    try:
        for number in range(3):
            options = ("--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf")
            nodes.append(Server(folder / str(number), free_port(), options))
            nodes[-1].start()
        places = [f"127.0.0.1:{node.port}" for node in nodes]
        create = [need("redis-cli"), "--cluster", "create", *places, "--cluster-replicas", "0", "--cluster-yes"]
        subprocess.run(create, check=True, capture_output=True, timeout=60)
        for node in nodes:
            wait_for(lambda node=node: node.raw.cluster("info")["cluster_state"] == "ok", "the cluster is not ok")
        yield nodes
    finally:
        for node in nodes:
            node.stop()


@contextlib.contextmanager
def sentinel(folder: Path) -> Iterator[tuple[int, list[Server]]]:
    """(the sentinel's port, [primary, replica]); the service is called `main`. A busy primary is given a minute."""
    servers = []
    watcher = None
    try:
        servers.append(Server(folder / "a", free_port()))
        servers[0].start()
        servers.append(
            Server(
                folder / "b",
                free_port(),
                ("--replicaof", f"127.0.0.1 {servers[0].port}", "--repl-diskless-sync-delay", "0"),
            )
        )
        servers[1].start()
        wait_for(lambda: servers[1].raw.info("replication")["master_link_status"] == "up", "no replication")
        port = free_port()
        config = folder / "sentinel.conf"
        config.write_text(
            f"port {port}\nbind 127.0.0.1\nsentinel monitor main 127.0.0.1 {servers[0].port} 1\n"
            "sentinel down-after-milliseconds main 60000\nsentinel failover-timeout main 3000\n"
        )
        with (folder / "log").open("ab") as log:
            watcher = subprocess.Popen([need("redis-server"), str(config), "--sentinel"], stdout=log, stderr=log)
        watched = Server(folder, port)
        wait_for(lambda: watched.raw.sentinel_masters()["main"]["num-slaves"] == 1, "the sentinel sees no replica")
        yield port, servers
    finally:
        if watcher is not None:
            watcher.kill()
            watcher.wait(10)
        for one in servers:
            one.stop()


def wait_for(condition: Any, message: str, seconds: float = 20.0) -> None:
    """Until `condition()` holds; what a store, redis-py and the system raise meanwhile is a no."""
    import redis
    from warmgraph.cache import StoreUnavailable

    last: Exception | None = None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if condition():
                return
        except (StoreUnavailable, redis.RedisError, OSError, KeyError) as error:
            last = error
        time.sleep(0.03)
    raise AssertionError(message) from last


def wait_for_revocations() -> None:
    """Until no store of this process asks for them in the background: who counts commands would count those."""
    wait_for(
        lambda: "warmgraph-revocations" not in {thread.name for thread in threading.enumerate()},
        "it goes on asking for revocations",
    )


def certificates(folder: Path) -> Path:
    """A CA, a server's and a client's certificate, made with openssl: ca.crt, server.crt, client.crt and .key."""
    openssl = need("openssl")
    folder.mkdir(parents=True, exist_ok=True)

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], check=True, capture_output=True, cwd=folder, timeout=60)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    run("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.crt", "-days", "2", "-subj", "/CN=a ca")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("server", "client"):
        run("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        signing = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        run("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.crt", *signing)
    return folder
