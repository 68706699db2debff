"""The examples run as their first lines say, and the second run compiles nothing."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
BIN = Path(sys.executable).parent
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
COUNTS = r"(\d+) hits, (\d+) misses, (\d+) bypasses"


@pytest.fixture
def run(environment, tmp_path):
    """Runs a command with the installed programs on PATH; returns what it wrote to stdout and stderr."""

    def call(*command, **extra):
        found = environment(**extra)
        found["PATH"] = f"{BIN}{os.pathsep}{found['PATH']}"
        done = subprocess.run(
            list(map(str, command)), env=found, cwd=tmp_path, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout, done.stderr

    return call


@pytest.mark.exhaustive
def test_one_process_and_a_bundle(run):
    """train.py, as ci.sh runs it: compiled in the build, loaded from the bundle in an empty store; nothing is left."""
    if not (BIN / "warmgraph").exists():
        pytest.skip("warmgraph is not installed beside this Python")
    said, _ = run("sh", EXAMPLES / "ci.sh")
    assert re.findall(COUNTS, said) == [("0", "1", "0"), ("1", "0", "0")]
    assert "100 % of 1 lookups" in said


@pytest.mark.exhaustive
def test_two_ranks(run):
    """ddp.py: on a cold start one rank compiles and the other takes its result; then both hit."""
    cold, _ = run(*TORCHRUN, EXAMPLES / "ddp.py")
    ranks = sorted(re.findall(rf"rank (\d): .*?; {COUNTS}", cold))
    assert [rank for rank, *_ in ranks] == ["0", "1"]
    assert sorted(counts for _, *counts in ranks) == [["0", "1", "0"], ["1", "0", "0"]]
    warm, _ = run(*TORCHRUN, EXAMPLES / "ddp.py")
    assert sorted(re.findall(rf"rank (\d): .*?; {COUNTS}", warm)) == [(rank, "1", "0", "0") for rank in "01"]


# g++ takes most of the time of a compile, and is not what this is about.
WITHOUT_KERNELS = """
import runpy, sys, torch._inductor.config
torch._inductor.config.fallback_by_default = True
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.exhaustive
def test_a_trainer(run, tmp_path):
    """trainer.py under `warmgraph run`: a second run loads every graph, and comes to the loss of the first."""
    pytest.importorskip("accelerate")
    (tmp_path / "without.py").write_text(WITHOUT_KERNELS)
    command = [sys.executable, "-m", "warmgraph", "run", "without.py", EXAMPLES / "trainer.py"]
    cold, told = run(*command)
    assert re.search(r"^warmgraph: 0.0 % of \d+ lookups were hits", told, re.MULTILINE)
    warm, told = run(*command, compiler=False)
    assert re.search(r"^warmgraph: 100 % of \d+ lookups were hits", told, re.MULTILINE)
    assert cold.splitlines()[-1] == warm.splitlines()[-1]


@pytest.mark.exhaustive
def test_a_hook_and_its_fix(run):
    """saved_tensors_hooks.py: bypassed without a hash, with the reason; with one, found again."""
    outcomes = []
    for _ in range(2):
        said, told = run(sys.executable, EXAMPLES / "saved_tensors_hooks.py")
        outcomes.append(re.findall(COUNTS, said))
        assert "warmgraph.cache_hash" in told
    assert outcomes == [[("0", "0", "1"), ("0", "1", "0")], [("0", "0", "1"), ("1", "0", "0")]]


def test_a_store_of_ones_own(run):
    """nfs_store.py: what was put is there; `tests/cache/stores/test_conformance.py` has the rest."""
    said, _ = run(sys.executable, EXAMPLES / "nfs_store.py")
    assert "{'v0': b'sealed'}" in said


def test_every_example_is_listed_and_says_how_it_is_run():
    """In its first lines, in the words of the list; and every one has a test here."""
    listed = re.findall(r"^\| \[([\w.]+)\].*\| `(.*?)`", (EXAMPLES / "README.md").read_text(), re.MULTILINE)
    assert sorted(name for name, _ in listed) == sorted(
        path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".sh")
    )
    tests = Path(__file__).read_text()
    for name, command in listed:
        head = (EXAMPLES / name).read_text().split("\n\n")[:2]
        assert command in "\n".join(head), name
        assert f'"{name}"' in tests or name == "train.py"


def test_the_pipeline_does_what_the_script_does():
    """The commands of docs/ci.md are those of ci.sh, in their order; YAML is YAML."""
    yaml = pytest.importorskip("yaml")
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs" / "ci.md").read_text(), re.DOTALL)
    steps = [step for job in yaml.safe_load(block)["jobs"].values() for step in job["steps"]]
    commands = [step["run"] for step in steps if step.get("run", "").startswith("warmgraph")]
    script = re.sub(r'"\$\w+/([\w.]+)"', r"\1", (EXAMPLES / "ci.sh").read_text())
    assert [command.replace("examples/", "") for command in commands] == re.findall(
        r"^warmgraph (?!keygen).*$", script, re.MULTILINE
    )
