"""Dynamic shapes: several variants under one key, each under its own guards."""

PROGRAM = """
import json, sys, torch, warmgraph

@torch.compile(backend="warmgraph", dynamic=True)
def f(x):
    y = x.sin() * x.shape[0]
    if x.shape[0] > 20:           # a guard: two variants of one key are possible
        return y + x.shape[1]
    return y - x.shape[1]

def eager(x):
    y = x.sin() * x.shape[0]
    return y + x.shape[1] if x.shape[0] > 20 else y - x.shape[1]

agree = []
for rows, columns in json.loads(sys.argv[1]):
    x = torch.arange(float(rows * columns)).reshape(rows, columns)
    agree.append(bool(torch.allclose(f(x), eager(x), atol=1e-6)))
warmgraph.flush()
print(json.dumps({"agree": agree, **warmgraph.stats()}))
"""


def test_each_size_finds_the_variant_whose_guards_hold(run_python):
    """Three sizes cold; then fresh processes with a size that breaks a stored guard, and with one that fits."""
    cold = run_python(PROGRAM, "[[5, 4], [7, 9], [11, 6]]")
    assert all(cold["agree"])
    assert (cold["misses"], cold["hits"]) == (1, 0)

    outside = run_python(PROGRAM, "[[25, 4]]")
    assert all(outside["agree"])
    assert (outside["misses"], outside["hits"]) == (1, 0)

    fits = run_python(PROGRAM, "[[6, 3], [40, 5], [3, 3]]", compiler=False)
    assert all(fits["agree"])
    assert (fits["misses"], fits["hits"], fits["failures"]) == (0, 2, 0)


GUARDED = """
import json, sys, torch, warmgraph

@torch.compile(backend="warmgraph", dynamic=True)
def f(x):
    return torch.nn.functional.pad(x, (0, 3)).view(-1, 3) * 2   # Inductor or AOTAutograd may guard here

agree = []
for n in json.loads(sys.argv[1]):
    x = torch.arange(float(n)).reshape(1, n)
    agree.append(bool(torch.equal(f(x), torch.nn.functional.pad(x, (0, 3)).view(-1, 3) * 2)))
warmgraph.flush()
from pathlib import Path
from warmgraph.cache import DiskStore, settings, store_root
store = DiskStore(store_root(settings()), readonly=True)
entries = [store.read_entry(f.key, f.variant)[0] for f in store.scan()]
print(json.dumps({"agree": agree, "guards": [e.guards for e in entries if "kind" not in e.facts], **warmgraph.stats()}))
"""


def test_a_loaded_entry_guards_as_the_compiled_one_did(run_python):
    """Guards that the compile added hold for the loaded code as well: a size outside them recompiles."""
    cold = run_python(GUARDED, "[6, 9]")
    assert all(cold["agree"])
    assert all(guard for guard in cold["guards"])
    warm = run_python(GUARDED, "[12, 3, 300]", compiler=False)
    assert all(warm["agree"])
    assert warm["hits"] >= 1
    assert warm["misses"] == warm["failures"] == 0


VARIANTS = """
import json, sys, torch, warmgraph

@torch.compile(backend="warmgraph", dynamic=True)
def f(x):
    return (x * 2).sum(0)

sizes = json.loads(sys.argv[1])
agree = []
for n in sizes:
    x = torch.ones(n, 4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=int(sys.argv[2]))
    agree.append(bool(torch.equal(f(x), x.sum(0) * 2)))
warmgraph.flush()
print(json.dumps({"agree": agree, **warmgraph.stats()}))
"""


def test_a_range_given_by_the_user_is_part_of_the_key(run_python):
    """Code compiled for sizes up to 8 may assume it; sizes up to 100 need other code."""
    assert run_python(VARIANTS, "[3, 5]", 8)["misses"] == 1
    wider = run_python(VARIANTS, "[30, 50]", 100)
    assert (wider["misses"], wider["hits"]) == (1, 0)
    assert all(wider["agree"])
    again = run_python(VARIANTS, "[7]", 8, compiler=False)
    assert (again["misses"], again["hits"]) == (0, 1)


OVERLAP = """
import json, sys, torch, warmgraph

def f(x, y):
    x.add_(1)
    return x * y.shape[0] + y.sum()

compiled = torch.compile(f, backend=sys.argv[1], dynamic=True)

def run(function, start):
    base = torch.arange(64.0)
    return function(base[0:8], base[start:start + 9]), base

agree = []
for start in json.loads(sys.argv[2]):
    (one, one_base), (other, other_base) = run(compiled, start), run(f, start)
    agree.append(bool(torch.equal(one, other) and torch.equal(one_base, other_base)))
warmgraph.flush()
print(json.dumps({"agree": agree, **warmgraph.stats()}))
"""


def test_guards_on_overlapping_inputs_survive_a_load(run_python):
    """AOTAutograd guards on which inputs overlap while it compiles; torch's own caches lose these guards."""
    cold = run_python(OVERLAP, "warmgraph", "[20]")
    assert cold["agree"] == [True]
    warm = run_python(OVERLAP, "warmgraph", "[20, 4]")
    assert warm["hits"] >= 1
    assert warm["agree"] == [True, True]
