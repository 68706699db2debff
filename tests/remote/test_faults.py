"""A Redis that fails in every way that a proxy can make it: right results, a word on the sick tier, no time lost.

A process with real compiles, in which each fault meets a cache of its own: folder, connections, health. What a fault
costs is bounded by deadlines (`test_calls`, `benchmarks/faults.py`); here it is that nothing waits twice.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from warmgraph.cache import new_key

PROGRAM = """
import json, sys
import torch, warmgraph
from warmgraph.backend.process_cache import opened
from warmgraph.cache import settings; from warmgraph.cache.stores import circuit_breaker as health

waited = []  # (tier, use) for each time that somebody waited for a tier in vain
failed = health.Health.failed
def noting(self, tier, use, message):
    waited.append((tier, use))
    failed(self, tier, use, message)
health.Health.failed = noting

def work(x, y):
    return x * y + 1

found = {}
for number, (name, url) in enumerate(json.loads(sys.argv[1]).items()):
    warmgraph.configure(url=url, dir=f"{sys.argv[2]}/{number}")
    torch._dynamo.reset()
    waited.clear()
    before = warmgraph.stats()
    x, y = torch.arange(12.0), torch.ones(12)
    compiled = torch.compile(work, backend="warmgraph")
    right = bool(torch.equal(compiled(x, y), work(x, y)))
    second = torch.compile(lambda x: x * 3 - 2, backend="warmgraph")
    right = right and bool(torch.equal(second(x), x * 3 - 2))
    warmgraph.flush()
    after = warmgraph.stats()
    counts = [after[count] - before[count] for count in ("misses", "bypasses", "failures")]
    sick = opened(settings()).cache.health()  # of this cache alone
    found[name] = {"right": right, "waited": list(waited), "counts": counts, "sick": sick}
print(json.dumps(found))
"""

# name: what the proxy does, what it answers, what is said of the tier (a pattern).
FAULTS = {
    "refused": ("REFUSE", b"", "refused"),
    "silent": ("SILENT", b"", "answer"),
    "drips": ("DRIP", b"", "answer"),
    "closes": ("CUT", b"", "closed"),
    "garbage": ("GARBAGE", b"", ""),
    "loading": ("ERROR", b"-LOADING Redis is loading the dataset in memory\r\n", "loading"),
    "password": ("ERROR", b"-NOAUTH Authentication required.\r\n", "password"),
    "cluster": ("ERROR", b"-MOVED 1 127.0.0.1:1\r\n", "cluster"),
    "full": ("WRITE_ERROR", b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "maxmemory"),
    "replica": ("WRITE_ERROR", b"-READONLY You can't write against a read only replica.\r\n", "replica"),
}
OTHERS = {"no such name": "no-such-host.invalid", "swallowed": ""}


@contextlib.contextmanager
def swallowing() -> Iterator[int]:
    """A port that never completes a connection, as behind a firewall that drops."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        for _ in range(4):  # the queue is full: no further connection is completed
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        yield port


@pytest.fixture
def found(server: Any, proxies: Callable[[], Any], make: Any, run_python: Callable[..., Any], tmp_path: Any) -> Any:
    """What a process saw of each fault."""
    urls = {}
    for name, (mode, error, _) in FAULTS.items():
        proxy = proxies()
        proxy.error = error or proxy.error
        proxy.cut_after = 2
        proxy.mode = make.Mode[mode]
        # What answers is given time to, or a busy machine's silence would be told instead of its answer.
        options = "" if mode in ("SILENT", "DRIP") else "?socket_timeout=2"
        urls[name] = f"redis://127.0.0.1:{proxy.port}/0{options}"
    urls["no such name"] = "redis://no-such-host.invalid:6379"
    with swallowing() as port:
        urls["swallowed"] = f"redis://127.0.0.1:{port}"
        environment = {"WARMGRAPH_SIGNING_KEY": new_key(), "WARMGRAPH_STRICT": "0"}
        return run_python(PROGRAM, json.dumps(urls), tmp_path / "stores", **environment)


def test_whatever_the_server_does(found: dict[str, Any]) -> None:
    """Two graphs are compiled, right, and kept on disk; nobody waits twice for what did not answer."""
    said = {name: sick for name, (_, _, sick) in FAULTS.items()} | OTHERS
    assert found.keys() == said.keys()
    for name, one in found.items():
        assert one["right"], name
        assert one["counts"] == [2, 0, 0], name
        assert re.search(said[name], one["sick"]["redis"]), name
        waited = [tuple(use) for use in one["waited"]]
        assert waited, name
        assert len(waited) == len(set(waited)), name
        assert {tier for tier, _ in waited} == {"redis"}, f"{name}: the disk is not to blame"
