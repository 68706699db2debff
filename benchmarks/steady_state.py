"""What a later call of a restored frame costs, against one that was traced: guards, bytecode, the graph itself.

    python -m benchmarks.steady_state
    python -m benchmarks.steady_state --models gpt2 --blocks 20

One process per model, with the small sizes of the tests, so that guards count: a call is a fraction of a millisecond.
Frames are restored and traced in turns (`torch._dynamo.reset()` in between), each for a block of calls; a ratio is of
the medians of two blocks that follow each other, and what is told is the median of these. Writes
benchmarks/results/steady_state.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from .models import make

RESULTS = Path(__file__).with_name("results") / "steady_state.json"
MODELS = ("gpt2", "bert", "vit", "llama32", "t5", "whisper", "conv")


def measure(model: str, blocks: int, calls: int) -> dict[str, Any]:
    import torch

    import warmgraph

    torch.set_num_threads(1)
    case = make(model, tiny=True)
    case.model.eval()
    compiled = torch.compile(case.model, backend="warmgraph")

    def block(restored: bool) -> float:
        """The median of its calls, in microseconds."""
        torch._dynamo.reset()
        warmgraph.configure(frames=restored)
        before = warmgraph.stats()["restored"]
        seconds = []
        with torch.no_grad():
            compiled(**case.inputs)
            for _ in range(calls):
                begin = time.perf_counter()
                compiled(**case.inputs)
                seconds.append(time.perf_counter() - begin)
        counted = warmgraph.stats()["restored"] - before
        assert bool(counted) == restored, f"{counted} frames were restored"
        return 1e6 * median(seconds)

    with torch.no_grad():
        compiled(**case.inputs)
    warmgraph.flush()
    block(True)
    pairs = []
    for number in range(blocks):
        first = block(number % 2 == 0)
        pairs.append((first, block(number % 2 == 1))[:: 1 if number % 2 == 0 else -1])
    restored, traced = zip(*pairs, strict=True)
    ratio = median(one / other for one, other in pairs)
    return {"restored_microseconds": median(restored), "traced_microseconds": median(traced), "ratio": ratio}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=MODELS)
    parser.add_argument("--blocks", type=int, default=16, help="pairs of blocks per model")
    parser.add_argument("--calls", type=int, default=500, help="per block")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--here", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here is not None:
        print(json.dumps(measure(options.here, options.blocks, options.calls)))
        return 0
    found: dict[str, Any] = {"blocks": options.blocks, "calls": options.calls, "models": {}}
    for model in options.models:
        with tempfile.TemporaryDirectory(prefix="warmgraph-steady-") as folder:
            command = [sys.executable, "-m", "benchmarks.steady_state", "--here", model]
            command += ["--blocks", str(options.blocks), "--calls", str(options.calls)]
            environment = os.environ | {"WARMGRAPH_DIR": folder}
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        found["models"][model] = json.loads(done.stdout.splitlines()[-1])
        print(f"{model}: {json.dumps(found['models'][model])}", file=sys.stderr, flush=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
