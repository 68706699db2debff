"""stats, verify, prune, config: what they print of a small store, of an empty one, and of none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

STATS = {
    "version",
    "hits",
    "misses",
    "bypasses",
    "failures",
    "verified",
    "skipped",
    "restored",
    "traced",
    "seconds_saved",
    "entries",
    "bytes",
}
PRUNED = {"version", "entries", "blobs", "bytes_freed", "leftovers", "bytes", "files", "bytes_waiting"}


def test_stats_json_has_exactly_its_keys(run: Any, publish: Any, journaled: Any, files: Any) -> None:
    """`stats --json` counts the journal's outcomes and the store's entries and bytes, and says nothing else."""
    publish(1)
    publish(2)
    for outcome, saved in (
        *(("hit", 1.5), ("hit", 2.0), ("miss", None)),
        *(("bypass", None), ("failed", None), ("verified", None), ("skipped", None)),
    ):
        journaled(outcome, seconds_saved=saved, reason=None if outcome == "hit" else "absent")
    ran = run("stats", "--json")
    assert ran.status == 0
    assert ran.json.keys() == STATS
    stored = sum(path.stat().st_size for folder in ("entries", "near", "objects") for path in files(folder))
    assert list(ran.json.values()) == [1, 2, 1, 1, 1, 1, 1, 0, 0, 3.5, 2, stored]


def test_stats_for_people(run: Any, publish: Any, journaled: Any, root: Path) -> None:
    """`stats` names the store, the rate of hits, what the misses were for and what was saved."""
    publish()
    for _ in range(3):
        journaled("hit", seconds_saved=20.0)
    journaled("miss", reason="absent")
    shown = run("stats").out
    assert str(root) in shown
    assert "3 (75.0 % of lookups)" in shown
    assert "60.0 s" in shown
    assert "absent 1" in shown


@pytest.mark.parametrize("empty", [False, True], ids=["missing", "empty"])
def test_stats_of_nothing_are_zeros(run: Any, root: Path, empty: bool) -> None:
    """Stats of a missing or empty store are zeros, exit status 0, and create nothing."""
    if empty:
        root.mkdir(mode=0o700)
    ran = run("stats", "--json")
    assert ran.status == 0
    assert ran.json == dict.fromkeys(STATS, 0) | {"version": 1}
    assert root.exists() == empty


@pytest.mark.parametrize("arguments", [["stats"], ["ls"], ["verify"], ["verify", "--fix"], ["prune"], ["journal"]])
def test_a_missing_store_is_no_error(run: Any, root: Path, arguments: list[str]) -> None:
    """Where no store is yet, stderr says where it would be and what to do; nothing is created; exit status 0."""
    ran = run(*arguments)
    assert ran.status == 0
    assert str(root) in ran.err
    assert "TIP: run a model" in ran.err
    assert not root.exists()


def test_show_of_a_missing_store_exits_1(run: Any, root: Path) -> None:
    """An entry that was asked for by name and is not there is exit status 1."""
    ran = run("show", "wg1ab", "--json")
    assert (ran.status, ran.out) == (1, "")
    assert str(root) in ran.err


def test_another_namespace_is_another_store(run: Any, publish: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """WARMGRAPH_NAMESPACE chooses the store that the commands look at."""
    publish()
    monkeypatch.setenv("WARMGRAPH_NAMESPACE", "other")
    assert run("stats", "--json").json["entries"] == 0
    assert "ns/other" in run("ls").err


# -- verify


def test_verify_of_a_good_store(run: Any, publish: Any) -> None:
    """A good store verifies with status 0; what was checked is told on stderr, findings (none) on stdout."""
    publish()
    ran = run("verify")
    assert (ran.status, ran.out) == (0, "")
    assert "checking 1 entries and 3 blobs" in ran.err


def test_verify_finds_and_fixes(run: Any, publish: Any, files: Any) -> None:
    """A damaged entry is status 1 and a line that names flaw and file; with --fix it is gone, and status 0."""
    publish(1)
    publish(2)
    damaged = files("entries")[0]
    damaged.write_bytes(b"nonsense")
    ran = run("verify")
    assert ran.status == 1
    assert ran.out.startswith(f"corrupt-entry: {damaged}: ")
    assert "TIP: warmgraph verify --fix" in ran.err
    fixed = run("verify", "--fix")
    assert fixed.status == 0
    assert fixed.out.endswith("(fixed)\n")
    assert not damaged.exists()
    assert run("verify").status == 0
    assert run("stats", "--json").json["entries"] == 1
    assert "quarantined" in run("stats").out


def test_verify_without_fix_changes_nothing(run: Any, publish: Any, files: Any) -> None:
    """Without --fix every file stays as it is."""
    publish()
    files("objects")[0].write_bytes(b"nonsense")
    before = {path: path.read_bytes() for folder in ("entries", "near", "objects") for path in files(folder)}
    assert run("verify").status == 1
    assert {path: path.read_bytes() for folder in ("entries", "near", "objects") for path in files(folder)} == before


def test_verify_json(run: Any, publish: Any, files: Any) -> None:
    """`verify --json` is one object with its sums and a list of findings; the status is the same."""
    publish()
    blob = files("objects")[0]
    blob.write_bytes(b"nonsense")
    ran = run("verify", "--json")
    assert ran.status == 1
    found = ran.json
    assert found.keys() == {"version", "ok", "entries", "blobs", "bytes", "findings"}
    assert (found["version"], found["ok"], found["entries"], found["blobs"]) == (1, False, 1, 3)
    assert [finding.keys() for finding in found["findings"]] == [{"path", "flaw", "detail", "fixed"}] * 2
    assert {finding["flaw"] for finding in found["findings"]} == {"corrupt-blob", "incomplete-entry"}
    assert str(blob) in [finding["path"] for finding in found["findings"]]
    fixed = run("verify", "--fix", "--json")
    assert fixed.status == 0
    assert all(finding["fixed"] for finding in fixed.json["findings"])


# -- prune


def test_prune_leaves_what_fits(run: Any, publish: Any) -> None:
    """A store within its bound keeps everything."""
    publish()
    before = run("stats", "--json").json["bytes"]
    done = run("prune", "--max-size", "5GB", "--json")
    assert done.status == 0
    assert done.json.keys() == PRUNED
    assert (done.json["version"], done.json["entries"], done.json["bytes"]) == (1, 0, before)


def test_prune_evicts_down_to_the_size(run: Any, publish: Any) -> None:
    """Above the bound entries go until the rest fits; what must wait is told on stderr."""
    for number in range(4):
        publish(number)
    held = run("stats", "--json").json["bytes"]
    bound = held * 3 // 5  # half of the entries, and the index beside them
    ran = run("prune", f"--max-size={bound}")
    assert ran.status == 0
    assert ran.out.startswith("removed 2 entries")
    assert "ten minutes" in ran.err
    assert run("stats", "--json").json["entries"] == 2


def test_prune_uses_the_setting(run: Any, publish: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --max-size the bound is WARMGRAPH_MAX_SIZE."""
    publish()
    monkeypatch.setenv("WARMGRAPH_MAX_SIZE", "1KB")
    assert run("prune", "--json").json["entries"] == 1


def test_prune_of_nothing_is_zeros(run: Any, root: Path) -> None:
    """`prune --json` of a missing store has the same keys, all 0."""
    assert run("prune", "--json").json == dict.fromkeys(PRUNED, 0) | {"version": 1}
    assert not root.exists()


# -- config


def test_config_says_where_values_come_from(run: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config` shows each setting with its origin: the environment's variable, or default."""
    monkeypatch.setenv("WARMGRAPH_MAX_SIZE", "5GB")
    shown = run("config").out
    lines = {line.split()[0]: line.split(None, 2)[1:] for line in shown.splitlines()}
    assert lines["dir"] == [str(root), "environment WARMGRAPH_DIR"]
    assert lines["max_size"] == ["5000000000", "environment WARMGRAPH_MAX_SIZE"]
    assert lines["mode"] == ["readwrite", "default"]


def test_config_json_is_typed(run: Any, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`config --json` gives numbers, booleans and null as such."""
    monkeypatch.setenv("WARMGRAPH_MODE", "readonly")
    found = run("config", "--json").json
    assert found["version"] == 1
    values = {name: setting["value"] for name, setting in found["settings"].items()}
    assert values["dir"] == str(root)
    assert (values["mode"], values["strict"], values["url"]) == ("readonly", False, None)
    assert values["max_size"] == 10 * 10**9
    assert found["settings"]["mode"]["origin"] == "environment WARMGRAPH_MODE"
