"""One fresh process: a model, compiled one way, called a few times. Prints one JSON object; judges nothing.

Run as a script by tests and benchmarks:
    python benchmarks/worker.py --model gpt2 --backend warmgraph --what training --out result.pt
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

BEGIN = time.perf_counter()
ONLY_COMPILING = ("torch._inductor.compile_fx", "torch._inductor.lowering", "torch._inductor.scheduler")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", default="warmgraph", help="eager | inductor | warmgraph | warmgraph_cudagraphs")
    parser.add_argument("--what", default="inference", choices=("inference", "training", "both"))
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--calls", type=int, default=1, help="calls to time after the first")
    parser.add_argument("--mode", default=None)
    parser.add_argument("--options", default=None, help="JSON")
    parser.add_argument(
        "--watch", action="store_true", help="list the processes that it starts: each read of a function takes longer"
    )
    parser.add_argument("--out", default=None, help="where to save outputs, gradients and buffers")
    return parser.parse_args(argv)


def watch_processes() -> list[str]:
    """Names of audit events by which this process starts another one, from now on.

    Python asks the hook for each `__code__` and `__defaults__` that is read: a restored call took 0.1 s longer.
    """
    started: list[str] = []
    watched = (
        "subprocess.Popen",
        "os.system",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.exec",
        "os.spawn",
    )

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in watched:
            started.append(f"{event} {str(arguments)[:200]}")

    sys.addaudithook(hook)
    return started


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    import torch
    import torch._dynamo  # what torch.compile imports at its first call; counted apart

    imported = time.perf_counter() - BEGIN
    from models import make

    with torch.device(options.device):
        case = make(options.model, tiny=options.tiny)
    settle(options.device)
    built = time.perf_counter() - BEGIN
    started = watch_processes() if options.watch else []
    before, begin = cpu_seconds(), time.perf_counter()
    compiled = compile_model(case.model, options)
    naming = time.perf_counter() - begin

    calls, saved = {}, {}
    for what in ("inference", "training") if options.what == "both" else (options.what,):
        case.model.train(what == "training")
        calls[what], saved[what] = timed_calls(case, compiled, what, options)
        # Naming a backend is part of it: Inductor is imported then, by warmgraph only when something must be compiled.
        calls[what][0] += naming
        naming = 0.0
    if options.out:
        torch.save(saved, options.out)
    found = result(options, imported, built, calls, started)
    found["norms"] = {what: norms(made) for what, made in saved.items()}
    found["calls_cpu_seconds"] = found["cpu_seconds"] - before
    print(json.dumps(found))
    return 0


def compile_model(model: Any, options: argparse.Namespace) -> Any:
    import torch

    if options.backend == "eager":
        return model
    named: dict[str, Any] = {"mode": options.mode} if options.mode else {}
    if options.options:
        named["options"] = json.loads(options.options)
    return torch.compile(model, backend=options.backend, **named)


def timed_calls(case: Any, compiled: Any, what: str, options: argparse.Namespace) -> tuple[list[float], dict[str, Any]]:
    """Seconds of the first and each later call; what the first call made."""
    import torch

    def call() -> Any:
        if what == "inference":
            with torch.no_grad():
                return compiled(**case.inputs)
        output = compiled(**case.inputs)
        case.loss(output).backward()
        return output

    begin = time.perf_counter()
    output = call()
    synchronize(options.device)
    seconds = [time.perf_counter() - begin]
    made = tensors(case.model, output)
    del output
    for _ in range(options.calls):
        case.model.zero_grad(set_to_none=True)
        begin = time.perf_counter()
        call()
        synchronize(options.device)
        seconds.append(time.perf_counter() - begin)
    return seconds, made


def synchronize(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def tensors(model: Any, output: Any) -> dict[str, Any]:
    """Everything that two runs must agree on; copied, since CUDA graphs write the next call's over it."""
    import torch

    leaves = [leaf for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    return {
        "outputs": [leaf.detach().clone() for leaf in leaves],
        "gradients": {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None},
        "buffers": {name: b.detach().clone() for name, b in model.named_buffers()},
        "type": type(output).__name__,
    }


def result(
    options: argparse.Namespace, imported: float, built: float, calls: dict[str, list[float]], started: list[str]
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "model": options.model,
        "backend": options.backend,
        "import_seconds": imported,
        "build_seconds": built - imported,
        "first_call": {what: seconds[0] for what, seconds in calls.items()},
        "later_calls": {what: seconds[1:] for what, seconds in calls.items()},
        "started": started,
        "modules": [name for name in ONLY_COMPILING if name in sys.modules],
    }
    found["tracing_seconds"] = tracing_seconds()
    found["captured"] = captured()
    if options.device == "cuda":
        found["memory"] = memory()
    if options.backend.startswith("warmgraph"):
        import warmgraph

        warmgraph.flush()
        found["stats"] = warmgraph.stats()
    found["cpu_seconds"] = cpu_seconds()
    return found


def norms(made: dict[str, Any]) -> list[float]:
    """Of each output and of all gradients: by these two runs are told apart without keeping what they made."""
    gradients = [float(gradient.double().norm()) for gradient in made["gradients"].values()]
    return [float(output.double().norm()) for output in made["outputs"]] + [sum(gradients)]


def tracing_seconds() -> float:
    """What Dynamo spent on its own, by its own count: all of its compiles less the time in backends."""
    import torch

    spent = dict(zip(*torch._dynamo.utils.compile_times(repr="csv", aggregate=True), strict=True))
    return float(spent.get("_compile.compile_inner", 0)) - float(spent.get("OutputGraph.call_user_compiler", 0))


def captured() -> int:
    """Operators that Dynamo traced into graphs."""
    import torch

    return int(torch._dynamo.utils.counters["stats"].get("calls_captured", 0))


def settle(device: str) -> None:
    """Wait for the model to be built, and forget the memory that only building it took."""
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def memory() -> dict[str, int]:
    """Bytes: the most that tensors took, and that was held for them, with the pools of CUDA graphs."""
    import torch

    return {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}


def cpu_seconds() -> float:
    """Of this process and of the children that have ended (compilers)."""
    import resource

    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


if __name__ == "__main__":
    sys.exit(main())
