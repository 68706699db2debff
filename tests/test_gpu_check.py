"""What of `make gpu-check` can be seen without a GPU: that it says so, its tests, its package and its verdicts."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command, **extra):
    """A process that sees no GPU, wherever this runs."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **extra}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def test_without_a_gpu_the_check_fails_with_one_sentence():
    """No traceback, no table, and nothing written."""
    before = sorted((ROOT / "docs" / "results").glob("*"))
    process = run("make", "-s", "gpu-check", f"PYTHON={sys.executable}")
    assert process.returncode != 0
    assert process.stdout == ""
    said = [line for line in process.stderr.splitlines() if not line.startswith("make")]
    assert len(said) == 1
    assert re.fullmatch(r"gpu-check: torch \S+ of this Python \(.*\) sees no CUDA device; run this on .*", said[0])
    assert sorted((ROOT / "docs" / "results").glob("*")) == before


def test_every_test_for_a_gpu_is_marked_collected_and_skipped_in_one_line():
    """`-m gpu` would silently leave out one that is not marked."""
    process = run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu", "tests/gpu")
    assert process.returncode == 0, process.stdout[-3000:]
    assert "deselected" not in process.stdout
    (said,) = [line for line in process.stdout.splitlines() if line.startswith("SKIPPED")]
    number = int(re.match(r"SKIPPED \[(\d+)\] tests/gpu/conftest.py:\d+: no CUDA device here; ", said)[1])
    assert number > 20
    assert f"{number} skipped" in process.stdout.splitlines()[-1]


def test_the_package_is_put_together_without_an_installer(tmp_path):
    """Both names in it: what programs import, and what torch finds backends by. Neither Redis nor rich is needed."""
    site = tmp_path / "site"
    made = run(sys.executable, "-m", "benchmarks.gpu_package", str(site))
    assert made.returncode == 0, made.stderr
    program = (
        "import sys\n"
        "for name in ('redis', 'rich', 'click', 'hypothesis', 'transformers'): sys.modules[name] = None\n"
        "import importlib.metadata as metadata, warmgraph\n"
        "(found,) = [e for e in metadata.entry_points(group='torch_dynamo_backends') if e.name == 'warmgraph']\n"
        "print(warmgraph.__file__, found.load(), warmgraph.__version__)"
    )
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    assert process.stdout.startswith(f"{site}/warmgraph/__init__.py <warmgraph.backend")


STAGES = """
import json, sys
from pathlib import Path
from benchmarks import gpu_check, gpu_first

folder = Path(sys.argv[1])
gpu_check.impossible, gpu_check.slug = lambda: None, lambda: "none"
lines = {"cold": {"misses": 1, "started": []}, "warm": {"error": "Traceback: boom"}}
gpu_first.run = lambda backend, mode, place, state: lines[state]
status = gpu_check.main(["--stages", "first", "--out", str(folder / "out.json")])
print(json.dumps([status, [path.stem for path in gpu_check.in_order(Path("tests/gpu"), ["no_compile", "hits"])]]))
"""


@pytest.mark.exhaustive
def test_the_first_stage_prints_and_writes_each_process_and_goes_on_after_an_error(tmp_path):
    """What is known of a GPU after its first minutes; and the tests that follow come in an order of their own."""
    process = run(sys.executable, "-c", STAGES, str(tmp_path))
    assert process.returncode == 0, process.stderr[-2000:]
    assert json.loads(process.stdout.splitlines()[-1]) == [1, ["test_hits", "test_no_compile"]]
    lines = [line for line in process.stderr.splitlines() if line.startswith("first: warmgraph default")]
    assert lines[:2] == [
        "first: warmgraph default cold: misses: 1",
        "first: warmgraph default warm: error: Traceback: boom",
    ]
    written = json.loads((tmp_path / "out.json").read_text())["first"]
    assert written["warmgraph default cold"] == {"misses": 1, "started": []}
    assert len(written) == 8


PROGRAM = """
import json, sys
from benchmarks.gpu_table import problems
print(json.dumps(problems(*json.load(sys.stdin))))
"""


def way(norm, **counts):
    return {"norms": [norm], "counts": counts, "reasons": {"not_found": 1}} if counts else {"norms": [norm]}


@pytest.fixture(scope="module")
def verdicts():
    """What the benchmark says of planted results, by a name for each."""
    nan = float("nan")
    planted = {
        "right": way(1.0, hits=2, skipped=1),
        "missed": way(1.0, hits=1, misses=1),
        "idle": {"norms": [1.0], "counts": {}},
        "wrong": way(1.02, hits=2),
        "nan": way(nan, hits=2),
        "failed": {"error": "status 1: boom"},
    }
    found = {}
    for name, warm in planted.items():
        ways = {"eager": way(1.001), "warmgraph cold": way(1.0, misses=2), "warmgraph warm": warm}
        case = {"model": "m", "what": "inference", "ways": ways}
        process = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=json.dumps([case, ["warmgraph warm"]]),
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert process.returncode == 0, process.stderr
        found[name] = json.loads(process.stdout)
    return found


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missed", "not a hit alone, but {'hits': 1, 'misses': 1} (not_found)"),
        ("idle", "not a hit alone, but nothing compiled"),
        ("wrong", "outputs are not the cold run's"),
        ("nan", "outputs are not eager's"),
        ("failed", "status 1: boom"),
    ],
)
def test_a_warm_run_that_is_no_hit_or_differs_is_told(name, said, verdicts):
    """Way, model and what was wrong with it; a run that is right is not mentioned."""
    assert verdicts["right"] == []
    assert verdicts[name][0].startswith(f"m inference, warmgraph warm: {said}")
