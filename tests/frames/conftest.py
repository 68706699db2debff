"""One server for all tests of frames: a process that forks a fresh one for each step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from warmgraph.backend import frames_unsupported


def pytest_collection_modifyitems(items):
    """On a torch where frames are traced there is nothing to test."""
    why = frames_unsupported()
    for item in items:
        if why is not None and Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=why))


@pytest.fixture(scope="session")
def _server(fork_server):
    # `loaded` has Inductor read its settings: what is compared with is compiled, and no result of torch's caches.
    env = os.environ | {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    with fork_server(Path(__file__).parent, "loaded", env=env) as ask:
        yield ask


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
        } | dict(environment)
        found = _server(task)
        assert "broken" not in found, found["broken"]
        return found

    return ask
