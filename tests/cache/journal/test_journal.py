"""The journal: one line per event, hostile lines passed over and counted, sums."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from warmgraph.cache import Counts, Event, Journal, Outcome, Reason, Tally, read, record, stats, summarise
from warmgraph.cache.journal.events import decode_event, encode_event
from warmgraph.cache.stores.disk.files import host_name

FULL = Event(
    Outcome.MISS,
    time=1_700_000_000.5,
    host="h",
    pid=7,
    rank=3,
    reason=Reason.GUARDS,
    tier="disk",
    key="wg1" + "0" * 64,
    parts={"graph": "a" * 64},
    function="forward",
    file="/home/\udcff/model.py",
    line=12,
    nodes=100,
    bytes=2**40,
    seconds_saved=1.5,
    seconds={"hash": 0.01, "fetch": 1},
    detail='a "quoted"\nline\u2028',
    nearest="wg1" + "1" * 64,
    differs=["compiler", "inputs"],
    started=1_699_999_999.5,
    backend="warmgraph",
    namespace="default",
    job="42",
)
# Fields of later versions: an older one's lines lack them.
LATER = ("nearest", "differs", "started", "backend", "namespace", "job", "signer")


def test_old_days_go_when_a_day_begins(tmp_path: Path) -> None:
    """Also where nothing is ever published: a fleet with a warm folder writes a file a day and host."""
    old, recent, foreign = (tmp_path / name for name in ("2023-01-01.h.jsonl", "2023-01-02.h.jsonl", "notes.jsonl"))
    for path, days in ((old, 31), (recent, 29), (foreign, 31)):
        path.write_text("{}\n")
        os.utime(path, (time.time() - days * 86400,) * 2)
    assert Journal(tmp_path).append(FULL)
    assert (old.exists(), recent.exists(), foreign.exists()) == (False, True, True)


def test_every_field_comes_back(tmp_path: Path) -> None:
    """An event that was appended is read back field by field."""
    assert Journal(tmp_path).append(FULL)
    (found,) = read(tmp_path)
    for item in fields(Event):
        assert found[item.name] == getattr(FULL, item.name), item.name
    assert set(found) == {item.name for item in fields(Event)}
    assert type(found["reason"]) is str


def test_one_file_per_day_and_host(tmp_path: Path) -> None:
    """Events are filed under their own UTC day and this host, one line each, private."""
    journal = Journal(tmp_path / "new" / "journal")
    for day in (0, 0, 1):
        assert journal.append(replace(FULL, time=86_400.0 * (19_000 + day)))
    paths = sorted((tmp_path / "new" / "journal").iterdir())
    assert [path.name for path in paths] == [f"2022-01-0{day}.{host_name()}.jsonl" for day in (8, 9)]
    assert [path.read_bytes().count(b"\n") for path in paths] == [2, 1]
    assert paths[0].stat().st_mode & 0o777 == 0o600
    assert paths[0].parent.stat().st_mode & 0o777 == 0o700


def test_event_fills_itself_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time, host, pid and rank are those of here and now; a rank that is no number is none."""
    before = time.time()
    monkeypatch.setenv("RANK", "5")
    event = Event(Outcome.HIT)
    assert before <= event.time <= time.time()
    assert (event.host, event.pid, event.rank) == (host_name(), os.getpid(), 5)
    for text in ("", "-1", "x", "1e3", "\u0663"):
        monkeypatch.setenv("RANK", text)
        assert Event(Outcome.HIT).rank is None


WRONG = {
    "nan": replace(FULL, seconds_saved=math.nan),
    "infinite": replace(FULL, seconds={"hash": math.inf}),
    "type": replace(FULL, line="12"),  # type: ignore[arg-type]
    "bytes": replace(FULL, detail=b"x"),  # type: ignore[arg-type]
    "too long": replace(FULL, detail="x" * 2**20),
    "time": replace(FULL, time=1e30),
}


@pytest.mark.parametrize("event", WRONG.values(), ids=WRONG.keys())
def test_unwritable_event_is_refused(tmp_path: Path, event: Event, warnings_of: Callable[[], list[str]]) -> None:
    """An event that could not be read back is not written: False, one warning, no exception."""
    journal = Journal(tmp_path)
    assert not journal.append(event)
    assert not journal.append(event)
    assert len(warnings_of()) == 1
    assert list(tmp_path.iterdir()) == []
    assert journal.append(FULL)


def test_unwritable_folder(tmp_path: Path, warnings_of: Callable[[], list[str]]) -> None:
    """A folder that cannot be written costs one warning and no exception."""
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / "file" / "journal")
    assert [journal.append(FULL) for _ in range(3)] == [False] * 3
    assert len(warnings_of()) == 1


def test_link_is_not_followed(tmp_path: Path) -> None:
    """A link under the journal's name is not written through."""
    (tmp_path / "journal").mkdir()
    target = tmp_path / "precious"
    target.write_text("")
    assert Journal(tmp_path / "journal").append(FULL)
    (path,) = (tmp_path / "journal").iterdir()
    path.unlink()
    path.symlink_to(target)
    assert not Journal(tmp_path / "journal").append(FULL)
    assert target.read_text() == ""


def test_full_disk(tmp_path: Path, mounted: Callable[[str], Path]) -> None:
    """On a full disk append is False; what was written before is read, the torn line is not."""
    folder = mounted("size=64k,mode=700")
    journal = Journal(folder / "journal")
    event = replace(FULL, detail="x" * 3000)
    written = [journal.append(event) for _ in range(40)]
    assert True in written
    assert not written[-1]
    found = list(read(folder / "journal"))
    assert len(found) == sum(written)


HOSTILE = [
    b"",
    b"not json",
    b"{",
    b"[]",
    b"null",
    b"{}",
    b'{"outcome":"hit"}',
    b"\xff\xfe\x00",
    b"\0" * 100,
    b"[" * 100_000,
    b"9" * 10_000,
    b'{"time":NaN}',
    b'"' + b"x" * 3 * 2**20 + b'"',
]


def test_hostile_lines_are_passed_over(tmp_path: Path) -> None:
    """Torn, foreign, oversize and nonsensical lines between good ones are skipped and counted."""
    good = encode_event(FULL)
    path = tmp_path / "2023-11-14.host.jsonl"
    path.write_bytes(b"".join(good + line + b"\n" for line in HOSTILE) + good + good[:50])
    reading = read(tmp_path)
    assert len(list(reading)) == len(HOSTILE) + 1
    assert reading.skipped == len(HOSTILE)  # the empty line is not counted, the torn one at the end is


@pytest.mark.parametrize("change", [{"seconds_saved": -1.0}, {"seconds": {"load": 1.0, "hash": -1e9}}])
def test_no_duration_is_negative(change: dict[str, Any]) -> None:
    """One such line would take away from every sum what others saved: it is no event, read or written."""
    assert decode_event(json.dumps(json.loads(encode_event(FULL)) | change).encode()) is None
    with pytest.raises(ValueError, match="not an event"):
        encode_event(replace(FULL, **change))


@pytest.mark.parametrize("name", [item.name for item in fields(Event)])
def test_wrongly_typed_field_is_skipped(name: str) -> None:
    """No field of the first version may be missing, none may hold an object of a kind it never has."""
    plain = json.loads(encode_event(FULL))
    for value in (["x"], {"x": []}, True, -1.5, 2**70, 10**400, 1e300, {"x": 10**400}, "\0"):
        changed = json.dumps(plain | {name: value}).encode()
        found = decode_event(changed)
        assert found is None or type(found[name]) in (str, float, int, dict) or (name == "differs" and value == ["x"])
    del plain[name]
    found = decode_event(json.dumps(plain).encode())
    assert found is None or (name in LATER and found[name] is None)


def test_unknown_fields_are_kept() -> None:
    """A line of a later version, with more fields, is an event too."""
    plain = json.loads(encode_event(FULL)) | {"lease": "x"}
    found = decode_event(json.dumps(plain).encode())
    assert found is not None
    assert found["lease"] == "x"


@given(st.binary(max_size=200))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arbitrary_bytes_never_raise(tmp_path: Path, data: bytes) -> None:
    """A file of arbitrary bytes is read to its end."""
    (tmp_path / "2023-11-14.host.jsonl").write_bytes(data)
    reading = read(tmp_path)
    assert list(reading) == []
    assert reading.skipped == sum(bool(line.strip()) for line in data.split(b"\n"))


def test_foreign_files_are_not_read(tmp_path: Path) -> None:
    """Only regular files with a journal's name are read; a missing folder is an empty journal."""
    for name in ("notes.jsonl", "2023-11-14.host.jsonl.bak", "2023-11-14..jsonl", ".2023-11-14.host.jsonl"):
        (tmp_path / name).write_bytes(encode_event(FULL))
    (tmp_path / "2023-11-15.host.jsonl").mkdir()
    os.mkfifo(tmp_path / "2023-11-16.host.jsonl")
    assert list(read(tmp_path)) == []
    assert list(read(tmp_path / "nowhere")) == []


def test_since(tmp_path: Path) -> None:
    """Only events from a moment on are given, also on the day of that moment."""
    journal = Journal(tmp_path)
    start = 86_400.0 * 19_000
    for hours in range(0, 96, 6):
        assert journal.append(replace(FULL, time=start + hours * 3600))
    since = start + 30 * 3600
    assert [event["time"] for event in read(tmp_path, since)] == [start + h * 3600 for h in range(30, 96, 6)]


def test_many_processes_append(tmp_path: Path) -> None:
    """Lines that processes append at once stay whole."""
    code = (
        "import sys; from pathlib import Path; from warmgraph.cache import *\n"
        "journal = Journal(Path(sys.argv[1]))\n"
        "for number in range(200): assert journal.append(Event(Outcome.HIT, nodes=number, detail='x' * number * 20))"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(4)]
    assert [process.wait(60) for process in processes] == [0] * 4
    reading = read(tmp_path)
    assert sorted(event["nodes"] for event in reading) == sorted(list(range(200)) * 4)
    assert reading.skipped == 0


EVENTS = [
    Event(Outcome.HIT, tier="memory", seconds_saved=2.0),
    Event(Outcome.HIT, tier="disk", seconds_saved=1.5),
    Event(Outcome.HIT, tier="disk"),
    Event(Outcome.MISS, reason=Reason.ABSENT),
    Event(Outcome.MISS, reason=Reason.GUARDS, tier="disk"),
    Event(Outcome.BYPASS, reason="wrapped-call"),
    Event(Outcome.FAILED, reason=Reason.INTERNAL),
]
SUMS = Counts(
    hits=3,
    misses=2,
    bypasses=1,
    failures=1,
    seconds_saved=3.5,
    tiers={"memory": 1, "disk": 2},
    reasons={"absent": 1, "guards": 1, "wrapped-call": 1, "internal": 1},
)


def test_sums_are_the_same_live_and_read_back(tmp_path: Path) -> None:
    """A process's own tally and the sums over its journal agree."""
    tally, journal = Tally(), Journal(tmp_path)
    for event in EVENTS:
        tally.add(event)
        assert journal.append(event)
    assert tally.counts() == SUMS
    assert summarise(read(tmp_path)) == SUMS


def test_stats_counts_what_is_recorded(tmp_path: Path) -> None:
    """`stats` is the sums of this process, also of what no journal could take."""
    (tmp_path / "file").write_text("")
    before: dict[str, Any] = stats()
    for folder in (tmp_path / "journal", tmp_path / "file" / "journal"):
        record(Journal(folder), Event(Outcome.HIT, tier="disk", seconds_saved=1.0))
    after = stats()
    assert after["hits"] - before["hits"] == 2
    assert after["seconds_saved"] - before["seconds_saved"] == pytest.approx(2.0)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_child_counts_from_zero() -> None:
    """A forked child's tally is its own."""
    tally = Tally()
    tally.add(EVENTS[0])
    pid = os.fork()
    if pid == 0:
        os._exit(0 if tally.counts() == Counts() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert tally.counts().hits == 1
