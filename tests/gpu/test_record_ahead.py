"""`record_ahead`: sizes that another process recorded are recorded at a hit's first call; results do not change."""

import pytest

pytestmark = pytest.mark.gpu

PROGRAM = """
import json, sys, torch
from worker import numbers, recordings
import warmgraph

options = {"triton.cudagraphs": True} | ({"record_ahead": True} if sys.argv[1] == "ahead" else {})
drawn = lambda x: (x * 2).softmax(-1) + torch.rand_like(x)
run = torch.compile(drawn, backend="warmgraph", options=options, dynamic=True)
counts, results = [], []
torch.manual_seed(7)
with torch.no_grad():
    for step in range(9):
        results.append(run(numbers(4 + 2 * (step % 3), 16, seed=step)).double().sum().item())
        counts.append(recordings())
warmgraph.flush()
stats = warmgraph.stats()
print(json.dumps({"counts": counts, "results": results, "hits": stats["hits"], "misses": stats["misses"]}))
"""


def test_known_sizes_are_recorded_before_they_come(run_in, fresh_host, tmp_path):
    """The first process learns them; the second records all but the current one at once; random numbers agree."""
    from pathlib import Path

    program = tmp_path / "program.py"
    program.write_text(f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n{PROGRAM}")
    cold = run_in(tmp_path, program, "not", **fresh_host())
    plain = run_in(tmp_path, program, "not", **fresh_host())
    ahead = run_in(tmp_path, program, "ahead", **fresh_host())
    assert (cold["counts"][0], plain["counts"][0]) == (0, 0)
    assert ahead["misses"] == 0
    assert ahead["counts"][0] == 2
    assert ahead["counts"][-1] == cold["counts"][-1] == 3
    assert ahead["results"] == plain["results"] == cold["results"]
