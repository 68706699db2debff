"""journal: its JSON, its lines, its filters, and journals that are torn or foreign."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

FIELDS = [
    *("time", "host", "pid", "rank", "outcome", "reason", "tier", "key", "parts"),
    *("function", "file", "line", "nodes", "bytes", "seconds_saved", "seconds", "detail"),
    *("nearest", "differs", "started", "backend", "namespace", "job"),
]
KEY = f"wg1{7:064x}"


def test_json_is_one_object_per_line(run: Any, journaled: Any) -> None:
    """`journal --json` prints each event on a line of its own, with exactly its fields."""
    hit = {"tier": "disk", "key": KEY, "parts": {"graph": "a" * 64}, "function": "forward", "file": "/src/m.py"}
    hit |= {"line": 7, "nodes": 12, "bytes": 1000, "seconds_saved": 20.5, "rank": 3, "host": "here", "pid": 41}
    journaled("hit", **hit, seconds={"hash": 0.01, "fetch": 0.002, "load": 0.01})
    for outcome in ("miss", "bypass", "failed"):
        journaled(outcome, reason="absent", seconds={"compile": 1.0, "publish": 0.1})
    ran = run("journal", "--json")
    assert ran.status == 0
    assert [list(event) for event in ran.lines] == [FIELDS] * 4
    assert [event["outcome"] for event in ran.lines] == ["hit", "miss", "bypass", "failed"]
    first = ran.lines[0]
    assert {name: first[name] for name in hit} == hit
    assert first["seconds"] == {"hash": 0.01, "fetch": 0.002, "load": 0.01}
    assert first["reason"] is None
    assert abs(first["time"] - time.time()) < 3600


def test_lines_for_people(run: Any, journaled: Any) -> None:
    """A line says when, where, what came of it, what it cost and saved, and why."""
    journaled("hit", key=KEY, function="forward", line=7, seconds={"load": 0.028}, seconds_saved=20.5, tier="disk")
    journaled("bypass", reason="wrapped-call", detail="give it user_cache_hash", rank=2)
    first, second = run("journal").out.splitlines()
    assert time.strftime("%Y-") in first
    assert all(text in first for text in ("hit", "forward:7", KEY[:14], "28 ms, saved 20.5 s", "from disk"))
    assert all(text in second for text in ("bypass", "rank 2", "wrapped-call: give it user_cache_hash"))


def test_since_leaves_out_what_is_older(run: Any, journaled: Any) -> None:
    """`--since 1h` has the events of the last hour; a length beyond all clocks has all of them."""
    journaled("miss", pid=1, time=time.time() - 7200)
    journaled("miss", pid=2)
    assert [event["pid"] for event in run("journal", "--since", "1h", "--json").lines] == [2]
    assert [event["pid"] for event in run("journal", "--since", "999999999d", "--json").lines] == [1, 2]


def test_since_that_leaves_nothing_says_so(run: Any, journaled: Any) -> None:
    """When no event is young enough stderr says so, and the status is 0."""
    journaled("miss", time=time.time() - 7200)
    ran = run("journal", "--since", "1m")
    assert (ran.status, ran.out) == (0, "")
    assert "no events that young" in ran.err


@pytest.mark.parametrize("value", ["", "6", "h", "6 h", "-6h", "6y", "٣h", "9" * 5000 + "h"])
def test_a_wrong_since_exits_2(run: Any, value: str) -> None:
    """What is no length of time exits 2 and says what one looks like."""
    ran = run("journal", f"--since={value}")
    assert (ran.status, ran.out) == (2, "")
    assert "for example 6h" in ran.err


def test_an_empty_journal_says_what_to_do(run: Any, root: Path) -> None:
    """Without events stdout is empty, and stderr says where they would be."""
    for arguments in ([], ["--json"]):
        ran = run("journal", *arguments)
        assert (ran.status, ran.out) == (0, "")
        assert str(root / "journal") in ran.err


def test_dir_reads_a_folder_of_journal_files(run: Any, journaled: Any, root: Path, tmp_path: Path) -> None:
    """`--dir` reads journal files that were copied from elsewhere."""
    journaled("hit", pid=9)
    (root / "journal").rename(tmp_path / "copied")
    assert [event["pid"] for event in run("journal", "--dir", tmp_path / "copied", "--json").lines] == [9]
    assert run("journal", "--json").out == ""


def test_torn_and_foreign_lines_are_left_out(run: Any, journaled: Any, files: Any) -> None:
    """Lines that are no events are counted on stderr; the others are printed."""
    journaled("hit", pid=1)
    (path,) = files("journal")
    good = path.read_bytes()
    path.write_bytes(b'{"torn": \n\xff\xfe\n[]\n' + good + good[:40])
    ran = run("journal", "--json")
    assert ran.status == 0
    assert [event["pid"] for event in ran.lines] == [1]
    assert "4 lines" in ran.err


def test_fields_of_another_version_are_left_out(run: Any, journaled: Any, files: Any) -> None:
    """An event with more fields than this version knows is printed with those it knows, as strict JSON."""
    journaled("hit")
    (path,) = files("journal")
    event = json.loads(path.read_text()) | {"extra": float("nan")}
    path.write_text(json.dumps(event) + "\n")
    assert "NaN" not in run("journal", "--json").out
    assert list(run("journal", "--json").lines[0]) == FIELDS


def test_a_time_beyond_all_clocks_is_printed(run: Any, journaled: Any, files: Any) -> None:
    """An event whose time no calendar can name is a line like any other."""
    journaled("hit", function="forward")
    (path,) = files("journal")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"time": 1e14}) + "\n")
    ran = run("journal")
    assert ran.status == 0
    assert "forward" in ran.out
