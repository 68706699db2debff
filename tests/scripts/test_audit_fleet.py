"""The decisive test of the audit: eight processes on two hosts, everything planted, every number as planted.

A host is a folder and a name of its own. Six processes are `fleet_worker.py`, which meets each kind of miss in a real
store; two compile with torch. What the audit says of the hosts' journals and of the fleet's stream is the same.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from warmgraph.cache import new_key

HERE = Path(__file__).parent
WORKER = HERE / "fleet_worker.py"
TORCH = """
import os, sys
_real = os.uname()
os.uname = lambda: os.uname_result((_real[0], sys.argv[1], *_real[2:]))
import torch, warmgraph
def planted(x):
    return x.sin() + 1
def frozen(x):
    return x.cos() * 2
x = torch.arange(8.0)
assert torch.allclose(torch.compile(planted, backend="warmgraph")(x), planted(x))
torch.compiler.config.force_disable_caches = True
assert torch.allclose(torch.compile(frozen, backend="warmgraph")(x), frozen(x))
assert warmgraph.flush()
"""
BYPASSES = [
    ("wrapped-call", "node scaled: torch.fx.wrap of scale in /src/model.py:7"),
    ("unhashable", "node f: a lambda that nothing identifies"),
    ("constant-too-large", "node w: 3 GB"),
    ("unsafe-op", "node rand: not safe to cache"),
]


@pytest.fixture
def server(servers: ModuleType, tmp_path: Path) -> Iterator[Any]:
    with servers.server(tmp_path / "redis") as one:
        yield one


class Fleet:
    """Starts processes on hosts."""

    def __init__(self, environment: Callable[..., dict[str, str]], folder: Path, url: str) -> None:
        self.environment = environment
        self.folder = folder
        self.shared = {"WARMGRAPH_URL": url, "WARMGRAPH_SIGNING_KEY": new_key(), "WARMGRAPH_JOB": "planted"}
        self.shared |= {"WARMGRAPH_STRICT": "0", "WARMGRAPH_WAIT": "5"}
        self.ranks = 0

    def start(self, host: str, program: list[str], **changes: str) -> subprocess.Popen[str]:
        own = {"WARMGRAPH_DIR": str(self.folder / host), "RANK": str(self.ranks)}
        self.ranks += 1
        return subprocess.Popen(
            [sys.executable, *program],
            env=self.environment(WARMGRAPH_FRAMES=0) | self.shared | own | changes,
            stderr=subprocess.PIPE,
            text=True,
        )

    def worker(self, host: str, steps: list[Any], **changes: str) -> subprocess.Popen[str]:
        return self.start(host, [str(WORKER), json.dumps({"host": host, "steps": steps})], **changes)

    def torch(self, host: str) -> subprocess.Popen[str]:
        return self.start(host, ["-c", TORCH, host])


def finish(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0, err[-3000:]


def look(number: int, function: str, **more: Any) -> list[Any]:
    return ["lookup", [number], {"function": function, **more}]


def damage(raw: Any) -> None:
    """On the server: an entry that is no entry, one without its blob."""
    name = f"wg:default:{{wg1{10:064x}}}:e"
    raw.set(name, raw.get(name).replace(b"WGE3", b"xGE3", 1))
    before = set(raw.scan_iter(match="wg:default:b:*"))
    for piece in before:
        raw.delete(piece)


def plant(fleet: Fleet, server: Any, proxying: ModuleType) -> None:
    """What follows is what `PLANTED` counts."""
    finish(fleet.worker("host-a", [look(10, "broken"), look(11, "broken")]))  # 2 absent
    damage(server.raw)
    other = {"WARMGRAPH_SIGNING_KEY": new_key(), "WARMGRAPH_DIR": str(fleet.folder / "stranger")}
    finish(fleet.worker("host-b", [look(12, "foreign")], **other))  # 1 absent
    first = fleet.worker("host-a", [*(look(number, "attention") for number in (1, 2, 3)), look(1, "attention")])
    cold = fleet.torch("host-a")  # 1 absent, 1 caches-disabled
    finish(first)  # 3 absent, 1 hit from memory

    waiting = fleet.folder / "signs"
    waiting.mkdir()
    with proxying.Proxy(("127.0.0.1", server.port)) as proxy:
        others = [
            # 2 hits from disk, 1 guards
            fleet.worker("host-a", [look(1, "attention"), look(2, "mlp"), look(3, "mlp", accepted=False)]),
            # 2 hits from redis; corrupt, incomplete, untrusted
            fleet.worker(
                "host-b",
                [look(1, "attention"), look(2, "mlp"), look(10, "broken"), look(11, "broken"), look(12, "foreign")],
            ),
            # 4 bypasses, 1 failure; 1 unreadable and 1 outage
            fleet.worker(
                "host-b",
                [
                    *(["event", ["bypass"], {"function": "hooked", "reason": r, "detail": d}] for r, d in BYPASSES),
                    ["event", ["failed"], {"function": "hooked", "reason": "internal"}],
                    ["outage", [str(waiting), 20], {"function": "outage"}],
                    ["event", ["bypass"], {"function": "hooked", "reason": "wrapped-call", "detail": BYPASSES[0][1]}],
                ],
                WARMGRAPH_URL=f"redis://127.0.0.1:{proxy.port}/0?socket_timeout=5",
                WARMGRAPH_DIR=str(fleet.folder / "host-b2"),
            ),
        ]
        _cause_outage(waiting, proxy, proxying)
        finish(*others)
    finish(fleet.worker("host-a", [look(1, "attention", compile=4.0)], WARMGRAPH_MODE="refresh"))  # 1 refresh
    finish(cold)
    finish(fleet.torch("host-b"))  # 1 hit from redis, 1 caches-disabled


def _cause_outage(waiting: Path, proxy: Any, proxying: ModuleType) -> None:
    import time

    end = time.monotonic() + 120
    for sign, mode, then in (("ready", proxying.Mode.SILENT, "silent"), ("missed", proxying.Mode.PASS, "well")):
        while not (waiting / sign).exists():
            assert time.monotonic() < end
            time.sleep(0.05)
        proxy.mode = mode
        (waiting / then).touch()


MISSES = {
    "absent": 2 + 1 + 3 + 1,
    **dict.fromkeys(("guards", "corrupt", "incomplete", "untrusted", "refresh", "unreadable"), 1),
}
BYPASSED = {"wrapped-call": 2, "unhashable": 1, "constant-too-large": 1, "unsafe-op": 1, "caches-disabled": 2}
TIERS = {"disk": 2, "memory": 1, "redis": 2 + 1}
# function: hits, misses, bypasses, failures; seconds spent, saved
FUNCTIONS = {
    "attention": (3, 4, 0, 0, 3 * 0.25 + 3 * 8.125 + 4.125, 3 * 7.75),
    "mlp": (2, 1, 0, 0, 2 * 0.25 + 8.125, 2 * 7.75),
    "broken": (0, 4, 0, 0, 4 * 8.125, 0.0),
    "foreign": (0, 2, 0, 0, 2 * 8.125, 0.0),
    "outage": (0, 1, 0, 0, 8.125, 0.0),
    "hooked": (0, 0, 5, 1, 6 * 2.125, 0.0),
}


def check(found: dict[str, Any]) -> None:
    """The document against what was planted."""
    totals = found["totals"]
    assert {name: totals[name] for name in ("hits", "misses", "bypasses", "failed", "verified", "skipped")} == {
        "hits": 6, "misses": 13, "bypasses": 7, "failed": 1, "verified": 0, "skipped": 0,
    }  # fmt: skip
    assert totals["hit_rate"] == 6 / 19
    by_reason = {(row["outcome"], row["reason"]): row["count"] for row in found["reasons"]}
    expected = {("miss", reason): count for reason, count in MISSES.items()}
    expected |= {("bypass", reason): count for reason, count in BYPASSED.items()} | {("failed", "internal"): 1}
    assert by_reason == expected
    assert {row["tier"]: row["hits"] for row in found["tiers"]} == TIERS
    check_functions(found)
    check_causes(found)
    assert (found["source"]["events"], found["source"]["skipped"]) == (27 + 1, 0)
    assert (found["source"]["hosts"], found["source"]["processes"]) == (2, 9)
    assert sum(bucket["misses"] for bucket in found["over_time"]) == 13
    assert {(row["tier"], row["count"], row["hosts"]) for row in found["health"]} == {("redis", 1, 1)}
    assert re.search("no answer (in time|within)", found["health"][0]["detail"])


def check_functions(found: dict[str, Any]) -> None:
    rows = {row["function"]: row for row in found["functions"]}
    assert set(rows) == {*FUNCTIONS, "planted", "frozen"}
    for name, (*counts, spent, saved) in FUNCTIONS.items():
        row = rows[name]
        assert [row["hits"], row["misses"], row["bypasses"], row["failed"]] == counts, name
        assert (row["seconds_spent"], row["seconds_saved"]) == (spent, saved), name
    assert (rows["planted"]["hits"], rows["planted"]["misses"], rows["planted"]["keys"]) == (1, 1, 1)
    assert rows["frozen"]["bypasses"] == 2
    compiled = next(row["seconds"] for row in found["phases"] if row["phase"] == "compile")
    assert compiled == pytest.approx(found["totals"]["compile_seconds"])


def check_causes(found: dict[str, Any]) -> None:
    bypassed = {(row["reason"], row["detail"]): row for row in found["bypasses"] if row["function"] == "hooked"}
    assert set(bypassed) == set(BYPASSES)
    assert bypassed[BYPASSES[0]]["count"] == 2
    assert (bypassed[BYPASSES[0]]["file"], bypassed[BYPASSES[0]]["line"]) == ("/src/hooked.py", 6)
    assert "user_cache_hash" in bypassed[BYPASSES[0]]["advice"]
    again = {int(row["key"][3:], 16): row for row in found["compiled_again"]}
    assert {number: row["count"] for number, row in again.items()} == {1: 2, 3: 2, 10: 2, 11: 2, 12: 2}
    assert [who["reason"] for who in again[1]["who"]] == ["absent", "refresh"]
    assert {who["host"] for who in again[12]["who"]} == {"host-b"}
    assert all(row["job"] == "planted" for row in found["processes"])


@pytest.mark.exhaustive
def test_every_number_is_as_planted(
    run: Any,
    environment: Callable[..., dict[str, str]],
    tmp_path: Path,
    server: Any,
    proxying: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hits of three tiers, misses of seven kinds, bypasses of five, an outage: by the journals and by the stream."""
    fleet = Fleet(environment, tmp_path / "fleet", server.patient_url)
    (tmp_path / "fleet").mkdir()
    plant(fleet, server, proxying)
    assert fleet.ranks == 9

    journals = tmp_path / "journals"
    journals.mkdir()
    for number, path in enumerate(sorted((tmp_path / "fleet").glob("*/journal/*.jsonl"))):
        shutil.copy(path, journals / f"{path.name[:10]}.copy{number}.jsonl")
    ran = run("audit", "--dir", journals, "--json", "--fail-under", "0.5")
    assert ran.status == 1
    assert "under 50 %" in ran.err
    check(ran.json)

    for name, value in fleet.shared.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("WARMGRAPH_DIR", str(tmp_path / "fleet" / "host-a"))
    streamed = run("audit", "--fleet", "--json").json
    check(streamed)
    assert streamed["source"]["kind"] == "stream"
    differ = ("generated", "source", "store", "never_hit", "never_hit_count", "over_time", "misses", "bypasses")
    for part in set(streamed) - set(differ):
        assert streamed[part] == ran.json[part], part
    check_store(run, streamed)


def check_store(run: Any, streamed: dict[str, Any]) -> None:
    """Joined with the entries that are on the server, and on this host."""
    assert streamed["store"]["entries"] >= 6
    unhit = {int(row["key"][3:], 16) for row in streamed["never_hit"]}
    assert unhit & set(range(100)) == {3, 10, 11, 12}  # 20 was compiled while the server was silent
    local = run("audit", "--json", "--host", "host-a").json
    assert local["totals"]["hits"] == 3
    assert {row["function"]: row["hits"] for row in local["functions"]} == {
        "attention": 2, "mlp": 1, "broken": 0, "planted": 0, "frozen": 0,
    }  # fmt: skip
