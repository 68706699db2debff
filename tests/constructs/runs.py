"""Starts the processes of a shard and gathers what they saw. Judges nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from listing import HERE, Listed

Seen = dict[str, dict[str, Any]]  # by case ("group/name")


def run_all(cases: Sequence[Listed], folder: Path, inductor: Path) -> dict[str, Seen]:
    """Way -> what each case saw. `inductor`: Inductor's own folder for the processes that have a compiler."""
    words = [case.word for case in cases]
    hits = [case.word for case in cases if case.bypass is None and case.compiler is None]
    others = [case.word for case in cases if case.word not in hits]
    odd = [case.word for case in cases if case.torch_wrong is not None]
    found = {"eager": _run(folder, "eager", words, inductor)}
    # Its graph caches are off: a reference that may be an earlier process's wrong hit is none.
    plain = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    found["inductor"] = _run(folder, "inductor", odd, inductor, **plain) if odd else {}
    (folder / "cold" / "store").mkdir(parents=True, exist_ok=True)  # so that a process that dies early is told as that
    found["cold"] = _run(folder, "cold", words, inductor)
    shutil.rmtree(folder / "warm", ignore_errors=True)  # of a run that raised half-way
    shutil.copytree(folder / "cold" / "store", folder / "warm" / "store")
    compiler = ["--compiler", os.environ["PATH"], str(inductor), *others] if others else []
    nothing = folder / "warm" / "bin"
    nothing.mkdir()
    found["warm"] = _run(folder, "warm", [*hits, *compiler], folder / "warm" / "inductor", PATH=str(nothing))
    return found


def _run(folder: Path, way: str, words: Sequence[str], inductor: Path, **extra: str) -> Seen:
    place = folder / way
    place.mkdir(parents=True, exist_ok=True)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("WARMGRAPH_", "TORCH"))}
    environment |= {
        "WARMGRAPH_DIR": str(place / "store"),
        "WARMGRAPH_STRICT": "1",
        "WARMGRAPH_FRAMES": "1",  # frames that can be restored are: the values are compared all the same
        "WARMGRAPH_PGO": "0",  # with a profile, a warm process begins with the dynamic graphs that cold came to later
        "TORCHINDUCTOR_CACHE_DIR": str(inductor),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # a pool of workers costs more than these kernels
        "OMP_NUM_THREADS": "1",
    }
    out = place / "seen.jsonl"
    process = subprocess.run(
        [sys.executable, str(HERE / "worker.py"), str(out), way, *words],
        env=environment | extra,
        cwd=place,
        capture_output=True,
        text=True,
        timeout=580,
    )
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    seen = {line["case"]: line for line in lines if "case" in line}
    died = process.stderr[-3000:] if process.returncode else "it was not run"
    for word in words:
        if not word.startswith(("-", "/")):
            seen.setdefault(word, {"broken": f"process {way} ended before it was done: {died}"})
    return seen
