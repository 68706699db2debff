"""A real redis-server on a free loopback port, for as long as a `with` lasts; None where there is none."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator


@contextlib.contextmanager
def redis_server() -> Iterator[int | None]:
    """Yield the port of a server without persistence, or None when redis-server is not installed."""
    executable = shutil.which("redis-server")
    if executable is None:
        yield None
        return
    with RedisServer(executable, free_port()) as server:
        server.start()
        yield server.port


class RedisServer:
    """A server that can be stopped and started; it keeps nothing."""

    def __init__(self, executable: str, port: int) -> None:
        self.port = port
        self._folder = tempfile.TemporaryDirectory(prefix="warmgraph-redis-")
        self._command = [executable, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--maxclients", "60000"]
        self._command += ["--dir", self._folder.name]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        _wait_for(self.port)

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None


def free_port() -> int:
    """Below those that the kernel gives to whoever connects, so that nobody has it before the server does."""
    while True:
        port = random.SystemRandom().randrange(12_000, 22_000)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port


def _wait_for(port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"redis-server did not come up on port {port}")
