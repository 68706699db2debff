"""A real redis-server on a free loopback port, for as long as a `with` lasts; None where there is none."""

from __future__ import annotations

import contextlib
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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="warmgraph-redis-") as folder:
        command = [executable, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            _wait_for(port)
            yield port
        finally:
            process.terminate()
            process.wait(10)


def _wait_for(port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"redis-server did not come up on port {port}")
