"""One fresh process on a GPU: everything that a hit must not do is noted. Prints what was done, and when.

    watched.py CASE MODE

Noted are processes that are started, Triton's compiler, and benchmarks; the cases are those of `worker.py`.
"""

import functools
import json
import sys

NOTED = []


def note(event, arguments):
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"):
        # With its command line: most of a cold compile happens in workers, of which the parent sees no more than this.
        NOTED.append(f"{event} {' '.join(map(str, arguments[:2])):.300}")


sys.addaudithook(note)

import torch  # noqa: E402
import triton  # noqa: E402
import triton.compiler.compiler  # noqa: E402
from torch._inductor.runtime import benchmarking, triton_heuristics  # noqa: E402
from worker import CASES, run  # noqa: E402

import warmgraph  # noqa: E402


def watch(owner, name):
    original = getattr(owner, name)

    @functools.wraps(original)  # warmgraph looks at what it takes
    def called(*args, **named):
        NOTED.append(f"{name} of {getattr(owner, '__name__', owner)}")
        return original(*args, **named)

    setattr(owner, name, called)


def main():
    case, mode = sys.argv[1:]
    watch(triton_heuristics.CachingAutotuner, "_precompile_config")
    watch(triton_heuristics.CachingAutotuner, "benchmark_all_configs")
    watch(triton.compiler.compiler, "compile")
    watch(triton, "compile")  # a name of its own for it, and the one that Inductor uses
    for name in ("benchmark", "benchmark_gpu", "benchmark_many_gpu", "benchmark_cpu"):
        for owner in (benchmarking.Benchmarker, benchmarking.TritonBenchmarker, benchmarking.InductorBenchmarker):
            if name in vars(owner):
                watch(owner, name)
    torch.zeros(1, device="cuda")
    before = len(NOTED)
    compiled = run(CASES[case](lambda f, **more: torch.compile(f, backend="warmgraph", mode=mode, **more)))
    done = NOTED[before:]
    warmgraph.flush()
    stats = warmgraph.stats()
    print(
        json.dumps({"done": done, "steps": len(compiled[0]), **{n: stats[n] for n in ("hits", "misses", "failures")}})
    )


if __name__ == "__main__":
    main()
