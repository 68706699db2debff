"""One fresh process with a pretended GPU (`gpu.py`): graphs compiled for it through warmgraph; says what was done.

PRETENDED_GPU=LIBRARY program.py CASE,... MODE INDEX [any|workers]

any: torch.compiler.config.compile_on_one_rank. workers: Triton is run by processes of its own, as it is by default.
"""

import ctypes
import json
import os
import sys

ctypes.CDLL(
    os.environ["PRETENDED_GPU"], mode=ctypes.RTLD_GLOBAL
)  # before torch: what it defines takes the place of torch's own

STARTED = []


def note(event, arguments):
    """Processes that are started: ptxas is one."""
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"):
        STARTED.append(" ".join(map(str, arguments[1])))


sys.addaudithook(note)

import gpu  # noqa: E402
import torch  # noqa: E402
from cases import CASES  # noqa: E402
from torch._dynamo.utils import counters  # noqa: E402
from torch._inductor import async_compile  # noqa: E402

import warmgraph  # noqa: E402

MODES = {"cudagraphs": {"mode": "reduce-overhead"}, "no_cudagraphs": {}}


def main():
    cases, mode, index, *options = sys.argv[1:]
    gpu.pretend(int(index))
    if "workers" in options:
        torch._inductor.config.compile_threads = 2
        torch._inductor.config.worker_start_method = "subprocess"
        async_compile.AsyncCompile.wait_pool_ready()
    if "any" in options:
        torch.compiler.config.compile_on_one_rank = True
    print(json.dumps({case: compiled(CASES[case], MODES[mode], index) for case in cases.split(",")}))
    warmgraph.flush()


def compiled(case, options, index):
    """What compiling one case's graph did."""
    backend = torch._dynamo.lookup_backend("warmgraph")
    torch._dynamo.reset()
    before, bundled = warmgraph.stats(), counters["inductor"]["triton_bundler_load_static_autotuner"]
    started = loaded = None

    def to_the_call(gm, inputs, **named):
        nonlocal started, loaded
        STARTED.clear()
        gpu.loaded.clear()
        backend(gm, inputs, **named)
        started, loaded = list(STARTED), [(name, device) for _, name, _, device in gpu.loaded]
        raise Compiled

    with gpu.fake_mode():
        function, inputs = case(lambda *size: torch.empty(*size, device=f"cuda:{index}"))
    try:
        torch.compile(function, backend=to_the_call, **options)(*inputs)
    except Exception as error:
        if "Compiled" not in str(error):
            raise
    after = warmgraph.stats()
    return {
        **{name: after[name] - before[name] for name in ("hits", "misses", "bypasses", "failures")},
        "why": after["reasons"],
        "started": started,
        "loaded": loaded,
        "bundled": counters["inductor"]["triton_bundler_load_static_autotuner"] - bundled,
    }


class Compiled(Exception):
    """It was; the call that nobody can make does not follow."""


main()
