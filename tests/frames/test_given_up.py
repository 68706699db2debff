"""What Dynamo gives up while it traces (a graph break in a loop) is given up at once by the next process, and told."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROGRAM = """
import gc, json, os, torch, weakref
from warmgraph.cache import journal_dir, read, settings
torch._inductor.config.fallback_by_default = True

def step(x):
    return x.sin() * 2

def loop(x):
    for number in range(3):
        x = step(x) + number
        torch._dynamo.graph_break()
    return x

def whole(x):
    for number in range(3):
        x = x + number
        torch._dynamo.graph_break()
    return x

def frees(x):
    gc.collect()
    gc.disable()
    torch.compile(loop, backend="warmgraph")(x)
    return weakref.ref(x)

assert frees(torch.arange(4.0))() is None, "the error of the graph break keeps what the frame held"
gc.enable()
torch._dynamo.reset()
x = torch.arange(4.0)
found = [torch.compile(loop, backend="warmgraph")(x).tolist()]
found.append(torch.compile(loop, backend="warmgraph")(torch.arange(6.0)).tolist())
try:
    torch.compile(whole, backend="warmgraph", fullgraph=True)(x)
except torch._dynamo.exc.Unsupported as error:
    found.append(str(error).partition("\\n")[0])
assert torch.equal(torch.tensor(found[0]), loop(x)), found
events = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
told = [[event["outcome"], event["function"], event["detail"]] for event in events]
print(json.dumps({"found": found, "told": told}))
"""
WHY = "not compiled: graph break in loop"


@pytest.fixture
def run(environment, tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    held = environment()

    def once(**more):
        done = subprocess.run(
            [sys.executable, str(script)], env=held | more, capture_output=True, text=True, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return once


def test_the_next_process_does_not_trace_it(run):
    first, verified, last = run(), run(WARMGRAPH_VERIFY="1"), run()
    assert ["traced", "loop", WHY] in first["told"]
    assert ["verified", "loop", None] in verified["told"]
    assert ["restored", "loop", WHY] in last["told"]
    assert ["restored", "step", None] in last["told"], "what it calls is compiled"
    assert not [one for one in last["told"] if one[0] == "traced"]
    assert first["found"] == verified["found"] == last["found"], "and fullgraph=True is told of the graph break"
