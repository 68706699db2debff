"""audit: what it counts, filters, refuses and prints; journals that are large, torn or hostile; `top`."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import random
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import ONE_DEVICE, Event, Outcome, Reason, read
from warmgraph.cache.journal.events import encode_event
from warmgraph.scripts.audit import Auditor, Filters, StoredEntry, audit_events, summary_lines
from warmgraph.scripts.audit import counting as counted
from warmgraph.scripts.audit.tables import MAX_BUCKETS, Timeline

NOW = 1_790_000_000.0
KEY = f"wg1{7:064x}"


def event(outcome: str, **fields: Any) -> dict[str, Any]:
    """An event as `read` gives it."""
    plain = json.loads(encode_event(Event(Outcome(outcome), **({"time": NOW} | fields))))
    assert isinstance(plain, dict)
    return plain


def document(*events: dict[str, Any], **filters: Any) -> dict[str, Any]:
    return audit_events(events, Filters(**filters)).as_json()


def test_the_contract() -> None:
    """The document of no events has every field that its readers know, and is strict JSON."""
    found = document()
    assert list(found)[:6] == ["version", "warmgraph", "generated", "filters", "source", "totals"]
    assert found["version"] == 1
    empty = "tiers reasons phases functions compiled_again bypasses misses skips skews over_time processes health"
    assert all(found[name] == [] for name in empty.split())
    assert (found["store"], found["never_hit"], found["never_hit_count"]) == (None, None, 0)
    assert found["totals"]["hit_rate"] is None
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_who_waited_for_whom() -> None:
    """Ranks that hit and waited for one that compiled: by job, function and whom, the longest first, in vain or not."""
    where = {"function": "step", "file": "/src/t.py", "line": 3, "tier": "disk"}
    first, second = "waited for rank 1 (pid 5 on h)", "waited for rank 2 (pid 6 on h), in vain"
    found = document(
        event("hit", **where, job="a", detail=first, seconds={"load": 0.1, "skew": 2.0}),
        event("hit", **where, job="a", detail=first, seconds={"load": 0.1, "skew": 3.0}),
        event("hit", **where, job="b", detail=second, seconds={"skew": 9.0}),
        event("hit", **where, job="a", seconds={"load": 0.1}),
    )
    rows = [(row["job"], row["waited"], row["count"], row["seconds"], row["longest"]) for row in found["skews"]]
    assert rows == [("b", second, 1, 9.0, 9.0), ("a", first, 2, 5.0, 3.0)]
    assert {row["function"] for row in found["skews"]} == {"step"}


def test_rows_say_what_happened() -> None:
    """Each kind of event is in its table, with its meaning and what to change."""
    where = {
        "function": "forward",
        "file": "/src/m.py",
        "line": 7,
        "rank": 3,
        "host": "h",
        "pid": 5,
        "started": NOW - 9,
    }
    found = document(
        event("hit", **where, tier="redis", key=KEY, bytes=1000, seconds_saved=20.5, seconds={"load": 0.5}),
        event("miss", **where, reason="absent", key=KEY, seconds={"compile": 2.0}, nearest=KEY, differs=["ambient"]),
        event("bypass", **where, reason="wrapped-call", detail="node scale", seconds={"compile": 1.0}),
        event("skipped", **where, reason="skip-op", detail="aten.nonzero"),
        event("failed", **where, reason="internal"),
        event("verified", **where, tier="redis"),
        event("sick", host="h", pid=5, tier="redis", detail="no answer"),
    )
    totals = {"hits": 1, "misses": 1, "bypasses": 1, "failed": 1, "verified": 1, "skipped": 1, "hit_rate": 0.5}
    totals |= {"seconds_saved": 20.5, "seconds_spent": 3.5, "compile_seconds": 3.0}
    assert found["totals"] == totals
    assert found["tiers"] == [{"tier": "redis", "hits": 1, "bytes": 1000, "seconds_saved": 20.5}]
    (miss,) = found["misses"]
    assert (miss["differs"], miss["key"], miss["seconds_spent"]) == (["ambient"], KEY, 2.0)
    assert "OMP_NUM_THREADS" in miss["advice"], "of the part that differs"
    (bypass,) = found["bypasses"]
    assert (bypass["detail"], bypass["line"], "user_cache_hash" in bypass["advice"]) == ("node scale", 7, True)
    assert [row["detail"] for row in found["skips"]] == ["aten.nonzero"]
    assert found["health"] == [{"tier": "redis", "detail": "no answer", "count": 1, "hosts": 1}]
    (process,) = [row for row in found["processes"] if row["events"]]
    assert (process["rank"], process["begin"], process["end"]) == (3, NOW - 2.0, NOW)
    assert process["seconds"] == {"load": 0.5, "compile": 3.0}
    assert process["events"][0]["phases"] in ([["load", 0.5]], [["compile", 2.0]])
    assert {row["phase"]: row["bypass"] for row in found["phases"]} == {"compile": 1.0, "load": 0.0}


def test_keys_compiled_again() -> None:
    """A key that two ranks compiled is told with both, in the order of time; one that one compiled is not."""
    again = [event("miss", key=KEY, reason="absent", time=NOW + n, rank=n, seconds={"compile": 1.0}) for n in (2, 1)]
    found = document(*again, event("miss", key=f"wg1{8:064x}", reason="absent"))
    (row,) = found["compiled_again"]
    assert (row["key"], row["count"], row["seconds"]) == (KEY, 2, 2.0)
    assert [who["rank"] for who in row["who"]] == [1, 2]


FILTERS = {
    "since": ({"since": NOW + 5}, [2]),
    "until": ({"until": NOW + 5}, [1]),
    "host": ({"hosts": ("b", "c")}, [2]),
    "rank": ({"ranks": (1,)}, [1]),
    "function": ({"functions": ("g",)}, [2]),
    "namespace": ({"namespaces": ("n",)}, [1]),
    "job": ({"jobs": ("42", "43")}, [1, 2]),
    "two": ({"hosts": ("b",), "ranks": (1,)}, []),
}


@pytest.mark.parametrize(("filters", "expected"), FILTERS.values(), ids=FILTERS.keys())
def test_filters(filters: dict[str, Any], expected: list[int]) -> None:
    """An event counts when it fits each filter; of several values of one, any will do."""
    one = event("miss", pid=1, host="a", rank=1, function="f", namespace="n", job="42", reason="absent")
    two = event("miss", pid=2, host="b", function="g", job="43", time=NOW + 9, reason="absent")
    assert sorted(row["pid"] for row in document(one, two, **filters)["processes"]) == expected


def test_never_hit_looks_at_everybodys_hits() -> None:
    """An entry that another host hit is no candidate for removal, whomever the audit is about."""
    store = [StoredEntry(f"wg1{n:064x}", "v0", "forward", 100 * n, NOW, 1.0) for n in range(1, 4)]
    events = [event("hit", key=store[0].key, host="a"), event("hit", key=store[1].key, host="b")]
    found = audit_events(events, Filters(hosts=("b",)), store=store).as_json()
    assert [row["key"] for row in found["never_hit"]] == [store[2].key]
    assert (found["never_hit_count"], found["store"]["entries"], found["store"]["bytes"]) == (1, 3, 600)
    assert found["store"]["by_function"] == [{"function": "forward", "entries": 3, "bytes": 600}]


def many(count: int) -> list[bytes]:
    """Lines of a busy fleet, alike in every run."""
    pick = random.Random(7)
    lines = []
    for number in range(count):
        outcome = pick.choices(["hit", "miss", "bypass"], [90, 7, 3])[0]
        function = f"f{pick.randrange(300)}"
        fields: dict[str, Any] = {"time": NOW + number, "host": f"gpu-{number % 16}", "pid": number // 200}
        fields |= {"key": f"wg1{pick.randrange(5000):064x}", "function": function, "seconds": {"hash": 0.125}}
        if outcome == "hit":
            fields |= {"tier": "disk", "seconds_saved": 4.0}
        else:
            fields |= {"reason": "absent" if outcome == "miss" else "unhashable", "seconds": {"compile": 2.0}}
        lines.append(encode_event(Event(Outcome(outcome), **fields)))
    return lines


def test_twenty_thousand_events(tmp_path: Path) -> None:
    """The sums over a large journal are those of a plain count; the document stays small."""
    lines = many(20_000)
    (tmp_path / "2026-09-21.fleet.jsonl").write_bytes(b"".join(lines))
    found = audit_events(read(tmp_path)).as_json()
    plain = [json.loads(line) for line in lines]
    kinds = {kind: sum(one["outcome"] == kind for one in plain) for kind in ("hit", "miss", "bypass")}
    assert found["totals"]["hits"] == kinds["hit"]
    assert found["totals"]["misses"] == kinds["miss"]
    assert found["totals"]["bypasses"] == kinds["bypass"]
    assert found["totals"]["seconds_spent"] == kinds["hit"] * 0.125 + (kinds["miss"] + kinds["bypass"]) * 2
    assert len(found["functions"]) + found["functions_left_out"] == 300
    compiled = Counter(one["key"] for one in plain if one["outcome"] == "miss")
    several = [key for key, count in compiled.items() if count > 1]
    assert len(found["compiled_again"]) + found["compiled_again_left_out"] == len(several)
    assert sum(row["hits"] for row in found["over_time"]) == kinds["hit"]
    assert len(found["over_time"]) <= MAX_BUCKETS
    assert len(found["processes"]) == 60
    assert all(row["events"] for row in found["processes"])
    assert len(json.dumps(found)) < 2**20


def test_tables_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal in which everything is different fills no table without end, and no sum misses an event."""
    auditor = Auditor()
    for table, bound in (("functions", 50), ("misses", 50), ("processes", 50), ("keys", 50), ("hosts", 10)):
        monkeypatch.setattr(getattr(auditor, table), "_bound", bound)
    monkeypatch.setattr(counted, "_DETAILED", 20)
    for number in range(500):
        fields = {"host": f"h{number}", "pid": number, "function": f"f{number}", "key": f"wg1{number:064x}"}
        auditor.add(event("miss", reason=f"r{number}", detail="x" * 50_000, seconds={f"p{number}": 1.0}, **fields))
    found = auditor.document().as_json()
    assert found["totals"]["misses"] == 500
    assert sum(row["count"] for row in found["reasons"]) == 500
    assert found["totals"]["seconds_spent"] == 500.0
    assert (found["functions_left_out"], found["misses_left_out"], found["keys_left_out"]) == (450, 450, 450)
    assert len(found["reasons"]) <= 100
    assert len(found["phases"]) <= 40
    assert max(len(row["detail"]) for row in found["misses"]) == counted.DETAIL
    assert sum(row.steps is not None for row in auditor.processes.values()) <= 20


def test_a_broken_clock_presses_nobody_together() -> None:
    """Events of the year 33658 or of 1970 are counted, and stretch no time axis."""
    times = [NOW, NOW + 60, 1e12, -1e12, 0.0]
    found = document(*(event("hit", time=when) for when in times))
    assert found["totals"]["hits"] == 5
    assert (found["source"]["first"], found["source"]["last"]) == (NOW, NOW + 60)
    assert found["over_time"][-1]["to"] - found["over_time"][0]["from"] <= 120


def test_buckets_grow_and_lose_nothing() -> None:
    """However events come, in any order, at most so many buckets of one length hold them all."""
    for span in (10.0, 1e4, 1e6, 1e8):
        timeline, pick = Timeline(0.0, 1e12), random.Random(3)
        for _ in range(500):
            bucket = timeline.at(NOW + pick.random() * span)
            assert bucket is not None
            bucket.add("hit", 0.5, 1.0)
        buckets = list(timeline.buckets())
        assert len(buckets) <= MAX_BUCKETS
        assert len({end - begin for begin, end, _ in buckets}) == 1
        assert sum(sums.count("hit") for _, _, sums in buckets) == 500
        assert sum(sums.saved for _, _, sums in buckets) == 500.0


HOSTILE = [
    b"<script>alert(1)</script>",
    b'{"outcome":"hit"}',
    b"\x1b[2J\x1b]0;owned\x07",
    b"\xff\xfe",
    b'{"time":NaN}',
    b'"' + b"x" * 10 * 2**20 + b'"',
]
NAME = "\x1b[2J<img src=x onerror=alert(1)>[red]\u202eevil\r\n"


def hostile(folder: Path) -> None:
    """Torn, foreign and huge lines among events whose every text is hostile."""
    texts = dict.fromkeys(("host", "function", "file", "detail", "reason", "tier", "nearest", "namespace", "job"), NAME)
    good = [encode_event(Event(outcome, time=NOW, **texts, differs=[NAME], seconds={NAME: 1.0})) for outcome in Outcome]  # type: ignore[arg-type]
    folder.mkdir()
    mixed = b"".join(one + line + b"\n" for one, line in zip(good, HOSTILE, strict=False))
    rest = b"".join(good[len(HOSTILE) :])
    (folder / "2026-09-21.h.jsonl").write_bytes(mixed + rest + good[0][:50] + b"\n")


def test_hostile_journals_are_read_around(run: Any, tmp_path: Path) -> None:
    """What is no event is counted; what an event says reaches the terminal as text alone, and JSON escaped."""
    hostile(tmp_path / "journal")
    ran = run("audit", "--dir", tmp_path / "journal")
    assert ran.status == 0
    assert all(line.isprintable() for line in (ran.out + ran.err).split("\n"))
    assert "[red]" in ran.out, "markup is shown as it is written"
    assert f"{len(HOSTILE) + 1} lines" in ran.err
    as_json = run("audit", "--dir", tmp_path / "journal", "--json")
    assert as_json.out.isascii()
    assert as_json.json["functions"][0]["function"] == NAME
    assert (as_json.json["source"]["events"], as_json.json["source"]["skipped"]) == (len(Outcome), len(HOSTILE) + 1)
    for line in summary_lines(audit_events(read(tmp_path / "journal"))):
        assert line.isprintable()


def test_a_path_that_is_no_unicode_is_an_event(run: Any, journaled: Any) -> None:
    """The fast parser refuses such a text, and a line is not lost for it."""
    journaled("hit", file="/home/caf\udce9/model.py")
    found = run("audit", "--json").json
    assert (found["source"]["events"], found["source"]["skipped"]) == (1, 0)
    assert found["functions"][0]["file"] == "/home/caf\udce9/model.py"


def test_the_store_is_joined(run: Any, publish: Any, journaled: Any) -> None:
    """Entries of this host's folder that nobody hit are listed, and what lies there by function."""
    keys = [publish(number) for number in (1, 2)]
    journaled("hit", key=keys[0])
    found = run("audit", "--json").json
    assert [row["key"] for row in found["never_hit"]] == [keys[1]]
    assert found["store"]["by_function"][0]["function"] == "forward"
    assert keys[1][:14] in run("audit").out


@pytest.mark.parametrize(
    ("differs", "advised"),
    [(None, True), (["graph", "machine"], True), (["inputs", "machine"], True), (["graph"], False)],
)
def test_what_each_device_of_a_host_compiled_is_told(differs: list[str] | None, advised: bool) -> None:
    """Also where all begin at once, and nothing resembles it yet. Code that was edited is not their devices' fault."""
    nearest = None if differs is None else KEY
    where = {"reason": Reason.ABSENT.value, "function": "step", "nearest": nearest, "differs": differs}
    found = document(*(event("miss", **where, detail=f"{ONE_DEVICE}cuda:{index}") for index in range(3)))
    assert {row["detail"] for row in found["misses"]} == {f"{ONE_DEVICE}cuda:{index}" for index in range(3)}
    assert all(("TORCH_COMPILE_ON_ONE_RANK" in (row["advice"] or "")) == advised for row in found["misses"])
    (other,) = document(event("miss", **where))["misses"]
    assert "TORCH_COMPILE_ON_ONE_RANK" not in (other["advice"] or "")


RATES = [("0.5", 0), ("0.51", 1), ("1", 1), ("0", 0)]


@pytest.mark.parametrize(("rate", "status"), RATES)
def test_fail_under(run: Any, journaled: Any, rate: str, status: int) -> None:
    """A hit rate below what was asked for is exit status 1, and stderr says why."""
    journaled("hit")
    journaled("miss", reason=Reason.ABSENT.value)
    journaled("bypass", reason="wrapped-call", detail="node scale", function="forward", file="/src/m.py", line=7)
    ran = run("audit", "--json", "--fail-under", rate)
    assert ran.status == status
    assert ran.json["totals"]["hit_rate"] == 0.5
    if status:
        assert all(text in ran.err for text in ("50.0 %", "absent 1", "/src/m.py:7", "user_cache_hash"))
    else:
        assert ran.err == ""


def test_failures_and_wrong_hits_do_not_pass(run: Any, journaled: Any) -> None:
    """What failed was compiled like a miss; and one hit that gave another result than a compile is one too many."""
    journaled("hit")
    assert run("audit", "--fail-under", "1").status == 0
    journaled("verified", reason=Reason.DIFFERS.value)
    ran = run("audit", "--fail-under", "0")
    assert (ran.status, "ANOTHER RESULT" in ran.err) == (1, True)
    journaled("failed", reason=Reason.INTERNAL.value)
    assert "the hit rate is 50.0 %, under 90 %, 1 failure counted as misses" in run("audit", "--fail-under", ".9").err


def test_fail_under_without_lookups(run: Any) -> None:
    """Where nothing was looked up nothing is well: a pipeline that forgot to run must not pass."""
    ran = run("audit", "--fail-under", "0.9")
    assert ran.status == 1
    assert "no lookups" in ran.err


WRONG = [["--fleet"], ["--fleet", "--dir", "."], ["--namespace", "../x"], ["--since", "soon"], ["--fail-under", "95"]]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_options_exit_2(run: Any, arguments: list[str]) -> None:
    """What cannot be is refused in one line, and nothing is read."""
    ran = run("audit", *arguments)
    assert (ran.status, ran.out) == (2, "")


def test_another_namespace(run: Any, journaled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--namespace` reads that one's journal; events that do not say are of the one where they lie."""
    journaled("hit")
    assert run("audit", "--namespace", "default", "--json").json["totals"]["hits"] == 1
    assert run("audit", "--namespace", "nightly", "--json").json["totals"]["hits"] == 0


def test_a_page_is_written_whole(run: Any, journaled: Any, tmp_path: Path) -> None:
    """`--html` writes one file and leaves nothing else behind."""
    journaled("hit")
    place = tmp_path / "pages" / "report.html"
    place.parent.mkdir()
    assert run("audit", "--html", place).status == 0
    assert [path.name for path in place.parent.iterdir()] == ["report.html"]
    assert place.read_text("utf-8").startswith("<!")


@contextlib.contextmanager
def _top(journal: Path, *, terminal: bool) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process, and where to read what it shows."""
    master, slave = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "warmgraph", "top", "--dir", str(journal), "--interval", "0.2"],
        stdin=subprocess.DEVNULL,
        stdout=slave if terminal else subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    ) as process:
        os.close(slave)
        try:
            yield process, master if process.stdout is None else process.stdout.fileno()
        finally:
            process.kill()
            os.close(master)


def _read_until(source: int, text: bytes) -> bytes:
    shown, end = b"", time.monotonic() + 60
    while text not in shown:
        assert time.monotonic() < end, shown[-2000:]
        if select.select([source], [], [], 1)[0]:
            shown += os.read(source, 65_536)
    return shown


@pytest.mark.parametrize("terminal", [True, False], ids=["terminal", "pipe"])
def test_top_follows_the_journal_until_it_is_stopped(tmp_path: Path, terminal: bool) -> None:
    """New events are in the next refresh, hostile names are text, and Ctrl-C ends it with status 130."""
    hostile(tmp_path / "journal")
    with _top(tmp_path / "journal", terminal=terminal) as (process, source):
        shown = _read_until(source, b"50.0 % of 2 ")
        with (tmp_path / "journal" / "2026-09-21.h.jsonl").open("ab") as file:
            file.write(encode_event(Event(Outcome.HIT, time=NOW)) * 3)
        shown += _read_until(source, b"80.0 % of 5 ")
        process.send_signal(signal.SIGINT)
        if terminal:  # who does not read the terminal holds up what is written to it
            shown += _read_until(source, b"\x1b[?1049l")
        _, err = process.communicate(timeout=30)
        assert process.returncode == 130
    assert b"Traceback" not in err
    assert b"\x1b]0;owned" not in shown
    if not terminal:
        assert all(line.isprintable() for line in shown.decode().split("\n"))
