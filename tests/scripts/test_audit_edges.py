"""audit at its edges: odd numbers, full tables, several namespaces, files that are none, wrong hits. Not its counts."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import Event, Outcome, Reason, decode_event
from warmgraph.cache.journal.events import encode_event
from warmgraph.scripts.audit import Auditor, audit_events, summary_lines
from warmgraph.scripts.output import percent

NOW = 1_790_000_000.0
KEY = f"wg1{7:064x}"


def event(outcome: str = "hit", **fields: Any) -> dict[str, Any]:
    """An event as it is read."""
    found = decode_event(encode_event(Event(Outcome(outcome), **fields)))
    assert found is not None
    return found


def test_what_is_left_out_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process, or a function, beyond a table's bound is one row that is missing, however many events it had."""
    auditor = Auditor()
    for table in (auditor.processes, auditor.functions):
        monkeypatch.setattr(table, "_bound", 2)
    for number in range(5):
        for _ in range(10):
            auditor.add(event(pid=number, function=f"f{number}"))
    found = auditor.document()
    assert (found.source.processes, found.functions_left_out, found.totals.hits) == (5, 3, 50)


@pytest.mark.parametrize("arguments", [["audit", "--fail-under", "nan"], ["top", "--interval", "nan"]], ids=" ".join)
def test_not_a_number_is_no_rate_and_no_interval(run: Any, arguments: list[str]) -> None:
    """It lies within all bounds, as far as comparisons go."""
    ran = run(*arguments)
    assert (ran.status, ran.out) == (2, "")
    assert "nan" in ran.err


def test_the_rate_that_was_asked_for_is_told_as_it_was_given(run: Any, journaled: Any) -> None:
    """Rounded, `99.95` would be the very rate that it is said to be above."""
    journaled("miss", reason=Reason.ABSENT.value)
    assert "under 99.95 %" in run("audit", "--fail-under", "0.9995").err


def test_a_share_is_all_only_when_it_is() -> None:
    """In `stats` as in `audit`."""
    assert (percent(0.9996), percent(1.0), percent(0.75)) == ("99.9 %", "100 %", "75.0 %")


def test_an_entry_counts_in_each_namespace(run: Any, publish: Any) -> None:
    """The same graph is stored once per namespace, and takes its room in each."""
    publish()
    one = run("audit", "--json").json["store"]
    publish(namespace="nightly")
    named = ("--namespace", "default", "--namespace", "nightly", "--namespace", "default")
    both = run("audit", *named, "--json").json["store"]
    assert (both["entries"], both["bytes"]) == (2, 2 * one["bytes"])


def test_a_wrong_hit_is_in_the_first_line(run: Any, journaled: Any) -> None:
    """Whoever reads one line of an audit reads that a result was wrong; hits that could not be checked are named."""
    for reason in (None, None, Reason.NOT_COMPARABLE.value, Reason.DIFFERS.value):
        journaled("verified", reason=reason)
    shown = run("audit").out
    assert "1 gave ANOTHER RESULT" in shown.splitlines()[0]
    assert "4, of which 1 differs, 1 not-comparable" in shown
    assert "ANOTHER" not in summary_lines(audit_events([event("verified")]))[0]


def test_who_compiled_a_key_first_is_told_however_it_is_read() -> None:
    """A folder is read host by host: the first is not always met first."""
    events = [event("miss", key=KEY, reason="absent", host="a", pid=pid, time=NOW + 100 + pid) for pid in range(30)]
    events.append(event("miss", key=KEY, reason="absent", host="b", pid=1, time=NOW))
    (forwards,), (backwards,) = (audit_events(order).compiled_again for order in (events, events[::-1]))
    assert forwards.who == backwards.who
    assert (forwards.who[0].host, forwards.count, len(forwards.who)) == ("b", 31, 20)


# -- files that are written


@pytest.mark.parametrize("command", ["html", "picture"])
def test_a_pipe_is_written_to_and_not_replaced(run: Any, publish: Any, tmp_path: Path, command: str) -> None:
    """`--html /dev/stdout` and `-o /dev/null`: run by root, the device would be gone for everyone."""
    key, place = publish(texts={"graph": "%0 placeholder"}), tmp_path / "pipe"
    os.mkfifo(place)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(place.read_bytes()))
    reader.start()
    arguments = ["audit", "--html", place] if command == "html" else ["show", key, "--dot", "-o", place]
    assert run(*arguments).status == 0
    reader.join(10)
    assert place.is_fifo()
    assert read[0].startswith(b"<!" if command == "html" else b"digraph")


def test_a_link_stays_one(run: Any, tmp_path: Path) -> None:
    """What it points to is written."""
    link = tmp_path / "report.html"
    link.symlink_to("elsewhere.html")
    assert run("audit", "--html", link).status == 0
    assert link.is_symlink()
    assert (tmp_path / "elsewhere.html").read_text("utf-8").startswith("<!")


def test_a_file_that_cannot_be_written_is_named(run: Any, tmp_path: Path) -> None:
    """By the name that was given, with exit status 1."""
    ran = run("audit", "--html", tmp_path / "nowhere" / "report.html")
    assert ran.status == 1
    assert f"{tmp_path}/nowhere/report.html cannot be written: No such file" in ran.err


# -- what explain makes of it

NEAREST = ["\x1b[2J\x1b]0;owned\x07", "../../../etc/passwd", "wg1\0", "", "x" * 1000]


@pytest.mark.parametrize("name", NEAREST)
def test_explain_reads_around_what_is_no_key(run: Any, publish: Any, journaled: Any, name: str) -> None:
    """A journal may call anything a key: no traceback, no file outside of the store, no escape on the terminal."""
    publish()
    journaled("miss", reason="absent", key=name, nearest=f"{name} ", differs=[name])
    for command in (["explain"], ["explain", "--json"], ["explain", "--all"], ["lint"]):
        ran = run(*command)
        assert ran.status == 0, ran.err
        assert all(line.isprintable() for line in (ran.out + ran.err).split("\n")), command
