"""One fresh process with a pretended GPU that has memory: frames traced or restored, and what became of each.

PRETENDED_GPU=LIBRARY PRETENDED_MEMORY=LIBRARY framed.py '{"index": 0, "count": 2, ...}' CASE,... [MODE [CHANGE]]

Kernels are launched and do nothing, so a case gives what its frame found out while it was traced, beside its result.
"""

import ctypes
import json
import os
import sys

ctypes.CDLL(os.environ["PRETENDED_GPU"], mode=ctypes.RTLD_GLOBAL)  # before torch

STARTED = []


def note(event, arguments):
    """Processes that are started: ptxas is one."""
    if event in ("subprocess.Popen", "os.posix_spawn", "os.fork"):
        STARTED.append(" ".join(map(str, arguments[1])) if arguments else event)


sys.addaudithook(note)

import gpu  # noqa: E402
import torch  # noqa: E402
import torch._inductor.compile_fx  # noqa: E402  (before its names are replaced)
from framed_cases import CASES, CHANGES  # noqa: E402

import warmgraph  # noqa: E402


def main():
    pretended, cases, *mode = json.loads(sys.argv[1]), sys.argv[2].split(","), *sys.argv[3:]
    if len(mode) > 1:
        CHANGES[mode.pop()]()
    gpu.pretend(**pretended)
    gpu.with_memory(pretended["index"])
    torch.manual_seed(0)
    print(json.dumps({case: outcome(CASES[case], *mode) for case in cases}))
    warmgraph.flush()


def outcome(case, mode=None):
    torch._dynamo.reset()
    STARTED.clear()
    before, launched = warmgraph.stats(), len(gpu.launched)
    function, inputs = case()
    found = torch.compile(function, backend="warmgraph", mode=mode)(*inputs)
    tensor, said = found if isinstance(found, tuple) else (found, None)
    if tensor.requires_grad:
        tensor.sum().backward()
    after = warmgraph.stats()
    why = {name: count - before["frames"].get(name, 0) for name, count in after["frames"].items()}
    return {
        **{name: after[name] - before[name] for name in ("restored", "traced", "hits", "misses", "bypasses")},
        "why": [name for name, count in why.items() if count],
        "launched": len(gpu.launched) - launched,
        "grids": [what[1:4] for what in gpu.launched[-2:]],
        "started": sum("--version" not in command for command in STARTED),
        "result": [str(tensor.device), list(tensor.shape), said],
        "eager": case()[0](*inputs)[1] if isinstance(found, tuple) else None,
    }


if __name__ == "__main__":
    main()
