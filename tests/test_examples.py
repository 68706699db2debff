"""The examples run as their first lines say, and the second run compiles nothing."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def run(command, environment, tmp_path):
    process = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr[-3000:]
    return re.findall(r"rank (\d+): .*? (\d+) hits, (\d+) misses, (\d+) bypasses", process.stdout)


def test_a_training_loop_alone_and_under_torchrun(environment, tmp_path):
    """One miss, then one hit; two ranks of a job share the store."""
    script = str(ROOT / "examples" / "train.py")
    assert run([sys.executable, script], environment(), tmp_path) == [("0", "0", "1", "0")]
    assert run([sys.executable, script], environment(compiler=False), tmp_path) == [("0", "1", "0", "0")]

    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", script]
    ranks = sorted(run(torchrun, environment(), tmp_path))
    assert [rank for rank, *_ in ranks] == ["0", "1"]
    warm = sorted(run(torchrun, environment(), tmp_path))
    assert warm == [("0", "1", "0", "0"), ("1", "1", "0", "0")]
