"""Ranks of a simulated fleet, many in one process: a thread each, with a cache, connections and leases of its own.

What a rank does for each graph is what the backend does, less torch: look up; on a hit agree with the others; on a miss
take the key's turn, look again, "compile" (sleep) and publish. A host is a folder. Reads its work as JSON from
standard input and writes what became of it to standard output; `fleet_simulation` starts it.
"""

from __future__ import annotations

import json
import os
import random
import resource
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from warmgraph.cache import Entry, Event, Hit, Outcome, Role, flush, open_journaled, parse_url, record, settings
from warmgraph.cache.tiers import one_reader

LONGEST = 3600.0


def key_of(number: int) -> str:
    return f"wg1{number:064x}"


def blobs_of(number: int, size: int) -> list[tuple[Role, str, bytes]]:
    """A result, kernels and texts, as a training graph has them; random, so that they do not shrink."""
    content = random.Random(number)
    parts = ((Role.AOT_RESULT, "result", 0.5), (Role.CPP_KERNEL, "kernel", 0.3), (Role.PART_TEXTS, "texts", 0.2))
    return [(role, name, content.randbytes(int(size * share))) for role, name, share in parts]


def run_rank(work: dict[str, Any], rank: dict[str, Any], said: dict[str, Any]) -> None:
    patient = {"deadline": work["patience"], "connect_deadline": work["patience"]}
    current = replace(
        settings(), dir=Path(rank["host"]), url=replace(parse_url(work["url"]), **patient), job=work["job"], skew=None
    )
    time.sleep(max(0.0, rank["arrives"] - time.time()))
    said |= {"arrived": time.time(), "tiers": {}, "compiled": [], "waited": 0.0, "skew": 0.0}
    cache, journal = open_journaled(current)
    for number, graph in enumerate(work["graphs"]):
        key = key_of(number)
        found = cache.lookup(key, lambda entry: True)
        for insist in (False, True):
            if isinstance(found, Hit):
                break
            with cache.flight(key, insist=insist) as turn:
                said["waited"] += turn.waited
                found = cache.lookup(key, lambda entry: True)
                if isinstance(found, Hit):
                    turn.settle(ok=True)
                elif not turn.gave_way:
                    time.sleep(graph["seconds"])
                    cache.publish(Entry(key, "v0", {}, None, {}, ()), blobs_of(number, graph["bytes"]), turn)
                    said["compiled"].append(number)
                    break
        if isinstance(found, Hit):
            waited = cache.agree(found, lambda: LONGEST)
            said["skew"] += 0.0 if waited is None else waited.seconds
            said["tiers"][found.tier] = said["tiers"].get(found.tier, 0) + 1
        outcome = Outcome.HIT if isinstance(found, Hit) else Outcome.MISS
        record(journal, Event(outcome, key=key, tier=getattr(found, "tier", None), rank=rank["rank"]))
    said["ready"] = time.time()
    said["sick"] = bool(cache.health())


def main() -> int:
    work = json.load(sys.stdin)
    os.environ["WORLD_SIZE"] = str(work["size"])
    one_reader._SECONDS = work["patience"]
    found: list[dict[str, Any]] = [{"rank": rank["rank"], "host": rank["host"]} for rank in work["ranks"]]
    settings()
    threading.stack_size(256 * 1024)
    pairs = zip(work["ranks"], found, strict=True)
    threads = [threading.Thread(target=run_rank, args=(work, rank, said), daemon=True) for rank, said in pairs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    flush(60.0)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    json.dump({"ranks": found, "cpu_seconds": usage.ru_utime + usage.ru_stime}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
