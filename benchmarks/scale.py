"""Does a lookup stay as quick with 100,000 entries as with 100? On disk and in a real Redis; bytes per entry.

    python -m benchmarks.scale                    # five minutes; needs 2 GB of disk under TMPDIR
    python -m benchmarks.scale --entries 10000

Both sizes are asked in turn, in one process, so that a slow moment of the machine hits both. Every lookup is a
hit, read and verified whole: nothing comes from this process's memory. Writes benchmarks/results/scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from warmgraph.cache import (
    Cache,
    DiskStore,
    Entry,
    Hit,
    MemoryStore,
    Policy,
    RedisStore,
    Role,
    Store,
    new_key,
    parse_keys,
    parse_url,
)

from .redis_server import redis_server

RESULTS = Path(__file__).with_name("results") / "scale.json"
SMALL = 100
RESULT_BYTES = 20_000  # a small graph's result; kernels would only add blobs


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


def fill(cache: Cache, count: int, say: str) -> None:
    content = random.Random(0).randbytes(RESULT_BYTES)
    for number in range(count):
        draft = Entry(key_of(number), "v0", {"graph": "a" * 64}, None, {}, (), {"compile_seconds": 20.0})
        cache.publish(draft, [(Role.AOT_RESULT, "result", number.to_bytes(8, "big") + content)])
        if number % 50 == 49:
            cache.flush(60)
        if number % 5000 == 4999:
            print(f"{say}: {number + 1} of {count}", file=sys.stderr, flush=True)
    if not cache.flush(60) or cache.dropped or cache.health():
        raise SystemExit(f"{say}: not everything was written: {cache.dropped} dropped, {cache.health()}")


def ask(cache: Cache, numbers: Sequence[int]) -> list[float]:
    seconds = []
    for number in numbers:
        begin = time.perf_counter()
        found = cache.lookup(key_of(number), lambda entry: True)
        seconds.append(time.perf_counter() - begin)
        if not isinstance(found, Hit):
            raise SystemExit(f"entry {number} is not there: {found}")
    return seconds


def measure(open_one: Callable[[str], Cache], entries: int, rounds: int) -> dict[str, Any]:
    """Lookups at both sizes, interleaved. Each round asks for other entries, in random order, with a cache of its own.

    Of its own, since a cache notes a use (in Redis: an EXPIRE in the background) once an hour for each entry: with
    one cache the small store would be spared that after the first round.
    """
    sizes = {"small": SMALL, "large": entries}
    for name, count in sizes.items():
        fill(open_one(name), count, name)
    os.sync()  # or the disk would still be writing what was just put there
    picked = random.Random(1)
    found: dict[str, list[float]] = {name: [] for name in sizes}
    for number in range(rounds):
        for name in sorted(sizes, reverse=number % 2 == 0):
            cache = open_one(name)
            cache.lookup(key_of(2**200), lambda entry: True)  # connects
            asked = picked.sample(range(sizes[name]), SMALL)
            found[name] += ask(cache, asked)
    return {name: summary(seconds) | {"entries": sizes[name]} for name, seconds in found.items()}


def summary(seconds: Sequence[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100)
    return {"median": statistics.median(seconds), "p99": cuts[98], "lookups": len(seconds)}


def cache_over(store: Store) -> Cache:
    return Cache(
        MemoryStore(max_bytes=0), [store], max_size=10**12, max_files=10**8, policies=POLICIES, signer=RING.signer
    )


RING = parse_keys(new_key())
POLICIES = {name: Policy(verifier=RING.verifier(unsigned=False)) for name in ("memory", "disk", "redis")}


def disk(folder: Path, entries: int, rounds: int) -> dict[str, Any]:
    found = measure(lambda name: cache_over(DiskStore(folder / name)), entries, rounds)
    usage = DiskStore(folder / "large").usage()
    return found | {"bytes_per_entry": usage.bytes / usage.entries}


def redis(port: int, entries: int, rounds: int) -> dict[str, Any]:
    import redis as client

    def open_one(name: str) -> Cache:
        url = parse_url(f"redis://127.0.0.1:{port}/{0 if name == 'small' else 1}")
        return cache_over(RedisStore(url, namespace=name, ttl=10**6))

    server = client.Redis(port=port)
    before = server.info("memory")["used_memory"]
    found = measure(open_one, entries, rounds)
    after = server.info("memory")["used_memory"]
    server.close()
    return found | {"bytes_per_entry": (after - before) / (entries + SMALL), "payload_bytes": RESULT_BYTES}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found: dict[str, Any] = {"cpus": os.cpu_count(), "result_bytes": RESULT_BYTES}
    with tempfile.TemporaryDirectory(prefix="warmgraph-scale-") as folder:
        found["disk"] = disk(Path(folder), options.entries, options.rounds)
    with redis_server() as port:
        if port is not None:
            found["redis"] = redis(port, options.entries, options.rounds)
    for place in ("disk", "redis"):
        if place in found:
            small, large = found[place]["small"], found[place]["large"]
            ratios = {name: large[name] / small[name] for name in ("median", "p99")}
            found[place]["ratios"] = ratios
            print(
                f"{place}: median {large['median'] * 1000:.2f} ms, {ratios['median']:.2f} times that at {SMALL}; "
                f"p99 {large['p99'] * 1000:.2f} ms, {ratios['p99']:.2f} times; "
                f"{found[place]['bytes_per_entry']:.0f} bytes per entry"
            )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
