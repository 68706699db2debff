"""One fresh process with a pretended GPU (`gpu.py`): compile a graph for it through warmgraph, and say what was done.

program.py LIBRARY CASE MODE INDEX [any]      any: torch.compiler.config.compile_on_one_rank
"""

import ctypes
import json
import sys

ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)  # before torch: what it defines takes the place of torch's own

STARTED = []


def note(event, arguments):
    """Processes that are started: ptxas is one."""
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"):
        STARTED.append(str(arguments[0]))


sys.addaudithook(note)

import gpu  # noqa: E402
import torch  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402

import warmgraph  # noqa: E402


def pointwise(new):
    return lambda x, y: (torch.relu(x) * y + 1).sum(-1), (new(64, 64), new(64, 64))


def several(new):
    """Two reductions with a matrix product between: two kernels, and a call of cuBLAS."""
    return lambda x, w: torch.softmax(torch.softmax(x, -1) @ w, -1), (new(64, 32), new(32, 48))


def training(new):
    return lambda x, w: torch.tanh(x * w).cumsum(-1).relu().sum(), (new(32, 64), new(64).requires_grad_())


def factories(new):
    def f(x):
        where = torch.arange(x.size(0), device=x.device)
        return torch.where(where[:, None] % 2 == 0, x, torch.zeros_like(x))

    return f, (new(64, 16),)


def random(new):
    return lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x), (new(64, 16),)


def sizes(new):
    def f(x):
        return (x * 2 + x.size(0)).amax(-1)

    x = new(48, 64)
    torch._dynamo.mark_dynamic(x, 0)
    return f, (x,)


def mutation(new):
    def f(x, buffer):
        buffer.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return x - buffer

    return f, (new(64, 32), new(32))


CASES = {f.__name__: f for f in (pointwise, several, training, factories, random, sizes, mutation)}
MODES = {"cudagraphs": {"mode": "reduce-overhead"}, "no_cudagraphs": {}}


def main():
    library, case, mode, index, *options = sys.argv[1:]
    gpu.pretend(int(index), library)
    if "any" in options:
        torch.compiler.config.compile_on_one_rank = True
    backend = torch._dynamo.lookup_backend("warmgraph")
    done = []

    def compiled(gm, inputs, **named):
        started = len(STARTED)
        backend(gm, inputs, **named)
        done.append(len(STARTED) - started)
        raise Compiled

    with gpu.fake_mode():
        function, inputs = CASES[case](lambda *size: torch.empty(*size, device=f"cuda:{index}"))
    try:
        torch.compile(function, backend=compiled, **MODES[mode])(*inputs)
    except Exception as error:
        if "Compiled" not in str(error):
            raise
    warmgraph.flush()
    stats = warmgraph.stats()
    print(
        json.dumps(
            {
                **{name: stats[name] for name in ("hits", "misses", "bypasses", "failures", "reasons")},
                "started": done,
                "loaded": [(name, device) for _, name, _, device in gpu.loaded],
                "bundled": counters["inductor"]["triton_bundler_load_static_autotuner"],
            }
        )
    )


class Compiled(Exception):
    """It was; the call that nobody can make does not follow."""


main()
