"""Golden keys: the same in every process, under every hash seed, and as they were when they were written down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from warmgraph.hashing import KEY_VERSION

from .cases import everything
from .golden import CASES, COMMAND, FILE, PARTS, TORCH, main
from .lines import LINES

SEEDS = ("0", "1")


@pytest.fixture(scope="module")
def recomputed(tmp_path_factory):
    """What fresh processes make of the same graphs: by hash seed, digests and texts."""
    found = {}
    for seed in SEEDS:
        process = subprocess.run(
            [sys.executable, str(FILE.with_suffix(".py")), "--print"],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=tmp_path_factory.mktemp("elsewhere"),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert process.returncode == 0, process.stderr[-3000:]
        found[seed] = json.loads(process.stdout)
    return found


def test_golden_keys_do_not_depend_on_the_hash_seed(recomputed):
    """Texts and all, over a graph of every kind."""
    first, second = (recomputed[seed] for seed in SEEDS)
    assert first["texts"] == second["texts"]
    assert first["digests"] == second["digests"]


def test_golden_keys_are_what_they_were(recomputed):
    """A key that changed makes every stored entry useless, or worse, means something else."""
    assert FILE.exists(), f"{FILE.name} is missing: `{COMMAND}` writes it"
    golden = json.loads(FILE.read_text())
    if golden["torch"] != TORCH:
        pytest.skip(f"{FILE.name} is of torch {golden['torch']}; tracing is another in {TORCH}")
    assert golden["key_version"] == KEY_VERSION, f"KEY_VERSION is another than in {FILE.name}: run `{COMMAND}`"
    assert golden["keys"].keys() == CASES.keys(), f"{FILE.name} holds other graphs than golden.py: run `{COMMAND}`"
    moved = [
        f"{name}, graph {number}, part {part}"
        for name, graphs in golden["keys"].items()
        for number, (old, new) in enumerate(zip(graphs, recomputed[SEEDS[0]]["digests"][name], strict=True))
        for part in PARTS
        if old[part] != new[part]
    ]
    assert moved == [], (
        f"keys are not what they were. If that is meant, raise KEY_VERSION in hashing/key.py and run `{COMMAND}`; "
        f"if not, compare the texts of `{COMMAND} --print` before and after"
    )


def test_no_two_golden_graphs_have_one_key(recomputed):
    """Each is another graph; and none is empty."""
    digests = recomputed[SEEDS[0]]["digests"]
    assert all(digests[name] for name in CASES)
    assert len({json.dumps(graphs) for graphs in digests.values()}) == len(CASES)


@pytest.mark.parametrize("part", PARTS)
def test_every_line_of_a_key_is_of_a_listed_kind(part, recomputed):
    """A line that a field does not account for has no test: list the field, then the line in `lines.py`."""
    of_everything = everything().key().texts()[part].splitlines()
    texts = (graph[part] for graphs in recomputed[SEEDS[0]]["texts"].values() for graph in graphs)
    seen = [*of_everything, *(line for text in texts for line in text.splitlines())]
    assert seen
    assert [line for line in seen if not LINES[part].fullmatch(line)] == []


def test_golden_keys_are_not_written_over_under_the_same_version(tmp_path, monkeypatch, capsys):
    """The file is for noticing; a new version of keys is the only way to another one."""
    from . import golden as module

    now = {"pointwise": [dict.fromkeys(PARTS, "one")]}
    monkeypatch.setattr(module, "recomputed", lambda: module.Golden(now, {}))
    monkeypatch.setattr(module, "FILE", tmp_path / "golden.json")
    assert main([]) == 0
    written = json.loads(Path(module.FILE).read_text())
    written["keys"]["pointwise"][0]["graph"] = "another"
    module.FILE.write_text(json.dumps(written))
    assert main([]) == 1
    assert "Raise KEY_VERSION" in capsys.readouterr().err
    monkeypatch.setattr(module, "KEY_VERSION", KEY_VERSION + 1)
    assert main([]) == 0
