"""How long a million events take to audit, and how much memory: a journal as a busy fleet writes it, read cold.

    python -m benchmarks.audit_speed [--events 1000000]

Each audit is a process of its own, `warmgraph audit --json`, as users run it; its time, CPU time and largest memory are
the process's. Lines that are no events stand in between. Also how long each command takes to start. Writes
benchmarks/results/audit_speed.json.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from warmgraph.cache import Event, Outcome
from warmgraph.cache.journal.events import encode_event

from .warm_start import RESULTS, machine

PARTS = ("graph", "inputs", "symbols", "hooks", "compiler", "ambient", "code", "toolchain", "machine")
HOSTS, FUNCTIONS, KEYS, PER_PROCESS, DAYS = 64, 2000, 50_000, 100, 30
NOISE = (b"<script>alert(1)</script>\n", b"\x1b[2J\n", b'{"outcome":"hit"}\n', b"x" * 10_000 + b"\n")
STARTS = 5
COMMANDS = ("config", "stats", "audit", "journal", "ls", "doctor")


def lines(count: int) -> Iterator[tuple[int, bytes]]:
    """(day, line): nine hits in ten, among them misses and bypasses; alike in every run."""
    pick = random.Random(7)
    keys = [f"wg1{pick.getrandbits(256):064x}" for _ in range(KEYS)]
    start = time.time() - DAYS * 86_400
    for number in range(count):
        process, function = number // PER_PROCESS, pick.randrange(FUNCTIONS)
        when = start + number * DAYS * 86_400 / count
        fields: dict[str, Any] = {
            "time": when,
            "host": f"gpu-{process % HOSTS:03}",
            "pid": 1000 + process,
            "rank": process % 8,
            "started": start + process,
            "key": keys[pick.randrange(KEYS)],
            "parts": {name: f"{pick.getrandbits(64):064x}" for name in PARTS},
            "function": f"forward_{function}",
            "file": f"/opt/training/models/block_{function % 50}.py",
            "line": function,
            "nodes": 400,
            "bytes": 120_000,
            "backend": "warmgraph",
            "namespace": "default",
            "job": str(process // 8),
        }
        yield int((when - start) // 86_400), encode_event(_outcome(pick, fields, keys))
        if number % 10_000 == 0:
            yield 0, NOISE[number // 10_000 % len(NOISE)]


def _outcome(pick: random.Random, fields: dict[str, Any], keys: list[str]) -> Event:
    share = pick.random()
    if share < 0.9:
        seconds = {"hash": 0.01, "fetch": 0.002, "load": 0.02}
        return Event(Outcome.HIT, tier=pick.choice(("disk", "redis")), seconds_saved=12.5, seconds=seconds, **fields)
    if share < 0.97:
        seconds = {"hash": 0.01, "fetch": 0.002, "wait": 0.0, "compile": 12.5, "publish": 0.03}
        nearest, differs = keys[0], [pick.choice(PARTS)]
        return Event(Outcome.MISS, reason="absent", seconds=seconds, nearest=nearest, differs=differs, **fields)
    detail = f"node scaled_{pick.randrange(50)}: torch.fx.wrap of scale without user_cache_hash"
    return Event(Outcome.BYPASS, reason="wrapped-call", detail=detail, seconds={"hash": 0.01, "compile": 3.0}, **fields)


def write(folder: Path, count: int) -> int:
    """A journal of `count` events in `folder`; its bytes."""
    files = {day: (folder / f"2026-01-{day + 1:02}.fleet.jsonl").open("wb") for day in range(DAYS + 1)}
    for day, line in lines(count):
        files[day].write(line)
    for file in files.values():
        file.close()
    return sum(path.stat().st_size for path in folder.iterdir())


def audited(folder: Path) -> dict[str, Any]:
    """One audit in a process of its own."""
    begin = time.perf_counter()
    command = [sys.executable, "-m", "warmgraph", "audit", "--dir", str(folder), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        document = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return {
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
        "events": document["source"]["events"],
        "skipped": document["source"]["skipped"],
        "processes": document["source"]["processes"],
        "document_bytes": len(json.dumps(document)),
    }


def started(command: str, folder: Path) -> float:
    """Median seconds of `warmgraph COMMAND --help`."""
    spent = []
    for _ in range(STARTS):
        begin = time.perf_counter()
        environment = os.environ | {"WARMGRAPH_DIR": str(folder)}
        subprocess.run(
            [sys.executable, "-m", "warmgraph", command, "--help"], env=environment, check=True, capture_output=True
        )
        spent.append(time.perf_counter() - begin)
    return median(spent)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write(folder, options.events)
        found = {"machine": machine(), "journal_bytes": size, "audit": audited(folder)}
        found["start_seconds"] = {command: started(command, folder) for command in COMMANDS}
    (RESULTS / "audit_speed.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found["audit"], indent=1), file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
