"""A compiled function in forked children and in several threads at once."""

import pytest
import torch

FORKED = """
import json, multiprocessing, torch, warmgraph

def f(x):
    return (x * 5).cos()

def child(queue):
    x = torch.arange(4.0)
    out = torch.compile(f, backend="warmgraph")(x)
    queue.put([bool(torch.allclose(out, f(x))), warmgraph.stats()["hits"], warmgraph.stats()["misses"]])

if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.compile(f, backend="warmgraph")(torch.arange(4.0))
    warmgraph.flush()
    torch._dynamo.reset()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=child, args=(queue,)) for _ in range(2)]
    [c.start() for c in children]
    found = [queue.get(timeout=120) for _ in children]
    [c.join() for c in children]
    print(json.dumps(found))
"""


def test_a_forked_child_goes_on_with_the_cache(run_python):
    """The child's counts are its own; its locks, queue and thread are fresh."""
    assert run_python(FORKED) == [[True, 1, 0], [True, 1, 0]]


THREADS = """
import json, threading, torch, warmgraph

# Functions of their own: one function over several captured numbers would be made dynamic in them, in the
# order in which the threads come.
functions = [
    lambda x: x * 1.5 + x.sin(),
    lambda x: x * 2.5 + x.cos(),
    lambda x: x * 3.5 + x.tanh(),
    lambda x: x * 4.5 + x.exp(),
]
# Here and not in the threads: torch registers a backend found by name without a lock.
compiled = [torch.compile(function, backend="warmgraph", dynamic=False) for function in functions]
found = []

def work(k):
    x = torch.arange(8.0)
    out = compiled[k % 4](x)
    found.append(bool(torch.allclose(out, functions[k % 4](x), atol=1e-6)))

threads = [threading.Thread(target=work, args=(k,)) for k in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
warmgraph.flush()
print(json.dumps({"found": found, **warmgraph.stats()}))
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(torch.__version__.startswith("2.11."), reason="plain Inductor ends with a segmentation fault, too")
def test_sixteen_threads_make_their_first_calls_at_once(run_python):
    """All right, nothing failed; on a warm store nothing is compiled."""
    cold = run_python(THREADS)
    assert cold["found"] == [True] * 16
    assert cold["failures"] == 0
    warm = run_python(THREADS, compiler=False)
    assert warm["found"] == [True] * 16
    assert (warm["misses"], warm["failures"]) == (0, 0)
