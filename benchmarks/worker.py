"""One fresh process: a model, compiled one way, called a few times. Prints one JSON object; judges nothing.

Run as a script by tests and benchmarks:
    python benchmarks/worker.py --model gpt2 --backend warmgraph --train --out result.pt
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

BEGIN = time.perf_counter()


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", default="warmgraph", help="eager | inductor | warmgraph")
    parser.add_argument("--train", action="store_true", help="forward and backward instead of inference")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--calls", type=int, default=1, help="calls to time after the first")
    parser.add_argument("--mode", default=None)
    parser.add_argument("--options", default=None, help="JSON")
    parser.add_argument("--out", default=None, help="where to save outputs, gradients and buffers")
    return parser.parse_args(argv)


def watch_processes() -> list[str]:
    """Names of audit events by which this process starts another one, from now on."""
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

    case = make(options.model, tiny=options.tiny)
    model = case.model.train(options.train)
    built = time.perf_counter() - BEGIN
    started = watch_processes()

    compiled: Any = model
    if options.backend != "eager":
        named: dict[str, Any] = {"mode": options.mode} if options.mode else {}
        if options.options:
            named["options"] = json.loads(options.options)
        compiled = torch.compile(model, backend=options.backend, **named)

    def call() -> Any:
        if not options.train:
            with torch.no_grad():
                return compiled(**case.inputs)
        model.zero_grad(set_to_none=True)
        output = compiled(**case.inputs)
        case.loss(output).backward()
        return output

    seconds, output = [], None
    for number in range(1 + options.calls):
        begin = time.perf_counter()
        output = call()
        seconds.append(time.perf_counter() - begin)
        if number == 0 and options.out:
            save(options.out, model, output)
    print(json.dumps(result(options, imported, built, seconds, started)))
    return 0


def save(path: str, model: Any, output: Any) -> None:
    import torch

    leaves = [leaf.detach() for leaf in torch.utils._pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    buffers = {name: b.detach() for name, b in model.named_buffers()}
    torch.save({"outputs": leaves, "gradients": gradients, "buffers": buffers, "type": type(output).__name__}, path)


def result(
    options: argparse.Namespace, imported: float, built: float, seconds: list[float], started: list[str]
) -> dict[str, Any]:
    import resource

    found: dict[str, Any] = {
        "model": options.model,
        "backend": options.backend,
        "train": options.train,
        "import_seconds": imported,
        "build_seconds": built - imported,
        "first_call": seconds[0],
        "later_calls": seconds[1:],
        "started": started,
        "modules": {name: name in sys.modules for name in ("torch._inductor.compile_fx", "torch._inductor.lowering")},
    }
    if options.backend == "warmgraph":
        import warmgraph

        warmgraph.flush()
        found["stats"] = warmgraph.stats()
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    found["cpu_seconds"] = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    return found


if __name__ == "__main__":
    sys.exit(main())
