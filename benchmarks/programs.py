"""Programs as users write them, with torch's own caches and with warmgraph: cold and warm, in fresh processes.

    make programs                                   # all that are installed, a few minutes each
    python -m benchmarks.programs trainer peft_lora --rounds 3

Nothing in examples/programs knows of warmgraph: `warmgraph run` takes what would go to Inductor (vLLM is told a name).
`same_host` has what the cold run left; `warm` is on a fresh host: nothing but a Redis, and no C++ compiler; `image` is
the same with what the program's image can bring along (what vLLM noted of its models' classes). Results have to be
equal bit for bit, warm runs must have hits alone; a program that breaks one of these fails the command. Rounds are
interleaved, medians are reported. Writes benchmarks/results/programs.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from warmgraph.cache import Outcome, new_key, read

from .bytecode import compile_modules
from .redis_server import redis_server
from .table import print_rows
from .warm_start import machine

PROGRAMS = Path(__file__).parents[1] / "examples" / "programs"
RESULTS = Path(__file__).with_name("results") / "programs.json"


@dataclass(frozen=True)
class Program:
    """needs: packages without which it is left out. ranks: processes under torchrun. backend: told as an argument.

    image: folders of the program's own, below its state, that do not depend on what is compiled.
    """

    file: str
    needs: tuple[str, ...] = ("transformers",)
    ranks: int = 1
    backend: bool = False
    image: tuple[str, ...] = ()

    @property
    def ways(self) -> tuple[str, ...]:
        return (*WAYS, "image") if self.image else WAYS


ALL = {
    "trainer": Program("trainer.py", ("transformers", "accelerate")),
    "trainer_ddp": Program("trainer.py", ("transformers", "accelerate"), ranks=2),
    "accelerate_loop": Program("accelerate_loop.py", ("transformers", "accelerate")),
    "lightning_module": Program("lightning_module.py", ("lightning",)),
    "diffusers_unet": Program("diffusers_unet.py", ("diffusers",)),
    "image_training": Program("image_training.py"),
    "peft_lora": Program("peft_lora.py", ("transformers", "peft")),
    "qlora": Program("qlora.py", ("transformers", "peft", "bitsandbytes")),
    "optimizer_step": Program("optimizer_step.py", ()),
    "generate_static": Program("generate_static.py"),
    "vllm_offline": Program("vllm_offline.py", ("vllm",), backend=True, image=("vllm/modelinfos",)),
}
_ENDS = (Outcome.HIT, Outcome.MISS, Outcome.BYPASS, Outcome.FAILED)
WAYS = ("torch_cold", "torch_warm", "cold", "same_host", "warm")
KEY = new_key()


def run(program: Program, way: str, folder: Path, port: int | None) -> dict[str, Any]:
    """One fresh process (or one per rank). Seconds of the first call, digest of the results, counts of the journal."""
    torchs, empty = way.startswith("torch"), way in ("warm", "image")
    host = folder / ("torch" if torchs else way if empty else "ours")
    environment = os.environ | {
        "TORCHINDUCTOR_CACHE_DIR": str(host / "inductor"),
        "VLLM_CACHE_ROOT": str(host / "vllm"),
        "WARMGRAPH_DIR": str(host / "store"),
        "PYTHONPATH": str(PROGRAMS),
        "OMP_NUM_THREADS": "1",  # threads add into a gradient in any order (an embedding's), and no two runs are equal
    }
    if port is not None:
        environment |= {"WARMGRAPH_URL": f"redis://127.0.0.1:{port}/0", "WARMGRAPH_SIGNING_KEY": KEY}
    elif empty:
        environment["WARMGRAPH_DIR"] = str(folder / "ours" / "store")
    if empty:
        environment["PATH"] = f"{Path(sys.executable).parent}:{tools(folder)}"  # not CXX, which is in the key
    if way == "image":
        for part in program.image:
            shutil.copytree(folder / "ours" / part, host / part)
    before = _outcomes(environment)
    found = subprocess.run(
        _command(program, torchs=torchs), env=environment, capture_output=True, text=True, check=False, cwd=folder
    )
    lines = [line for line in found.stdout.splitlines() if line.startswith('{"first_call"')]
    if found.returncode or len(lines) != program.ranks:
        raise SystemExit(f"{program.file} ({way}) failed:\n{found.stdout[-2000:]}\n{found.stderr[-4000:]}")
    said = [json.loads(line) for line in lines]
    ended = _outcomes(environment) - before
    counts = {outcome.value: ended[outcome.value] for outcome in _ENDS}
    return {
        "first_call": max(one["first_call"] for one in said),
        "result": sorted(one["result"] for one in said),
        "counts": {} if torchs else counts,
    }


def tools(folder: Path) -> Path:
    """What programs call beside a compiler: vLLM asks `lscpu` for the cores."""
    own = folder / "tools"
    own.mkdir(exist_ok=True)
    if (found := shutil.which("lscpu")) is not None and not (own / "lscpu").exists():
        (own / "lscpu").symlink_to(found)
    return own


def _command(program: Program, *, torchs: bool) -> list[str]:
    file = str(PROGRAMS / program.file)
    if program.backend:
        return [sys.executable, file, "stock" if torchs else "warmgraph"]
    if program.ranks == 1:
        return [sys.executable, *([] if torchs else ["-m", "warmgraph", "run"]), file]
    ranks = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={program.ranks}"]
    return [*ranks, *([file] if torchs else ["-m", "warmgraph", "run", file])]


def _outcomes(environment: Mapping[str, str]) -> Counter[str]:
    """How every graph of all processes of this host ended until now."""
    return Counter(event["outcome"] for event in read(Path(environment["WARMGRAPH_DIR"]) / "journal"))


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Medians of the first call per way. Raises SystemExit if results differ or a warm run compiled something."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ALL[name].ways}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory(prefix="warmgraph-programs-") as folder, redis_server() as port:
            for way in ALL[name].ways:
                found[way].append(run(ALL[name], way, Path(folder), port))
    cold, warm = found["cold"], [*found["same_host"], *found["warm"], *found.get("image", [])]
    if any(one["result"] != cold[0]["result"] for one in [*cold, *warm]):
        raise SystemExit(f"{name}: results differ: {[one['result'] for one in [*cold, *warm]]}")
    for one in warm:
        if not one["counts"]["hit"] or sum(one["counts"].values()) != one["counts"]["hit"]:
            raise SystemExit(f"{name}: a warm run is not hits alone: {one['counts']}")
    seconds = {way: round(median(one["first_call"] for one in runs), 2) for way, runs in found.items()}
    same = found["torch_cold"][0]["result"] == cold[0]["result"]
    return {"seconds": seconds, "counts": {"cold": cold[0]["counts"], "warm": warm[0]["counts"]}, "as_inductor": same}


def main() -> None:
    """Measure the named programs, or all that are installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=f"of {', '.join(ALL)}")
    parser.add_argument("--rounds", type=int, default=1)
    arguments = parser.parse_args()
    compile_modules()
    if unknown := set(arguments.names) - ALL.keys():
        parser.error(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in arguments.names or ALL:
        missing = [package for package in ALL[name].needs if importlib.util.find_spec(package) is None]
        if missing:
            sys.stderr.write(f"{name}: left out, {', '.join(missing)} is not installed\n")
            continue
        sys.stderr.write(f"{name} ...\n")
        results[name] = {**measure(name, arguments.rounds), "rounds": arguments.rounds, "machine": machine()}
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    ways = (*WAYS, "image")
    rows = [["program", *ways, "same_host / torch_warm", "hits"]]
    for name, one in results.items():
        seconds = one["seconds"]
        shares = f"{seconds['same_host'] / seconds['torch_warm']:.2f}"
        told = [f"{seconds[way]:.1f} s" if way in seconds else "" for way in ways]
        rows.append([name, *told, shares, str(one["counts"]["warm"]["hit"])])
    print_rows(rows)


if __name__ == "__main__":
    main()
