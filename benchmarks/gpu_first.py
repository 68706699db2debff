"""What to look at first on a GPU: one small model cold and warm in each way, and what became of it, a line per process.

    python benchmarks/gpu_first.py BACKEND MODE      # one process; prints one line of JSON

Before any test: two minutes that say whether entries are kept, loaded and recorded, and with what words they are not.
Judges nothing; `benchmarks.gpu_check` runs it, and fails on an exception.
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# The most important first: what comes later may not be reached.
WAYS = (
    ("warmgraph", "default"),
    ("warmgraph", "reduce-overhead"),
    ("warmgraph_cudagraphs", "default"),
    ("warmgraph", "max-autotune"),
)
TIMEOUT = 180  # seconds for one process
COUNTERS = ("triton_bundler", "async_compile_cache", "cudagraph", "coordesc", "select_algorithm")


def run_first(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """What each process said, as soon as it has; the warm one is on a host of its own. Prints a line for each."""
    for backend, mode in WAYS:
        for state in ("cold", "warm"):
            way = f"{backend} {mode} {state}"
            found = run(backend, mode, folder / f"{backend}-{mode}", state)
            print(f"first: {way}: {told(found)}", file=sys.stderr, flush=True)
            yield way, found


def run(backend: str, mode: str, folder: Path, state: str) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WARMGRAPH_", "TORCHIND"))}
    environment |= {"WARMGRAPH_DIR": str(folder / "store"), "TORCHINDUCTOR_CACHE_DIR": str(folder / state)}
    environment.pop("TRITON_CACHE_DIR", None)
    folder.mkdir(parents=True, exist_ok=True)
    if state == "warm" and (folder / "cold").exists():
        (folder / "cold").rename(folder / "gone")  # torch keeps paths in what it stores
    command = [sys.executable, __file__, backend, mode]
    try:
        process = subprocess.run(
            command, env=environment, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
        )
        return json.loads(process.stdout.splitlines()[-1])  # type: ignore[no-any-return]
    except subprocess.TimeoutExpired:
        return {"error": f"did not end within {TIMEOUT} s"}
    except (IndexError, ValueError):
        return {"error": f"status {process.returncode}: {process.stderr[-2000:]}"}


def told(found: dict[str, Any]) -> str:
    return " | ".join(f"{name}: {value}" for name, value in found.items() if value not in (None, [], {}, ""))


# --- in the process ------------------------------------------------------------------------------------


class Failures(logging.Handler):
    """Stages that failed and were passed over: what costs speed alone is told nowhere else."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno >= logging.WARNING:
            error = record.exc_info[1] if record.exc_info else ""
            self.lines.append(f"{record.getMessage()} {type(error).__name__ if error else ''} {error!s:.300}".strip())


def main() -> None:
    backend, mode = sys.argv[1:]
    started: list[str] = []
    listening = []

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and event in ("subprocess.Popen", "os.posix_spawn", "os.system"):
            started.append(" ".join(map(str, arguments[:2]))[:200])

    sys.addaudithook(hear)
    failures = Failures()
    logging.getLogger("warmgraph").addHandler(failures)
    logging.getLogger("warmgraph").setLevel(logging.DEBUG)
    found: dict[str, Any] = {}
    try:
        listening.append(True)
        steps(backend, mode, found)
    except Exception:  # noqa: BLE001 - whatever it is, it is what is to be told
        found["error"] = traceback.format_exc()[-2500:]
    finally:
        listening.clear()
        after(found)
    found |= {"processes": len(started), "started": sorted(set(started))[:4], "failed stages": failures.lines[:12]}
    print(json.dumps(found))


def steps(backend: str, mode: str, found: dict[str, Any]) -> None:
    """Six steps of training, beside eager's: seconds of each, the largest difference, recordings after each."""
    import torch
    from torch import nn

    found["torch"] = torch.__version__
    made = [nn.Linear(256, 512), nn.GELU(), nn.LayerNorm(512), nn.Linear(512, 128), nn.Softmax(-1)]
    model = nn.Sequential(*made).cuda()
    torch.manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.05)
    compiled = torch.compile(model, backend=backend, mode=None if mode == "default" else mode)
    found |= {"seconds": [], "difference": 0.0, "recordings": []}
    for step in range(6):
        x = torch.randn(64, 256, generator=torch.Generator().manual_seed(step)).cuda()
        expected = trained(model, model, x)
        torch.cuda.synchronize()
        begun = time.perf_counter()
        got = trained(compiled, model, x)
        torch.cuda.synchronize()
        found["seconds"].append(round(time.perf_counter() - begun, 4))
        far = max((one - other).abs().max().item() for one, other in zip(got, expected, strict=True))
        found["difference"] = max(found["difference"], far)
        found["recordings"].append(recordings())


def trained(run: Any, model: Any, x: Any) -> list[Any]:
    model.zero_grad(set_to_none=True)
    output = run(x)
    output.square().sum().backward()
    return [output.detach().clone(), *(parameter.grad.clone() for parameter in model.parameters())]


def recordings() -> int:
    trees = sys.modules.get("torch._inductor.cudagraph_trees")
    manager = None if trees is None else trees.get_manager(0, create_if_none_exists=False)
    nodes, count = [] if manager is None else list(manager.get_roots()), 0
    while nodes:
        count += 1
        nodes += [child for children in nodes.pop().children.values() for child in children]
    return count


def after(found: dict[str, Any]) -> None:
    """What warmgraph and torch counted, and the words of everything that was no plain hit or miss."""
    import torch
    from warmgraph.cache import journal_dir, read, settings

    import warmgraph

    warmgraph.flush()
    stats = warmgraph.stats()
    found |= {name: stats[name] for name in ("hits", "misses", "bypasses", "failures")}
    found["phases"] = {name: round(seconds, 3) for name, seconds in stats["seconds"].items()}
    mine = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
    told = [f"{event['outcome']} {event.get('reason')}: {event.get('detail')}" for event in mine]
    found["events"] = [line for line in told if not line.startswith("hit")]
    counted = torch._dynamo.utils.counters["inductor"]
    found["counters"] = {name: count for name, count in counted.items() if name.startswith(COUNTERS)}


if __name__ == "__main__":
    main()
