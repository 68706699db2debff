"""explain, diff and lint on journals and stores made for the purpose: what they say, and what they make of little."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from warmgraph.cache import (
    DiskStore,
    Entry,
    Role,
    addresses,
    configure,
    flush,
    open_cache,
    store_root,
)
from warmgraph.cache import settings as current
from warmgraph.cache.stores.similar import relative_of

NOW = time.time()
PLACE = {"function": "forward", "file": "/src/model.py", "line": 7}
TEXTS = {
    "graph": "%0 placeholder\n%1 builtin _operator.mul (%0, 3) {}",
    "inputs": "p0 Tensor torch.float32 cpu size [8, 4] stride [4, 1] offset 0 leaf",
    "symbols": "",
    "compiler": "inductor.max_autotune: False\ninductor.cpp.threads: -1",
    "toolchain": 'torch: "2.13.0"',
}


def digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode()).hexdigest()


def parts_of(texts: dict[str, str]) -> dict[str, str]:
    return {name: digest(f"{name}\n{text}") for name, text in texts.items()}


def key_of(texts: dict[str, str]) -> str:
    return f"wg1{digest(json.dumps(texts))}"


@pytest.fixture
def put(root: Path) -> Any:
    """Publishes an entry with real texts; returns its key."""

    def call(guards: str | None = None, variant: str = "v0", age: float = 0.0, **changes: str) -> str:
        import msgpack

        texts = TEXTS | changes
        facts = PLACE | {"created": time.time() - age, "compile_seconds": 1.0, "host": "here", "torch": "2.13.0"}
        draft = Entry(key_of(texts), variant, parts_of(texts), guards, {}, (), facts)
        cache = open_cache(configure(dir=current().dir))
        cache.publish(draft, [(Role.PART_TEXTS, "parts", bytes(msgpack.packb(texts)))])
        assert flush()
        assert cache.health() == {}
        return draft.key

    return call


@pytest.fixture
def missed(journaled: Any) -> Any:
    """Journals a miss of these texts; returns its key."""

    def call(reason: str = "absent", age: float = 0.0, outcome: str = "miss", **fields: Any) -> str:
        texts = TEXTS | fields.pop("texts", {})
        fields = PLACE | {"seconds": {"compile": 0.001}, "host": "here", "pid": 41, "started": NOW} | fields
        journaled(outcome, reason=reason, key=key_of(texts), parts=parts_of(texts), time=time.time() - age, **fields)
        return key_of(texts)

    return call


AUTOTUNE = {"compiler": TEXTS["compiler"].replace("False", "True")}
WIDER = {"inputs": TEXTS["inputs"].replace("[8, 4]", "[16, 4]")}


# -- explain


def test_a_miss_is_compared_with_what_it_was_nearest_to(run: Any, put: Any, missed: Any) -> None:
    """The line that differs, the cause, and what to do, for people and for scripts."""
    nearest = put(age=9)
    key = missed(texts=AUTOTUNE, nearest=nearest, differs=["compiler"])
    put(age=1, **AUTOTUNE)
    ran = run("explain")
    assert ran.status == 0
    assert "the nearest entry differs in compiler" in ran.out
    assert "    compiler: inductor.max_autotune False -> True\n" in ran.out
    assert "what to do: compile with the same mode" in ran.out
    found = run("explain", "--json").json
    assert found["version"] == 1
    (one,) = found["explained"]
    assert one["key"] == key
    (beside,) = one["nearest"]
    assert (beside["key"], beside["parts"]) == (nearest, ["compiler"])
    assert beside["differences"] == [
        {
            "part": "compiler",
            "name": "inductor.max_autotune",
            "before": "False",
            "after": "True",
            "text": "compiler: inductor.max_autotune False -> True",
        }
    ]


def test_what_was_never_published_is_told_by_parts(run: Any, put: Any, missed: Any) -> None:
    """Without the texts of the missed key there are no lines, and that is said."""
    missed(texts=AUTOTUNE | WIDER, nearest=put(age=9), differs=["inputs", "compiler"])
    out = run("explain").out
    assert "the nearest entry differs in inputs and compiler" in out
    assert "compiler: differs; the texts of one of them are gone" in out
    assert run("explain", "--json").json["explained"][0]["nearest"][0]["differences"] is None


def test_an_event_of_an_older_version_is_compared_all_the_same(run: Any, put: Any, missed: Any, files: Any) -> None:
    """An event that names no nearest entry gets what the index knows of that time."""
    put(age=9)
    missed(age=5, texts=AUTOTUNE)
    put(age=4, **AUTOTUNE)
    put(age=1, **AUTOTUNE, **WIDER)  # nearer, and later
    (path,) = files("journal")
    event = json.loads(path.read_text())
    for name in ("nearest", "differs", "started"):
        del event[name]
    path.write_text(json.dumps(event) + "\n")
    assert "compiler: inductor.max_autotune False -> True\n" in run("explain").out


def test_only_the_last_run_is_explained(run: Any, missed: Any) -> None:
    """The newest process; another life of the same pid on the same host, as in containers, is another run."""
    missed(age=60, texts=AUTOTUNE, started=NOW - 100)
    missed(age=50, pid=40)
    newest = missed(age=1, texts=WIDER)
    found = run("explain", "--json").json
    assert [one["key"] for one in found["explained"]] == [newest]
    assert (found["run"]["processes"], found["run"]["outcomes"]) == (1, {"miss": 1})
    assert len(run("explain", "--since", "1h", "--json").json["explained"]) == 3


def test_all_ranks_of_a_job_are_one_run(run: Any, missed: Any) -> None:
    """Ranks that ran beside each other, on all hosts; not those of yesterday's job."""
    for rank in range(3):
        missed(age=86_400, rank=rank, pid=rank, started=NOW - 90_000)
        missed(age=rank, rank=rank, pid=rank + 50, host=f"node-{rank}", texts={"toolchain": f"torch: {rank}"})
    found = run("explain", "--json").json
    assert (found["run"]["processes"], len(found["explained"])) == (3, 3)
    assert found["run"]["hosts"] == ["node-0", "node-1", "node-2"]


def test_misses_that_say_the_same_are_told_once(run: Any, put: Any, missed: Any) -> None:
    """Forty graphs behind one changed setting are one story."""
    for number in range(6):
        graph = {"graph": f"%0 placeholder\n%1 op{number} (%0)"}
        nearest = put(age=9, **graph)
        missed(age=6 - number, texts=graph | AUTOTUNE, nearest=nearest, differs=["compiler"])
        put(age=1, **graph, **AUTOTUNE)
    out = run("explain").out
    assert out.count("max_autotune False -> True") == 1
    assert "and 2 more graphs alike" in out
    assert run("explain", "--all").out.count("compiled in") == 6
    assert len(run("explain", "--limit", 2, "--json").json["explained"]) == 2


def test_a_key_that_was_there_is_said_to_be_gone(run: Any, missed: Any) -> None:
    """The journal knows that it was published, or hit, before."""
    missed(age=500)
    missed(age=1, pid=42)
    assert re.search(r"it was compiled before, \d+ min ago on here, and is gone: evicted, expired", run("explain").out)
    missed(None, age=400, outcome="hit", pid=43)
    assert re.search(r"it was there before, \d+ min ago on here, and is gone", run("explain").out)


def test_ranks_that_compile_a_key_side_by_side_evict_nothing(run: Any, missed: Any) -> None:
    """The first one's event is older than the second one's, and both were new."""
    for rank, age in enumerate((5, 1)):
        missed(age=age, rank=rank, pid=rank, seconds={"compile": 20.0})
    found = run("explain", "--json").json
    assert [one["cause"] for one in found["explained"]] == ["nothing like it in the store"]


def test_a_key_that_was_set_aside_says_why(run: Any, put: Any, missed: Any, root: Path) -> None:
    """What `quarantine` noted is told on the next miss."""
    key = missed(age=500)
    put()
    DiskStore(root).quarantine(key, "v0", "did not load:\nKeyError")
    missed(age=1, pid=42)
    assert "was set aside: did not load: KeyError" in run("explain").out


def test_a_key_of_another_namespace_is_found_there(run: Any, put: Any, missed: Any, monkeypatch: Any) -> None:
    """A namespace that was mistyped is a common reason for nothing to hit."""
    key = put()
    monkeypatch.setenv("WARMGRAPH_NAMESPACE", "blue")
    run("config")
    assert store_root(current()).name == "blue"
    from warmgraph.cache import Event, Journal, Outcome, journal_dir

    event = Event(Outcome.MISS, reason="absent", key=key, parts=parts_of(TEXTS), **PLACE)
    assert Journal(journal_dir(current())).append(event)
    assert "the same key is in namespace default" in run("explain").out


def test_guards_are_shown_under_the_names_of_their_sizes(run: Any, put: Any, missed: Any) -> None:
    """Guards speak of positions; people of their inputs. The entry that the miss itself made is left out."""
    dynamic = {
        "inputs": "p0 SymInt $12\np1 SymInt $4",
        "symbols": "$12 \"L['x'].size()[0]\" {}\n$4 \"L['y'].size()[0]\" {}",
    }
    for variant, age in (("v0", 9), ("v1", -1)):
        put(guards=f"L['t0'] <= {age} and L['t1'] == 2 and L['t7']", variant=variant, age=age, **dynamic)
    missed("guards", age=1, texts=dynamic)
    assert run("explain", "--json").json["explained"][0]["guards"] == [
        "L['x'].size()[0] <= 9 and L['y'].size()[0] == 2 and L['t7']"
    ]
    assert "mark_dynamic" in run("explain").out


@pytest.mark.parametrize("outcome", ["bypass", "failed"])
def test_what_was_not_cached_is_told_with_its_reason(run: Any, journaled: Any, outcome: str) -> None:
    """Bypasses and failures of the run, with their detail and what to do, and without a key."""
    journaled(outcome, reason="wrapped-call", detail="node f (call_function)", **PLACE)
    out = run("explain").out
    assert "nothing identifies: node f (call_function)" in out
    assert "user_cache_hash" in out


def test_a_wrong_result_is_told_and_a_right_one_is_not(run: Any, journaled: Any) -> None:
    """Hits that were verified: those that agreed are as they should be."""
    journaled("verified", tier="disk", key=f"wg1{7:064x}", **PLACE)
    journaled("verified", tier="disk", key=f"wg1{8:064x}", reason="differs", detail="output 0", **PLACE)
    (one,) = run("explain", "--json").json["explained"]
    assert "their results differ: it was set aside: output 0" in one["cause"]


def test_frames_that_are_not_compiled_are_told(run: Any, journaled: Any) -> None:
    """Dynamo runs them as they are: no miss, and the user wants to know."""
    for outcome, reason in (("traced", "absent"), ("restored", None)):
        journaled(outcome, reason=reason, key=f"wg1{7:064x}", detail="not compiled: graph break in loop", **PLACE)
    told = run("explain").err
    why = f"graph break in loop in {PLACE['function']}"
    assert f"1 frame not compiled, since Dynamo cannot (TORCH_LOGS=graph_breaks says where): {why}" in told


def test_frames_that_cannot_be_restored_are_counted_and_listed_when_asked(run: Any, journaled: Any) -> None:
    """They are no miss: each process traces them. A frame of which something moved is told by itself."""
    for number in range(3):
        place = PLACE | {"line": number}
        journaled("traced", reason="not-restorable", key=f"wg1{number:064x}", detail="a GPU is in use", **place)
    journaled("traced", reason="absent", key=f"wg1{7:064x}", **PLACE)
    told = run("explain").err
    assert "nothing missed" in told
    assert "3 frames are traced in each process (docs/frames.md, explain --all): a GPU is in use" in told
    assert run("explain", "--all").out.count("not-restorable") == 3
    journaled("traced", reason="frame-changed", key=f"wg1{8:064x}", detail="EQUALS_MATCH on L['x']", **PLACE)
    assert "is not as it was: EQUALS_MATCH on L['x']" in run("explain").out


def test_a_reason_of_a_later_version_is_printed_as_it_is(run: Any, journaled: Any) -> None:
    """A journal may be newer than the tool."""
    journaled("miss", reason="sunspots", detail="flare", key=f"wg1{7:064x}")
    assert "sunspots: flare" in run("explain").out


def test_every_reason_has_words() -> None:
    """A new reason without an explanation would be printed as its bare name."""
    from warmgraph.cache import Reason
    from warmgraph.scripts.reasons import REASONS

    assert {reason.value for reason in Reason} == set(REASONS)
    assert all(what and (advice or reason == "absent") for reason, (what, advice) in REASONS.items())


# -- explain KEY


def test_one_key_is_explained_by_its_beginning(run: Any, put: Any, missed: Any) -> None:
    """With its nearest entries, nearest first; `wg1` may be left out."""
    near, far = put(age=9), put(age=8, **WIDER, toolchain='torch: "2.12.1"')
    key = missed(age=1, texts=AUTOTUNE, nearest=near, differs=["compiler"])
    put(age=0, **AUTOTUNE)
    for given in (key, key[:12], key[3:12]):
        (one,) = run("explain", given, "--json").json["explained"]
        assert [beside["key"] for beside in one["nearest"]] == [near, far]
    assert "toolchain: torch 2.12.1 -> 2.13.0" in run("explain", key).out


def test_a_key_that_hits_says_so(run: Any, put: Any, missed: Any) -> None:
    """And is shown beside what resembles it."""
    key, other = put(age=9), put(age=8, **AUTOTUNE)
    missed(None, outcome="hit", tier="disk")
    ran = run("explain", key)
    assert ran.status == 0
    assert "hit 1 times, the last time" in ran.err
    assert f"beside {other[:14]}:" in ran.out
    assert "compiler: inductor.max_autotune True -> False" in ran.out


def test_a_key_that_nobody_knows_exits_1(run: Any, put: Any) -> None:
    """With the next command to try."""
    ran = run("explain", "wg1ffff")
    assert (ran.status, ran.out) == (1, "")
    assert "TIP: warmgraph journal" in ran.err


def test_an_ambiguous_beginning_exits_1(run: Any, put: Any, missed: Any) -> None:
    """And lists what it may mean."""
    put()
    put(**AUTOTUNE)
    for command in (["explain", "wg1"], ["diff", "wg1", "wg1"]):
        ran = run(*command)
        assert ran.status == 1
        assert "give more of it" in ran.err


# -- little, and too much


def test_an_empty_journal_is_no_error(run: Any, root: Path) -> None:
    """Without events stdout is empty in words, and an object in JSON."""
    assert (run("explain").status, run("explain").out) == (0, "")
    assert "TIP" in run("explain").err
    assert run("explain", "--json").json["explained"] == []
    assert (run("lint").status, run("lint").out) == (0, "")


def test_a_journal_from_elsewhere_needs_no_store(run: Any, missed: Any, root: Path, tmp_path: Path) -> None:
    """`--dir` explains by parts what was copied from another host."""
    missed(nearest=f"wg1{7:064x}", differs=["graph"])
    (root / "journal").rename(tmp_path / "copied")
    assert "graph: differs" in run("explain", "--dir", tmp_path / "copied").out


def test_damaged_texts_and_entries_are_passed_by(run: Any, put: Any, missed: Any, files: Any) -> None:
    """What cannot be read is told on stderr, and the parts are named all the same."""
    nearest = put(age=9)
    missed(texts=AUTOTUNE, nearest=nearest, differs=["compiler"])
    put(**AUTOTUNE)
    for folder in ("objects", "entries"):
        for path in files(folder):
            path.write_bytes(b"nonsense")
        ran = run("explain")
        assert ran.status == 0
        assert "compiler: differs" in ran.out
        assert "TIP: warmgraph verify" in ran.err
    assert run("diff", nearest, nearest).status == 1


def test_control_characters_do_not_reach_the_terminal(run: Any, put: Any, missed: Any) -> None:
    """Texts and journals come from a store."""
    evil = {"compiler": 'a: "\x1b[31m"'}
    missed(texts=evil, nearest=put(age=9), differs=["compiler", "\x1b[2J"], function="\x1b]0;f")
    put(**evil)
    assert "\x1b" not in run("explain").out + run("explain").err


# -- diff


def test_diff_of_any_two_entries(run: Any, put: Any) -> None:
    """All lines that differ, by part; of one key with itself nothing."""
    one, other = put(), put(**AUTOTUNE, **WIDER)
    assert run("diff", one[:14], other[3:14]).out.splitlines() == [
        "inputs: p0 size [8, 4] -> [16, 4]",
        "compiler: inductor.max_autotune False -> True",
    ]
    same = run("diff", one, one)
    assert (same.status, same.out) == (0, "")
    assert "do not differ" in same.err
    found = run("diff", one, other, "--json").json
    assert (found["before"], found["after"], found["parts"]) == (one, other, ["inputs", "compiler"])


def test_diff_shows_the_first_lines_of_a_part(run: Any, put: Any) -> None:
    """A hundred settings are a count, unless all are asked for."""
    one = put(compiler="\n".join(f"s{n:03}: 1" for n in range(100)))
    other = put(compiler="\n".join(f"s{n:03}: 2" for n in range(100)))
    lines = run("diff", one, other).out.splitlines()
    assert len(lines) == 9
    assert lines[-1] == "compiler: and 92 more lines (--all)"
    assert len(run("diff", one, other, "--all").out.splitlines()) == 100


def test_diff_of_what_lies_on_a_server_only(
    run: Any, put: Any, servers: Any, signed: str, tmp_path: Path, monkeypatch: Any, elsewhere: Any
) -> None:
    """An entry that is not in the folder is fetched, its seal checked; without the server it is not known."""
    with servers.server(tmp_path / "redis") as server:
        monkeypatch.setenv("WARMGRAPH_URL", server.patient_url)
        run("config")
        one, other = put(), put(**AUTOTUNE)
        elsewhere()
        assert run("diff", one[:12], other).out == "compiler: inductor.max_autotune False -> True\n"
        assert run("explain", one).status == 0
        monkeypatch.setenv("WARMGRAPH_SIGNING_KEY", "")
        monkeypatch.setenv("WARMGRAPH_TRUST", "network")
        assert run("diff", one, other).status == 1
    ran = run("diff", one, other)
    assert ran.status == 1
    assert ran.err.count("\n") <= 3


# -- lint


def test_a_counter_is_found_by_what_each_run_had(run: Any, put: Any, missed: Any) -> None:
    """A graph that missed in every run, with one constant that counted up, and what to do about it."""
    for number in range(3):
        texts = {"graph": TEXTS["graph"].replace("3", str(40 + number))}
        missed(age=9 - number, pid=number, texts=texts)
        put(age=9 - number, **texts)
    ran = run("lint")
    assert ran.status == 1
    assert "counter: graph: %1, another in each of 3 runs" in ran.out
    assert "mul (%0, 40) -> builtin _operator.mul (%0, 41)" in ran.out
    (one,) = run("lint", "--json").json["findings"]
    assert (one["kind"], one["part"], one["name"], one["runs"]) == ("counter", "graph", "%1", 3)
    assert run("lint", "--runs", 4).status == 0


def test_what_hit_once_or_changed_otherwise_is_no_finding(run: Any, put: Any, missed: Any) -> None:
    """An edit between runs, or a graph that some run hit, is everyday life."""
    for number, texts in enumerate(({}, AUTOTUNE, WIDER)):
        missed(age=9 - number, pid=number, texts=texts)
        put(age=9 - number, **texts)
    assert run("lint").status == 0
    for number in range(3):
        texts = {"graph": TEXTS["graph"].replace("3", str(40 + number))}
        missed(age=9 - number, pid=number, texts=texts, line=9)
        put(age=9 - number, **texts)
    missed(None, outcome="hit", pid=9, line=9)
    assert run("lint").status == 0


def test_suspicious_lines_of_entries_are_listed_once(run: Any, put: Any) -> None:
    """A path in the keys of two entries is one finding, with where it was seen."""
    put(compiler='kernel_dir: "/home/me/kernels"')
    put(compiler='kernel_dir: "/home/you/kernels"')
    (one,) = run("lint", "--json").json["findings"]
    assert (one["kind"], one["name"], one["entries"], one["runs"]) == ("path", "kernel_dir", 2, 0)
    assert sorted(one["values"]) == ["/home/me/kernels", "/home/you/kernels"]
    assert run("lint").status == 1


def test_it_starts_quickly_and_without_the_model(execute: Any, put: Any, missed: Any) -> None:
    """`python -m warmgraph explain` in a process of its own."""
    missed(texts=AUTOTUNE, nearest=put(age=9), differs=["compiler"])
    put(**AUTOTUNE)
    assert "max_autotune" in execute("explain").out


def test_the_index_of_the_fixture_is_real(put: Any, root: Path) -> None:
    """The entries above are indexed as published ones are: by graph and by function."""
    key = put()
    entry = DiskStore(root).read_entry(key, "v0")
    assert entry is not None
    found = DiskStore(root).relatives(addresses(entry[0].parts, entry[0].facts))
    assert [(one.key, one.parts) for one in found] == [(key, relative_of(entry[0]).parts)] * 2
    assert os.stat(root / "near").st_mode & 0o77 == 0
