"""`backend="warmgraph_cudagraphs"`: kinds of graphs, each made in one process and loaded in another without a compiler.

What is in an entry is tested in `test_graph_codec.py`, what is recorded in `test_recordable.py`. Backends side by side:
`constructs/backends.py`.
"""

import json
import subprocess
import sys
import threading

import pytest
import torch
from warmgraph.cache import configure, journal_dir, read, settings

import warmgraph

PROGRAM = """
import json, os, sys, threading, torch, warmgraph
from torch import nn

CASES = {}

def case(function):
    CASES[function.__name__] = function
    return function

@torch.library.custom_op("here::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by

@scaled.register_fake
def _(x, by):
    return torch.empty_like(x)

@torch.library.custom_op("here::bump", mutates_args=("x",))
def bump(x: torch.Tensor) -> None:
    x.add_(1)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("seen", torch.zeros(()))
    def forward(self, x):
        self.seen += 1
        return (self.linear(x) * torch.tensor([1.0, 2.0, 3.0])).relu()

@case
def forward_backward_and_a_buffer(compiled, x):
    torch.manual_seed(1)
    model = Model()
    x.requires_grad_()
    compiled(model)(x).sum().backward()
    return model.seen, x.grad, model.linear.weight.grad

@case
def a_backward_kept_for_a_second(compiled, x):
    x.requires_grad_()
    out = compiled(lambda x: x.exp().sin().sum())(x)
    out.backward(retain_graph=True)
    out.backward()
    return x.grad

@case
def inputs_mutated(compiled, x):
    view = x[0]
    parts = [torch.ones(2), torch.zeros(2)]
    def f(x, parts):
        x.mul_(2)
        x.t()[1].add_(3)
        torch._foreach_add_(parts, 1)
        return x.sum() + parts[0]
    return compiled(f)(x, parts), x, view, parts

@case
def an_input_given_another_storage(compiled, x):
    y = torch.arange(3.0)
    def f(x, y):
        x.set_(y * 2)
        return x + 1
    with torch.no_grad():
        return compiled(f)(x, y), x

@case
def sizes_that_vary(compiled, x):
    f = compiled(lambda x: (x.reshape(-1) * x.shape[0], x.new_ones(x.shape[0] // 2 + 1), x.shape[1] * 3), dynamic=True)
    return [f(torch.ones(n, 4)) for n in (5, 7, 2)]

@case
def dropout(compiled, x):
    torch.manual_seed(7)
    return compiled(lambda x: nn.functional.dropout(x, 0.5) + torch.rand_like(x))(x)

@case
def views_and_inputs_returned(compiled, x):
    same, view, other, none = compiled(lambda x: (x, x[1:], x[::2, 1:], None))(x)
    view.add_(1)
    return same, other, x, torch.tensor([same is x, view._base is x])

@case
def operators_of_the_users(compiled, x):
    def f(x):
        y = scaled(x, 2.5)
        bump(y)
        return y
    return compiled(f)(x)

@case
def a_nested_region(compiled, x):
    region = torch.compiler.nested_compile_region(lambda x: x.sin() * 2)
    x.requires_grad_()
    compiled(lambda x: region(region(x)))(x).sum().backward()
    return x.grad

@case
def odd_kinds(compiled, x):
    def f(x):
        low = x.to(torch.bfloat16) * torch.tensor([1.0, 2.0, 3.0, 4.0], dtype=torch.bfloat16)
        wave = x.to(torch.complex64) * (1 + 2j)
        return low, wave, x[:0], x.double().mean(), x.new_full((2,), float("inf")), x > 1, x[:, ::2].contiguous()
    return compiled(f)(x)

def leaves(value):
    return [v.detach() for v in torch.utils._pytree.tree_leaves(value) if isinstance(v, torch.Tensor)]

def backend(function, **options):
    return torch.compile(function, backend="warmgraph_cudagraphs", **options)

def eager(function, **options):
    return function

found = {}
for name, function in CASES.items():
    torch._dynamo.reset()
    before = warmgraph.stats()
    got = leaves(function(backend, torch.arange(12.0).reshape(3, 4) / 7))
    want = leaves(function(eager, torch.arange(12.0).reshape(3, 4) / 7))
    agree = len(got) == len(want) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride() and torch.equal(a, b)
        for a, b in zip(got, want)
    )
    after = warmgraph.stats()
    counts = {k: after[k] - before[k] for k in ("hits", "misses", "bypasses", "failures", "skipped")}
    found[name] = {"agree": agree, **counts}

def first_calls(numbers):
    wrong = []
    start = threading.Barrier(16)
    def work(number):
        f = eval(f"lambda x: x.sin() * {number}")  # code of its own: else it is one function, recompiled
        start.wait()
        x = torch.ones(3, requires_grad=True)
        backend(f)(x).sum().backward()
        if not torch.equal(x.grad, torch.ones(3).cos() * number):
            wrong.append(number)
    threads = [threading.Thread(target=work, args=(number,)) for number in numbers]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return wrong

torch._dynamo.reset()
found["wrong in threads"] = first_calls(range(16))
found["compilers"] = [m for m in sys.modules if m in ("torch._inductor.compile_fx", "torch._inductor.lowering",
                                                     "torch._inductor.graph")]
warmgraph.flush()
found["counts"] = {k: warmgraph.stats()[k] for k in ("hits", "misses", "bypasses", "failures")}
print(json.dumps(found), flush=True)
if torch.__version__.startswith("2.12."):  # where sixteen threads have run a backward, plain torch aborts as it ends
    os._exit(0)
"""
NAMES = [line.split()[1].split("(")[0] for line in PROGRAM.splitlines() if line.endswith("(compiled, x):")]


@pytest.fixture(scope="module")
def runs(together, run_in, once):
    """All cases in a cold process and in a warm one without a compiler, with the events of the latter."""
    folder = together / "cudagraphs"
    (folder / "bin").mkdir(parents=True, exist_ok=True)

    def run():
        (folder / "program.py").write_text(PROGRAM)
        cold = run_in(folder, "program.py", WARMGRAPH_PGO="0", PATH=str(folder / "bin"))
        warm = run_in(folder, "program.py", WARMGRAPH_PGO="0", PATH=str(folder / "bin"))
        return [cold, warm, read_all(folder / "store" / "journal")]

    return once("cudagraphs", run)


def read_all(journal):
    told = ("outcome", "reason", "detail", "backend", "pid")
    return [{name: event[name] for name in told} for event in read(journal)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_a_kind_is_what_eager_is_and_hits_in_a_fresh_process(name, runs):
    """Bit for bit, cold and warm. Neither needs a compiler."""
    cold, warm = runs[0][name], runs[1][name]
    assert cold["agree"]
    assert warm["agree"]
    assert cold["failures"] == warm["failures"] == cold["bypasses"] == 0
    assert cold["misses"] >= 1
    assert (warm["hits"], warm["misses"]) == (cold["hits"] + cold["misses"], 0)


@pytest.mark.exhaustive
@pytest.mark.skipif(torch.__version__.startswith("2.11."), reason="plain Inductor ends with a segmentation fault, too")
def test_sixteen_threads_make_their_first_calls_at_once(runs):
    """Each gets its own graph, forward and backward, cold and warm."""
    assert [run["wrong in threads"] for run in runs[:2]] == [[], []]
    assert runs[1]["counts"]["misses"] == 0


@pytest.mark.exhaustive
def test_a_hit_imports_no_compiler(runs):
    """Nothing of Inductor that only compiling needs."""
    assert runs[1]["compilers"] == []


@pytest.mark.exhaustive
def test_on_a_cpu_each_graph_says_that_it_runs_without_cuda_graphs(runs):
    """Once per graph, with the input and the user's line; every event names the backend."""
    events = runs[2]
    assert {event["backend"] for event in events} == {"warmgraph_cudagraphs"}
    skipped = [event for event in events if event["outcome"] == "skipped"]
    assert {event["reason"] for event in skipped} == {"skip-cpu"}
    assert len(skipped) == sum(event["outcome"] in ("hit", "miss") for event in events)
    assert any("input L['x']" in event["detail"] and "program.py:" in event["detail"] for event in skipped)
    for name in NAMES:
        assert runs[1][name]["skipped"] == runs[1][name]["hits"]


def compiled(function, **options):
    return torch.compile(function, backend="warmgraph_cudagraphs", **options)


def events():
    warmgraph.flush()
    return list(read(journal_dir(settings())))


@pytest.fixture
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.skipif(torch.__version__.startswith("2.11."), reason="one set of settings for all threads")
def test_a_hit_is_verified_against_a_fresh_graph(fresh):
    """With `verify=1` the traced graph goes through AOTAutograd again, in the background, and agrees."""
    configure(strict=True, pgo=False)
    x = torch.ones(3, requires_grad=True)

    def f(x):
        return x.sin() * 2

    compiled(f)(x)
    torch._dynamo.reset()
    configure(strict=True, pgo=False, verify=1.0)
    again = compiled(f)
    before = warmgraph.stats()["verified"]
    for _ in range(200):
        again(x).sum().backward()
        if warmgraph.stats()["verified"] > before:
            break
        for thread in threading.enumerate():
            if thread.name == "warmgraph-verify":
                thread.join(30)
    assert [event["reason"] for event in events() if event["outcome"] == "verified"] == [None]


def test_switched_off_it_is_torchs_own_backend(fresh):
    """`mode=off`: no key, no event, the same result."""
    configure(mode="off")
    x = torch.arange(3.0, requires_grad=True)
    compiled(lambda x: x.sin().sum())(x).backward()
    assert torch.equal(x.grad, torch.arange(3.0).cos())
    assert events() == []


def test_the_setting_that_changes_the_graph_is_in_the_key(fresh):
    """`cudagraph_backend_keep_input_mutation` keeps the mutation in the graph: another graph, another entry."""
    configure(strict=True, pgo=False)
    for keep in (False, True, False, True):
        torch._dynamo.reset()
        with torch._dynamo.config.patch(cudagraph_backend_keep_input_mutation=keep):
            x = torch.ones(3)
            compiled(lambda x: x.mul_(2))(x)
            assert torch.equal(x, torch.full((3,), 2.0))
    assert [event["outcome"] for event in events() if event["outcome"] != "skipped"] == ["miss", "miss", "hit", "hit"]


def test_what_cannot_be_kept_is_a_bypass_with_its_node(fresh):
    """A constant of the graph that it writes to: another process would begin with another value."""
    configure(strict=True, pgo=False)
    from warmgraph.backend.compilers.aot_cudagraphs import EagerCode

    def odd(self, *_):
        gm = torch.fx.GraphModule({}, torch.fx.Graph())
        gm.graph.output((gm.graph.call_function(print, ()),))
        self.gm = gm

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EagerCode, "prepare_for_serialization", odd)
        compiled(lambda x: x + 1)(torch.ones(2))
    (event,) = [event for event in events() if event["outcome"] == "bypass"]
    assert event["reason"] == "not-serialisable"
    assert "node print" in event["detail"]


def test_an_entry_is_shown_with_its_graphs(fresh, tmp_path):
    """`warmgraph show KEY --graph`: the blobs of the role `graph`, and AOTAutograd's graphs as text."""
    configure(strict=True, pgo=False)
    compiled(lambda x: x.tanh() + 5)(torch.ones(2))
    (key,) = [event["key"] for event in events() if event["outcome"] == "miss"]
    shown = subprocess.run(
        [sys.executable, "-m", "warmgraph", "show", key, "--graph", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    (entry,) = json.loads(shown.stdout)["entries"]
    assert [blob["name"] for blob in entry["blobs"] if blob["role"] == "graph"] == ["forward"]
    assert "aten.tanh" in "".join(entry["graphs"].values())
