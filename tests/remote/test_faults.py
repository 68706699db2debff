"""A Redis that fails in every way that a proxy can make it: right results, a word on the sick tier, no time lost.

Whole processes with a real compile. What a fault costs is bounded by deadlines, which `test_calls` and
`benchmarks/faults.py` look at; here it is that nothing waits twice.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest
from warmgraph.cache import new_key

PROGRAM = """
import json, sys, time
import torch, warmgraph
from warmgraph.cache import health

waited = []  # (tier, use) for each time that somebody waited for a tier in vain
failed = health.Health.failed
def noting(self, tier, use, message):
    waited.append((tier, use))
    failed(self, tier, use, message)
health.Health.failed = noting

def work(x, y):
    return x * y + 1

x, y = torch.arange(12.0), torch.ones(12)
compiled = torch.compile(work, backend="warmgraph")
right = bool(torch.equal(compiled(x, y), work(x, y)))
second = torch.compile(lambda x: x * 3 - 2, backend="warmgraph")
right = right and bool(torch.equal(second(x), x * 3 - 2))
warmgraph.flush()
stats = warmgraph.stats()
print(json.dumps({"right": right, "waited": waited, "stats": stats}))
"""


@pytest.fixture
def process(run_python: Callable[..., Any]) -> Callable[[str], Any]:
    def run(url: str) -> Any:
        return run_python(PROGRAM, WARMGRAPH_URL=url, WARMGRAPH_SIGNING_KEY=new_key(), WARMGRAPH_STRICT="0")

    return run


def check(found: Any, *, sick: str) -> None:
    """Right results from two compiles, as misses; one wait at most for each use; the sick tier is told of."""
    assert found["right"]
    assert (found["stats"]["misses"], found["stats"]["bypasses"], found["stats"]["failures"]) == (2, 0, 0)
    assert sick in found["stats"]["sick"]["redis"]
    waited = [tuple(one) for one in found["waited"]]
    assert waited
    assert len(waited) == len(set(waited)), "nobody waits twice for what did not answer"
    assert {tier for tier, _ in waited} == {"redis"}, "the disk is not to blame"


FAULTS = [
    ("REFUSE", b"", "refused"),
    ("SILENT", b"", "answer"),
    ("DRIP", b"", "answer"),
    ("CUT", b"", "closed"),
    ("GARBAGE", b"", ""),
    ("ERROR", b"-LOADING Redis is loading the dataset in memory\r\n", "loading"),
    ("ERROR", b"-NOAUTH Authentication required.\r\n", "password"),
    ("ERROR", b"-MOVED 1 127.0.0.1:1\r\n", "cluster"),
    ("WRITE_ERROR", b"-OOM command not allowed when used memory > 'maxmemory'.\r\n", "maxmemory"),
    ("WRITE_ERROR", b"-READONLY You can't write against a read only replica.\r\n", "replica"),
]


@pytest.mark.parametrize(
    ("mode", "error", "sick"), FAULTS, ids=[f"{m} {e[1:6].decode()}".strip() for m, e, _ in FAULTS]
)
def test_fault(process: Callable[[str], Any], proxy: Any, make: Any, mode: str, error: bytes, sick: str) -> None:
    """Whatever the server does, two graphs are compiled, right, and kept on disk; nobody waits twice."""
    proxy.error = error or proxy.error
    proxy.cut_after = 2
    proxy.mode = make.Mode[mode]
    check(process(f"redis://127.0.0.1:{proxy.port}"), sick=sick)


def test_name_that_does_not_resolve(process: Callable[[str], Any]) -> None:
    """A host name that nobody knows is a sick tier, too."""
    check(process("redis://no-such-host.invalid:6379"), sick="no-such-host.invalid")


def test_address_that_swallows_packets(process: Callable[[str], Any]) -> None:
    """A port that never completes a connection (a firewall that drops) costs one deadline."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]  # the queue is full: no further connection is completed
        try:
            for filler in fillers:
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
            check(process(f"redis://127.0.0.1:{port}"), sick="")
        finally:
            for filler in fillers:
                filler.close()
