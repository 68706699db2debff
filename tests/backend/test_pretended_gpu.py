"""Graphs for a GPU on a machine without one (`pretended/`): compiled by Inductor and Triton, kept, loaded elsewhere.

What cannot be seen here: that kernels run, and CUDA graphs. `make gpu-check` sees that.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "pretended"
CASES = ("pointwise", "several", "training", "factories", "random", "sizes", "mutation")
KERNELS = {"several": 2}
ANY_DEVICE = "compile_on_one_rank" in vars(torch.compiler.config).get("_config", {})


def triton_path() -> list[str]:
    """Where Triton is, if it does not come with torch: `make triton` puts it there, where it changes no other test."""
    if importlib.util.find_spec("triton"):
        return []
    made = ROOT / ".build" / "triton"
    if not (made / "triton").is_dir():
        pytest.skip("no Triton: make triton")
    return [str(made)]


class Host:
    """What warmgraph keeps stays from process to process; what Inductor and Triton write does not."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.store, self.inductor, self._library = folder / "store", folder / "inductor", str(library)

    def run(self, case: str, mode: str = "no_cudagraphs", index: int = 0, *options: str) -> dict:
        shutil.rmtree(self.inductor, ignore_errors=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("WARMGRAPH_", "TRITON_"))}
        env |= {
            "WARMGRAPH_DIR": str(self.store),
            "TORCHINDUCTOR_CACHE_DIR": str(self.inductor),
            "TRITON_DEFAULT_FP_FUSION": "1",  # Triton 3.9 warns where it is not said
            "PYTHONPATH": os.pathsep.join([str(ROOT), *triton_path()]),
        }
        command = [sys.executable, str(FOLDER / "program.py"), self._library, case, mode, str(index), *options]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        return {**json.loads(done.stdout.splitlines()[-1]), "errors": done.stderr}

    def kept(self) -> set[str]:
        """Names of entries, and of blobs, which are digests of their contents."""
        return {
            path.name
            for folder in ("entries", "objects")
            for path in (self.store / folder).rglob("*")
            if len(path.name) > 2 and (folder == "objects" or path.is_dir())
        }


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """device.cpp, for the torch at hand."""
    at, made = Path(torch.__file__).parent, tmp_path_factory.mktemp("device") / "device.so"
    flags = ["-std=c++20", "-shared", "-fPIC", f"-I{at / 'include'}", f"-L{at / 'lib'}", f"-Wl,-rpath,{at / 'lib'}"]
    subprocess.run(["g++", *flags, str(FOLDER / "device.cpp"), "-o", str(made), "-lc10", "-ltorch_cpu"], check=True)
    return made


@pytest.fixture
def host(tmp_path, library) -> Host:
    return Host(tmp_path, library)


@pytest.mark.parametrize("mode", ["no_cudagraphs", "cudagraphs"])
@pytest.mark.parametrize("case", CASES)
def test_a_graph_for_a_gpu_is_kept_and_loaded_without_a_compiler(host, case, mode):
    cold, warm = host.run(case, mode), host.run(case, mode)
    assert (cold["misses"], cold["bypasses"], cold["failures"]) == (1, 0, 0), cold
    assert (warm["hits"], warm["misses"], warm["bypasses"], warm["failures"]) == (1, 0, 0, 0), warm
    assert cold["started"][0] > 0 and warm["started"] == [0]
    assert "cubin" not in warm["errors"].lower()
    assert warm["loaded"] == cold["loaded"] and len(warm["loaded"]) >= KERNELS.get(case, 1)
    assert warm["bundled"] > 0


@pytest.mark.skipif(not ANY_DEVICE, reason="torch 2.14 and later")
@pytest.mark.parametrize("case", [case for case in CASES if case != "random"])  # torch 2.15 does not compile it so
def test_what_runs_on_any_device_is_shared_by_ranks(host, case):
    """Keys and bytes are the same whichever device is current, and the code is loaded onto the one that is."""
    first, kept = host.run(case, "cudagraphs", 0, "any"), host.kept()
    shared = host.run(case, "cudagraphs", 1, "any")
    assert (first["misses"], shared["hits"], shared["started"]) == (1, 1, [0]), (first, shared)
    assert {device for _, device in first["loaded"]} == {0}
    assert {device for _, device in shared["loaded"]} == {1}
    shutil.rmtree(host.store)
    assert host.run(case, "cudagraphs", 1, "any")["misses"] == 1
    assert host.kept() == kept


def test_devices_are_told_apart_where_code_names_them(host):
    runs = [host.run("pointwise", "no_cudagraphs", index) for index in (0, 1, 1)]
    assert [(run["hits"], run["misses"]) for run in runs] == [(0, 1), (0, 1), (1, 0)]
