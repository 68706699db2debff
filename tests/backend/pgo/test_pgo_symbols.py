"""Symbols of every kind through the cache, cold and warm, and under a profile that allocates more of them than stay."""

import json
from pathlib import Path

import pytest

WORKER = Path(__file__).resolve().parents[3] / "benchmarks" / "pgo_worker.py"
RUN_WORKER = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
# [kept, extra, shuffle]; `benchmarks/symbols.py` tries more shuffles, and torch's own cache beside ours
CASES = json.dumps([[2, 3, 0], [2, 3, 1], [6, 6, 0], [12, 12, 0], [32, 32, 0]])


@pytest.mark.exhaustive
def test_keys_are_stable_under_profiles(run_python, tmp_path):
    """pytorch#149665: of 2 to 32 inputs that stay symbolic, none costs a miss when others came and went beside them.

    With torch's own profile, which tests the slots alone; and with ours, by another rank whose code lies elsewhere.
    """

    def run(folder, calls, **extra):
        return run_python(RUN_WORKER, WORKER, "warmgraph", tmp_path / folder, calls, CASES, **extra)

    shuffles = len(json.loads(CASES))
    cold = run("first", "ABC", TORCH_COMPILE_JOB_ID="job")
    assert [row["misses"] for row in cold] == [3] * shuffles
    torchs = run("first", "B", TORCH_COMPILE_JOB_ID="job", WARMGRAPH_PGO="0")
    ours = run("second", "B", TORCH_COMPILE_JOB_ID="job", RANK="1", compiler=False)
    for warm in (torchs, ours):
        assert [(row["hits"], row["misses"]) for row in warm] == [(1, 0)] * shuffles
        assert all(row["agree"] for row in warm)


KINDS = """
import json, sys, torch, warmgraph
torch._dynamo.config.capture_scalar_outputs = True
torch._dynamo.config.capture_dynamic_output_shape_ops = True

def expressions(x):
    n = x.shape[0]
    return x.new_zeros(2 * n + 1).sort().values, x.view(n // 2, 2).t().sort().values, torch.arange(n * n - 1)

def strides(x):
    y = x.expand(x.shape[0] + 3, x.shape[0]).sort().values
    return y.t(), y[1:-1], y[:, : x.shape[0] // 2]

def constants(x):
    return torch.full((x.shape[0],), x.shape[0] * 1.5).sort().values, x.shape[0] + 7, torch.sym_max(x.shape[0], 9)

def unbacked(x):
    found = x.nonzero()
    return found.sort().values, found.shape[0] * 2, x.new_zeros(found.shape[0] + x.shape[0])

def unbacked_item(x):
    n = x.sum().long().item()
    torch._check(n >= 0)
    torch._check(n < 10000)
    return x.sort().values[: n + 1], n

def unbacked_bool(x):
    return torch.full((x.shape[0],), (x.sum() > 5).item())

@torch.compiler.nested_compile_region
def inner(x):
    return x.sort().values[: x.shape[0] - 1]

def nested(x):
    y = x.clone().requires_grad_()
    z = torch.utils.checkpoint.checkpoint(lambda x: (x * x.shape[0]).cumsum(0), y, use_reentrant=False)
    return inner(x), inner(x.flip(0)), z

def numbers(x, scale: float = 0.0, n: int = 0, flag: bool = False):
    y = (x * scale)[:n]
    return y * 2 if flag else y

def same(one, other):
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other) and one.stride() == other.stride() and one.dtype == other.dtype
    return all(map(same, one, other)) if isinstance(one, tuple) else one == other

DYNAMIC = [expressions, strides, constants, unbacked, unbacked_item, unbacked_bool, nested]
compiled = {f: torch.compile(f, backend="warmgraph", dynamic=True) for f in DYNAMIC}
compiled[numbers] = torch.compile(numbers, backend="warmgraph")
rows = {}
for size in json.loads(sys.argv[1]):
    for f, run in compiled.items():
        x = torch.arange(float(size)) % 3
        arguments = (x, size / 7, size + 1, size > 10) if f is numbers else (x,)
        before = warmgraph.stats()
        agree = same(run(*arguments), f(*arguments))
        now = warmgraph.stats()
        row = rows.setdefault(f.__name__, {"agree": True, "hits": 0, "misses": 0, "others": 0})
        row["agree"] &= agree
        row["hits"] += now["hits"] - before["hits"]
        row["misses"] += now["misses"] - before["misses"]
        row["others"] += now["bypasses"] + now["failures"] - before["bypasses"] - before["failures"]
warmgraph.flush()
print(json.dumps(rows))
"""


@pytest.mark.exhaustive
def test_symbols_of_every_kind_are_cold_and_warm_as_in_eager(run_python):
    """Expressions, strides, constants, unbacked sizes, ints and bools, nested graphs, floats and flags."""
    cold = run_python(KINDS, "[12, 14]")
    warm = run_python(KINDS, "[16, 18]", compiler=False)
    assert {name: row["agree"] for name, row in (cold | warm).items()} == dict.fromkeys(cold, True)
    assert {name for name, row in cold.items() if row["misses"] < 1 or row["others"]} == set()
    assert {name for name, row in warm.items() if row["misses"] or row["others"]} == set()
    assert all(row["hits"] >= 1 for row in warm.values())
