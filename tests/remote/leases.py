"""Taking and giving back one lease, for the tests of leases. No tests here."""

from __future__ import annotations

from typing import Any

from warmgraph.cache.stores.redis import RedisLease, RedisLeases
from warmgraph.cache.typing import Held

KEY = f"wg1{1:064x}"
VALUE, FENCE = f"wg:tests:{{{KEY}}}:lease", f"wg:tests:{{{KEY}}}:fence"


def take(leases: RedisLeases) -> RedisLease:
    lease = leases.acquire(KEY)
    assert isinstance(lease, RedisLease)
    return lease


def give(lease: RedisLease | Held, *, ok: bool = True) -> None:
    """Give a lease back, and wait until the server knows."""
    assert isinstance(lease, RedisLease)
    lease.release(ok=ok)
    assert lease._leases.flush(20)


def wait_for_beats(server: Any, servers: Any, left: int = 15_000) -> None:
    """Until its owner has prolonged the lease twice; left: milliseconds that it then lasts, at least."""
    for _ in range(2):
        server.raw.pexpire(VALUE, left // 3)
        servers.wait_for(lambda: server.raw.pttl(VALUE) > left, "it is not prolonged")


def is_free(leases: RedisLeases) -> bool:
    return leases.peek(KEY) is None
