"""ls and show: what they print of good entries, damaged ones, and ones that lie."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgpack
import pytest

ROW = {
    *("key", "variant", "function", "file", "line", "nodes", "guards", "bytes", "kernels", "compile_seconds"),
    *("host", "torch", "created", "last_used"),
}


def test_ls_lists_last_used_first(run: Any, publish: Any, files: Any) -> None:
    """`ls` has a line for each entry, last used first, with where it comes from and what it cost."""
    keys = [publish(number, function=f"step{number}") for number in range(1, 4)]
    for age, path in enumerate(files("entries")):
        os.utime(path, (1.7e9 - age, 1.7e9 - age))
    lines = run("ls").out.splitlines()
    assert lines[0].split()[:2] == ["key", "function"]
    assert [line.split()[:2] for line in lines[1:]] == [[key[:14], f"step{n}:7"] for n, key in enumerate(keys, 1)]
    assert "21.5 s" in lines[1]
    assert [entry["key"] for entry in run("ls", "--json").json["entries"]] == keys


def test_ls_json(run: Any, publish: Any, files: Any) -> None:
    """`ls --json` is one object with a list of entries, each with the same keys."""
    key = publish(guards="L['x'].size()[0] > 1")
    found = run("ls", "--json").json
    assert found.keys() == {"version", "entries"}
    (entry,) = found["entries"]
    assert entry.keys() == ROW
    assert (entry["key"], entry["guards"], entry["kernels"]) == (key, "L['x'].size()[0] > 1", 1)
    assert entry["bytes"] == sum(path.stat().st_size for folder in ("entries", "objects") for path in files(folder))


def test_ls_limit(run: Any, publish: Any) -> None:
    """`--limit` bounds the lines."""
    for number in range(3):
        publish(number)
    assert len(run("ls", "--limit", 2, "--json").json["entries"]) == 2


def test_ls_of_an_empty_store(run: Any, root: Path) -> None:
    """An empty store is a word on stderr, an empty list in JSON, and status 0."""
    root.mkdir(mode=0o700)
    ran = run("ls")
    assert (ran.status, ran.out) == (0, "")
    assert "no entries" in ran.err
    assert "TIP" in ran.err
    assert run("ls", "--json").json == {"version": 1, "entries": []}


def test_ls_passes_damaged_entries_by(run: Any, publish: Any, files: Any) -> None:
    """A damaged entry is told of on stderr; the others are listed, and JSON stays JSON."""
    publish(1)
    publish(2)
    files("entries")[0].write_bytes(b"nonsense")
    ran = run("ls", "--json")
    assert ran.status == 0
    assert len(ran.json["entries"]) == 1
    assert "is damaged" in ran.err
    assert "verify --fix" in ran.err


def test_a_line_in_a_pipe_is_not_folded(run: Any, publish: Any) -> None:
    """Where stdout is no terminal each entry is one line, however long its names, and lines end without blanks."""
    publish(function="f" * 300)
    lines = run("ls").out.splitlines()
    assert len(lines) == 2
    assert all(line == line.rstrip() for line in lines)


# -- show


def test_show_takes_a_beginning(run: Any, publish: Any) -> None:
    """A beginning of the key is enough, with or without the `wg1`."""
    key = publish(0xABC << 240)
    for given in (key, key[:8], key[3:8]):
        ran = run("show", given)
        assert ran.status == 0
        assert key in ran.out
        assert "forward (/src/model.py:7)" in ran.out
        assert "21.5 s on here, torch 2.13.0" in ran.out


def test_show_json(run: Any, publish: Any) -> None:
    """`show --json` is ls's row with parts, symbols and blobs; texts only when asked for."""
    key = publish()
    found = run("show", key, "--json").json
    assert found.keys() == {"version", "entries"}
    (entry,) = found["entries"]
    assert entry.keys() == ROW | {"parts", "symbols", "blobs"}
    assert entry["parts"] == {"graph": "a" * 64, "inputs": "b" * 64}
    assert [blob.keys() for blob in entry["blobs"]] == [{"role", "name", "bytes", "digest"}] * 3
    (full,) = run("show", key, "--json", "--texts", "--graph").json["entries"]
    assert full["texts"] == {"graph": "call add 1"}
    assert full["graphs"] == {"forward": "def forward(x): ..."}


def test_show_prints_texts(run: Any, publish: Any) -> None:
    """`--texts` prints each part's text under its name, line by line."""
    key = publish(texts={"graph": "first\n\tsecond", "inputs": "third"})
    lines = run("show", key, "--texts").out.splitlines()
    assert lines[lines.index("--- graph") + 1 :][:2] == ["first", "        second"]
    assert lines[lines.index("--- inputs") + 1] == "third"


def test_show_has_every_variant(run: Any, publish: Any) -> None:
    """All entries of one key are shown."""
    key = publish(guards="a", variant="v0")
    publish(guards="b", variant="v1")
    assert {entry["variant"] for entry in run("show", key, "--json").json["entries"]} == {"v0", "v1"}


def test_show_of_an_unknown_key(run: Any, publish: Any) -> None:
    """No entry under a key is status 1, and a line that says how to find one."""
    publish()
    ran = run("show", "wg1fff")
    assert (ran.status, ran.out) == (1, "")
    assert "'wg1fff'" in ran.err
    assert "TIP: warmgraph ls" in ran.err


def test_show_of_an_ambiguous_key(run: Any, publish: Any) -> None:
    """A beginning of several keys is status 1, and says which they are."""
    keys = [publish(number << 200) for number in (1, 2)]
    ran = run("show", "wg1000")
    assert (ran.status, ran.out) == (1, "")
    assert all(key[:20] in ran.err for key in keys)


DEEP = b"\x91" * 5000 + b"\xc0"


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\xc1",
        b"\x81\xa1g",
        DEEP,
        b"\x81" + DEEP,
        b"\xdd\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        msgpack.packb({"graph": "x"}) + b"more",
        msgpack.packb(7),
        msgpack.packb(["graph", "x"]),
        msgpack.packb([["graph", "x"]]),
        msgpack.packb({"graph": 7}),
        msgpack.packb({"graph": None}),
        msgpack.packb({7: "x"}),
        msgpack.packb({b"graph": b"x"}),
        msgpack.packb({"graph": ["x"]}),
        msgpack.packb({"graph": b"\xff\xfe"}),
        b"\x81\xa1g\xa1\xff",
        b"\x81\x80\x80",
        msgpack.packb(msgpack.ExtType(5, b"x")),
        b"\x81\xa1g\xd6\xff\x00\x00\x00\x00",
    ],
)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_show_survives_a_hostile_text(run: Any, publish: Any, blob: bytes, form: list[str]) -> None:
    """Texts that are no mapping of names to texts are a line on stderr and status 1; the rest is shown."""
    key = publish(texts=blob)
    ran = run("show", key, "--texts", "--graph", *form)
    assert ran.status == 1
    assert ran.err.count("\n") == 1
    assert f"the texts of {key[:14]} cannot be shown" in ran.err
    if form:
        (entry,) = ran.json["entries"]
        assert entry["texts"] is None
        assert entry["graphs"] == {"forward": "def forward(x): ..."}
    else:
        assert key in ran.out
        assert "def forward(x): ..." in ran.out


def test_show_survives_missing_and_damaged_blobs(run: Any, publish: Any, files: Any) -> None:
    """Texts whose blob is damaged or gone are a line on stderr; show without --texts does not mind."""
    key = publish()
    for path in files("objects"):
        path.write_bytes(b"nonsense")
    damaged = run("show", key, "--texts", "--graph", "--json")
    assert damaged.status == 1
    assert damaged.err.count("cannot be shown: blob ") == 2
    for path in files("objects"):
        path.unlink()
    gone = run("show", key, "--texts")
    assert gone.status == 1
    assert "its blob is gone" in gone.err
    assert run("show", key).status == 0


def test_facts_of_another_type_are_left_out(run: Any, publish: Any) -> None:
    """Facts that are not what their name suggests neither crash a command nor change the JSON's types."""
    lies: dict[str, Any] = {"compile_seconds": "soon", "created": "once", "line": "x", "nodes": True, "function": 7}
    key = publish(**lies, file=1.5, host=None, torch=2)
    for command in (["ls"], ["show", key]):
        assert run(*command).status == 0
        (entry,) = run(*command, "--json").json["entries"]
        assert not any(entry[name] for name in lies)


def test_facts_may_be_missing(run: Any, publish: Any) -> None:
    """Numbers far outside what a clock can show are printed all the same."""
    key = publish(created=1e300, compile_seconds=1e300, nodes=2**60)
    assert run("ls").status == 0
    assert run("show", key).status == 0
