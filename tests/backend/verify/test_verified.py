"""Verified hits, in fresh processes: what agrees is left alone, what differs is found, told and taken away.

The wrong entries are real ones: both processes use a key that forgets the constants of a graph.
"""

import os
import threading
import time

import pytest
from warmgraph.backend import frames_unsupported
from warmgraph.backend.verify.isolated import impossible_here
from warmgraph.backend.verify.verified import VerifiedHit

comparable = pytest.mark.skipif(
    impossible_here() is not None, reason="this torch has one set of settings for all threads"
)

PROGRAM = """
import json, sys, time, torch, warmgraph
import warmgraph.backend.engine as engine
from msgspec.structs import replace
from warmgraph.backend.verify.background import _threads
from warmgraph.cache import journal_dir, read, settings
from warmgraph.hashing import Part

V = float(sys.argv[1])
real = engine.key_of

def careless(gm, inputs, context):
    key = real(gm, inputs, context)
    graph = Part.of("graph", ["some graph of %d nodes" % key.nodes])
    return replace(key, parts=(graph, *key.parts[1:]))

engine.key_of = careless

class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.inner = torch.nn.Linear(8, 8)
        self.norm = torch.nn.BatchNorm1d(8)
    def forward(self, x):
        return torch.nn.functional.dropout(self.norm(self.inner(x)), 0.5) * 2

def scaled(x): return x.sin() * V
def mutating(x): return x.add_(V).cos()
def with_gradient(x): return (x.sin() * V).sum()
def shared(x, y): x.mul_(2); return x + y

CASES = {
    "scaled": (scaled, lambda: [torch.linspace(0, 1, 12)]),
    "mutating": (mutating, lambda: [torch.linspace(0, 1, 13)]),
    "with_gradient": (with_gradient, lambda: [torch.linspace(0, 1, 14).requires_grad_()]),
    "norm": (Norm(), lambda: [torch.ones(4, 8)]),
    "shared": (shared, lambda: (lambda b: [b[:4], b[4:]])(torch.ones(8))),
}

def settled():
    for thread in list(_threads):
        thread.join()

out = {}
for name in sys.argv[2:]:
    function, make = CASES[name]
    compiled = torch.compile(function, backend="warmgraph")
    seen = []
    for call in range(4):
        inputs = make()
        torch.manual_seed(call)
        result = compiled(*inputs)
        if result.requires_grad:
            result.sum().backward()
        settled()
        seen.append([result.detach().sum().item(), inputs[0].detach().sum().item(),
                     inputs[0].grad.sum().item() if inputs[0].grad is not None else None, torch.rand(1).item()])
    buffers = [b.double().sum().item() for b in function.buffers()] if isinstance(function, torch.nn.Module) else []
    grads = [p.grad.sum().item() for p in function.parameters()] if isinstance(function, torch.nn.Module) else []
    out[name] = {"calls": seen, "state": buffers + grads}
warmgraph.flush()
events = [e for e in read(journal_dir(settings()), None)]
print(json.dumps({"out": out, "stats": warmgraph.stats(), "events": events}))
"""

ALL = ("scaled", "mutating", "with_gradient", "norm", "shared")


def run(run_python, version, *cases, **environment):
    return run_python(PROGRAM, str(version), *cases, **environment)


def verdicts(found):
    return {e["function"]: e for e in found["events"] if e["outcome"] == "verified"}


@pytest.fixture
def cold(run_python):
    return run(run_python, 2, *ALL)


@comparable
def test_hits_that_agree_are_left_alone_and_leave_no_trace(run_python, cold):
    """Outputs, gradients, buffers and random numbers are those of a process that checks nothing."""
    plain = run(run_python, 2, *ALL)
    checked = run(run_python, 2, *ALL, WARMGRAPH_VERIFY="1", WARMGRAPH_FRAMES="0")
    with_frames = run(run_python, 2, *ALL, WARMGRAPH_VERIFY="1")  # a frame that is restored is traced as well, then
    assert [one["stats"]["hits"] for one in (plain, checked, with_frames)] == [len(ALL)] * 3
    assert checked["out"] == with_frames["out"] == plain["out"]
    assert with_frames["stats"]["verified"] == (2 if frames_unsupported() is None else 1) * len(ALL)
    found = verdicts(checked)
    assert {name: e["reason"] for name, e in found.items()} == {
        **dict.fromkeys(["scaled", "mutating", "with_gradient", "forward"], None),
        "shared": "not-comparable",
    }
    assert "share a storage" in found["shared"]["detail"]
    assert checked["stats"]["verified"] == len(ALL)


@comparable
def test_a_wrong_hit_is_found_told_and_taken_away(run_python, cold):
    """The process goes on with right results, and the next one compiles anew."""
    wrong = run(run_python, 3, "scaled", "mutating", "with_gradient")
    assert wrong["stats"]["hits"] == 3
    assert wrong["out"] == {name: cold["out"][name] for name in wrong["out"]}  # so the check below can fail

    found = run(run_python, 3, "scaled", "mutating", "with_gradient", WARMGRAPH_VERIFY="1")
    reasons = {name: (e["reason"], e["detail"].split(":")[0]) for name, e in verdicts(found).items()}
    assert reasons["scaled"] == ("differs", "output 0")
    assert reasons["mutating"][0] == reasons["with_gradient"][0] == "differs"
    after = run(run_python, 3, "scaled", "mutating", "with_gradient")
    assert after["stats"]["hits"] == 0, "the wrong entries are still served"
    for name in wrong["out"]:
        last, right = found["out"][name]["calls"][-1], after["out"][name]["calls"][-1]
        assert [v or 0.0 for v in last] == pytest.approx([v or 0.0 for v in right], rel=1e-5), name


LAST_CALL = (
    PROGRAM.split("out = {}")[0]
    + """
from concurrent.futures import ThreadPoolExecutor

compiled = torch.compile(scaled, backend="warmgraph")
x = torch.linspace(0, 1, 12)
compiled(x)
if sys.argv[2] == "threads":
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: [compiled(x) for _ in range(2000)][-1].sum().item(), range(8)))
    settled()
    with ThreadPoolExecutor(8) as pool:
        results += pool.map(lambda _: [compiled(x) for _ in range(200)][-1].sum().item(), range(8))
else:
    results = [compiled(x).sum().item()]
print(json.dumps({"results": results, "right": (x.sin() * V).sum().item(), "stats": warmgraph.stats()}))
"""
)


@comparable
def test_a_process_may_end_in_the_middle_of_a_fresh_compile(run_python, cold):
    """Exit status 0, and soon: run_python fails on any other."""
    found = run_python(LAST_CALL, "2", "end", WARMGRAPH_VERIFY="1")
    assert (found["stats"]["hits"], found["stats"]["verified"]) == (1, 0)


STOPPED = """
import atexit, json
atexit.register(lambda: print(json.dumps({"points": points, "alive": any(t.is_alive() for t in _threads)})))
""" + LAST_CALL.replace(
    "compiled = torch",
    """
from warmgraph.backend.verify import isolated

points = {}
def counted(original=isolated.stop_point):
    where = sys._getframe(1).f_back.f_code.co_name
    points[where] = points.get(where, 0) + 1
    try:
        original()
    except SystemExit:
        points["stopped"] = True
        raise

isolated.stop_point = counted
compiled = torch""",
    1,
)


@comparable
def test_a_fresh_compile_stops_where_it_may(run_python, cold):
    """At the end of a process, and nowhere else: at a phase, a node that is traced or one that is lowered."""
    end = run_python(STOPPED, "2", "end", WARMGRAPH_VERIFY="1")
    assert end["points"].pop("stopped") and not end["alive"]
    whole = run_python(STOPPED + "\nsettled()", "2", "end", WARMGRAPH_VERIFY="1")
    assert {"dynamo_timed", "run"} <= whole["points"].keys() and "stopped" not in whole["points"]
    assert sum(whole["points"].values()) > sum(end["points"].values())


IMPORTING = """
import atexit
atexit.register(lambda: __import__("wave"))  # as torch does: what is registered first is called last
import _imp, time
from warmgraph.backend.verify.background import run_in_background, stop_point

def job():
    while True:
        _imp.acquire_lock()  # as each import statement does
        time.sleep(0.01)
        _imp.release_lock()
        stop_point()

run_in_background(job)
time.sleep(0.1)
"""


def test_a_process_that_ends_leaves_no_lock_held(run_python):
    """A job is stopped at its own stop points: thrown out of an import, it would hold up every import after it."""
    run_python(IMPORTING)


def test_threads_that_share_a_hit_get_one_verdict(run_python, cold):
    found = run_python(LAST_CALL, "2", "threads", WARMGRAPH_VERIFY="1")
    assert found["results"] == pytest.approx([found["right"]] * 16)
    assert (found["stats"]["hits"], found["stats"]["verified"]) == (1, 1)


CALLED_WHILE_TRACING = (
    PROGRAM.split("out = {}")[0]
    + """
import threading
from warmgraph.backend.verify.isolated import _unseen

compiled = torch.compile(scaled, backend="eager")
x = torch.linspace(0, 1, 12)
compiled(x)
begun, called = threading.Event(), threading.Event()

class Slow(torch.fx.Tracer):
    def create_node(self, *args, **named):
        begun.set()
        assert called.wait(60)
        return super().create_node(*args, **named)

def trace():
    with _unseen():
        Slow().trace(scaled)

thread = threading.Thread(target=trace)
thread.start()
assert begun.wait(60)
result = compiled(x)
called.set()
thread.join()
refused = False
try:
    torch.fx.symbolic_trace(compiled)
except RuntimeError:
    refused = True
print(json.dumps({"sum": result.sum().item(), "right": scaled(x).sum().item(), "refused": refused}))
"""
)


def test_a_step_runs_while_the_fresh_compile_traces(run_python):
    """torch refuses to run a compiled function while anything traces, in whichever thread; a check must not be that.

    In its own thread a user's trace of a compiled function is refused as ever.
    """
    found = run_python(CALLED_WHILE_TRACING, "2")
    assert found["sum"] == found["right"]
    assert found["refused"]


def test_nothing_is_verified_unless_it_is_asked_for(run_python, cold):
    assert run(run_python, 2, "scaled")["stats"]["verified"] == 0
    assert run(run_python, 2, "scaled", WARMGRAPH_VERIFY="0")["stats"]["verified"] == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_waits_for_no_step():
    """A step runs the graph and tells of it, under locks that a fork holds meanwhile: one would wait for the other."""
    begun, go = threading.Event(), threading.Event()
    hit = VerifiedHit(lambda x: x, lambda x: x, frozenset(), None, None, lambda verdict: None)
    hit._step = lambda inputs: begun.set() or go.wait(20)
    thread = threading.Thread(target=hit, args=(1,))
    thread.start()
    begun.wait()
    try:
        since = time.monotonic()
        child = os.fork()
        if child == 0:  # whose lock nobody holds
            os._exit(0 if hit._lock.acquire(blocking=False) else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert time.monotonic() - since < 10
    finally:
        go.set()
        thread.join()
