"""`make gpu-check`: the tests that need a GPU and the GPU benchmark, with the Python it is run by. Prints one table.

    make gpu-check PYTHON=/opt/torch/bin/python3
    make gpu-check ARGS='--quick --models resnet50'
    make gpu-check ARGS='--stages first'                # two minutes: one small model in each way, no verdict

Needs torch 2.11 or newer with a CUDA device, pytest and what warmgraph imports; no network, no Redis, no installed
warmgraph: the package is put together from this checkout. Writes docs/results/gpu-NAME.json, NAME being the GPU's,
after each stage, and in the first and the last after each process.
Ends with 0 when all is well, 1 when something is not, 2 when nothing could be run. docs/gpu.md says more.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .gpu_first import run_first
from .gpu_package import ROOT, assemble

NEEDED = ("msgpack", "msgspec", "zstandard", "platformdirs", "pytest")  # beside torch
OLDEST = (2, 11)
VERSION = 1  # of the JSON
STAGES = ("first", "tests", "benchmark")
# Files of tests, those first whose failure explains the others'; what is not here comes after.
ORDER = ("hits", "no_compile", "frames", "cudagraph_trees", "mutation_kinds", "microbench")


def main(argv: list[str] | None = None) -> int:
    why = impossible()
    if why is not None:
        print(f"gpu-check: {why}", file=sys.stderr)
        return 2
    from . import gpu_warm_start as benchmark  # imports warmgraph, and with it what was just looked for

    options = parse(argv, benchmark)
    with tempfile.TemporaryDirectory(prefix="warmgraph-gpu-check-") as folder:
        assemble(Path(folder) / "site")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [f"{folder}/site", os.environ.get("PYTHONPATH")]))
        found: dict[str, Any] = {"version": VERSION, "stages": options.stages}
        path = options.out or ROOT / "docs" / "results" / f"gpu-{slug()}.json"

        def save(measured: dict[str, Any]) -> None:
            benchmark.write(path, found | {"benchmark": measured})

        measured: dict[str, Any] = {"cases": [], "problems": []}
        if "first" in options.stages:
            found["first"] = {}
            for way, said in run_first(Path(folder) / "first"):
                found["first"][way] = said
                save(measured)
        if "tests" in options.stages:
            found["tests"] = run_tests(Path(folder), options.tests)
            save(measured)
        if "benchmark" in options.stages:
            measured = benchmark.measure(benchmark.planned(options), save)
            save(measured)
    if measured["cases"]:
        benchmark.print_rows(benchmark.rows(measured["cases"]))
    wrong = complaints(found, measured)
    for line in [*summary(found), *wrong, f"written to {path}"]:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


def parse(argv: list[str] | None, benchmark: Any) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    benchmark.add_arguments(parser)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES), help="default: all, in this order")
    parser.add_argument("--tests", nargs="+", choices=ORDER, help="files of tests/gpu; default: all")
    return parser.parse_args(argv)


def impossible() -> str | None:
    """None when the check can run here, else one sentence on what is missing and what to do."""
    here = f"this Python ({sys.executable})"
    if importlib.util.find_spec("torch") is None:
        return f"{here} has no torch; name one that has: make gpu-check PYTHON=/path/to/python3"
    import torch

    if tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2]) < OLDEST:
        return f"torch {torch.__version__} of {here} is older than {OLDEST[0]}.{OLDEST[1]}"
    if not torch.cuda.is_available():
        return f"torch {torch.__version__} of {here} sees no CUDA device; run this on a machine that has one"
    if missing := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        return f"{here} lacks {', '.join(missing)}; docs/gpu.md says how to carry wheels to a machine without network"
    return None


def run_tests(folder: Path, names: Sequence[str] | None) -> dict[str, Any]:
    """Tests marked `gpu`, in a pytest of their own. Only plain pytest is needed; xdist is used if there."""
    print("gpu-check: tests", file=sys.stderr, flush=True)
    report = folder / "report.xml"
    # The project's own settings name plugins and refuse unknown ones; a GPU machine may have pytest alone.
    empty = folder / "pytest.ini"
    empty.write_text("[pytest]\nmarkers = gpu: needs a CUDA device\n")
    # -v: a line as each ends, or an interrupted run would have said nothing of those that passed.
    command = f"-m pytest -p no:cacheprovider --import-mode=importlib -m gpu -v -ra --tb=short -c {empty}".split()
    command += ["--durations=10", "--rootdir", str(ROOT), "--confcutdir", str(ROOT), f"--junitxml={report}"]
    if importlib.util.find_spec("xdist") is not None:  # files beside each other: most of a test is compiling
        command += ["-n", str(max(1, min(len(ORDER), (os.cpu_count() or 1) // 2))), "--dist", "loadfile"]
    command += map(str, in_order(ROOT / "tests" / "gpu", names))
    # Not stdout: that is for the table.
    status = subprocess.run([sys.executable, *command], cwd=ROOT, stdout=sys.stderr, check=False).returncode
    return {"status": status, **counted(report)}


def in_order(folder: Path, names: Sequence[str] | None) -> list[Path]:
    places = {f"test_{name}.py": place for place, name in enumerate(ORDER)}
    files = [path for path in folder.glob("test_*.py") if names is None or path.stem.removeprefix("test_") in names]
    return sorted(files, key=lambda path: (places.get(path.name, len(places)), path.name))


def counted(report: Path) -> dict[str, Any]:
    """Tests by outcome; the names of those that did not pass."""
    found: dict[str, Any] = {"passed": 0, "failed": [], "skipped": []}
    if not report.exists():
        return found
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        outcome = {child.tag for child in case}
        if outcome & {"failure", "error"}:
            found["failed"].append(name)
        elif "skipped" in outcome:
            found["skipped"].append(name)
        else:
            found["passed"] += 1
    return found


def summary(found: dict[str, Any]) -> list[str]:
    if "tests" not in found:
        return []
    tests = found["tests"]
    return [f"tests: {tests['passed']} passed, {len(tests['failed'])} failed, {len(tests['skipped'])} skipped"]


def complaints(found: dict[str, Any], measured: dict[str, Any]) -> list[str]:
    """Everything that makes the check fail, a line each. No test that passed is a failure, too."""
    said = [f"first: {way}: {one['error'][-300:]}" for way, one in found.get("first", {}).items() if "error" in one]
    if "tests" in found:
        tests = found["tests"]
        said += [f"failed: {name}" for name in tests["failed"]]
        if tests["status"] != 0 and not tests["failed"]:
            said.append(f"pytest ended with status {tests['status']}")
        if tests["passed"] == 0:
            said.append("no test passed")
    if "benchmark" in found["stages"] and not measured["cases"]:
        said.append("nothing was measured")
    return said + measured["problems"]


def slug() -> str:
    """The GPU's name as part of a file's name."""
    import torch

    return re.sub(r"[^a-z0-9]+", "-", torch.cuda.get_device_name().lower()).strip("-")


if __name__ == "__main__":
    sys.exit(main())
