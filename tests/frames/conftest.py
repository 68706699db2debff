"""One server for all tests of frames: a process that forks a fresh one for each step."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def _server():
    command = [sys.executable, str(HERE / "server.py")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield process
    process.stdin.close()
    process.wait(60)
    process.stdout.close()


@pytest.fixture
def ask(_server, inductor_cache):
    """`ask(home, step, module=..., **task)`: what a fresh process with its store in `home` answers."""

    def ask(home, step, environment=(), **task):
        task |= {"step": step, "home": str(home), "folder": str(home / step)}
        task["environment"] = {
            "WARMGRAPH_DIR": str(home / "store"),
            "WARMGRAPH_STRICT": "1",
            "WARMGRAPH_FRAMES": "1",
            "TORCHINDUCTOR_CACHE_DIR": str(inductor_cache),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",
            "TORCHINDUCTOR_FX_GRAPH_CACHE": "0",
            "TORCHINDUCTOR_AUTOGRAD_CACHE": "0",
        } | dict(environment)
        _server.stdin.write(json.dumps(task) + "\n")
        _server.stdin.flush()
        answer = _server.stdout.readline()
        assert answer, f"the server ended with {_server.wait()}"
        found = json.loads(answer)
        assert "broken" not in found, found["broken"]
        return found

    return ask
