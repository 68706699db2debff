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


BY_SWITCH = """
import json, os, random, sys, torch
from warmgraph.cache import journal_dir, read, settings
torch._inductor.config.fallback_by_default = True
SWITCH, SCALE = os.environ["SWITCH"], 0.0

def loop(x):
    for number in range(2):
        if SWITCH == "draws": print(random.random(), file=sys.stderr)
        if SWITCH == "breaks": torch._dynamo.graph_break()
        x = x + SCALE
    return x

for number in range(6 if SWITCH == "breaks" else 1):
    SCALE = float(number)
    torch._dynamo.reset()
    found = torch.compile(loop, backend="warmgraph")(torch.arange(4.0))
    assert torch.equal(found, torch.arange(4.0) + 2 * number)
events = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
kinds = ("traced", "restored", "verified")
print(json.dumps([[one["outcome"], one["detail"] or ""] for one in events if one["outcome"] in kinds]))
"""


@pytest.fixture
def run(environment, tmp_path):
    script = tmp_path / "program.py"
    held = environment()

    def once(program=PROGRAM, **more):
        script.write_text(program)
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


def test_what_is_given_up_keeps_no_record_from_being_made(run):
    """Not by why it could not be recorded, and not by how many records there are."""
    for _ in range(2):
        assert "random" in run(BY_SWITCH, SWITCH="draws")[0][1]
    given_up = run(BY_SWITCH, SWITCH="breaks")
    assert given_up[:4] == [["traced", WHY], *[["traced", given_up[1][1]]] * 3], given_up
    assert all("records of its being given up are kept" in detail for _, detail in given_up[4:]), given_up
    checked = run(BY_SWITCH, SWITCH="breaks", WARMGRAPH_VERIFY="1")
    assert checked[:4] == [["verified", ""]] * 4, checked
    assert run(BY_SWITCH, SWITCH="no")[0][0] == "traced"
    assert run(BY_SWITCH, SWITCH="no") == [["restored", ""]]
