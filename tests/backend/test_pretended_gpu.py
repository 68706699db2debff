"""Graphs for a GPU on a machine without one (`pretended/`): compiled by Inductor and Triton, kept, loaded elsewhere.

What cannot be seen here: that kernels run, and CUDA graphs. `make gpu-check` sees that.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from warmgraph.backend.torch_api import versions
from warmgraph.cache import read

sys.path.append(str(Path(__file__).parent / "pretended"))

from pretended_build import FOLDER, built, environment

CASES = "pointwise several training factories random sizes mutation foreach attention branches half written".split()
KERNELS = {"several": 2, "training": 4, "attention": 3, "branches": 3}  # at least; else one
VERSION = versions.at_hand()
TRITON_COMPILES = {"written"} if VERSION < (2, 13) else set()  # again: torch names another ptxas
# What torch does not compile for any device: 2.15 says so; 2.14 writes an index into the code, which is a bypass.
ONE_DEVICE = {"random", "foreach", "attention", "written"} if VERSION == (2, 14) else {"random"}


class Host:
    """What warmgraph keeps stays from process to process; what Inductor and Triton write does not."""

    def __init__(self, folder: Path, library: Path) -> None:
        self.store, self.inductor, self._library = folder / "store", folder / "inductor", library

    def run(self, mode: str, index: int = 0, *options: str, cases: Sequence[str] = CASES) -> dict:
        shutil.rmtree(self.inductor, ignore_errors=True)
        env = environment(self.store.parent, PRETENDED_GPU=self._library)
        command = [sys.executable, str(FOLDER / "program.py"), ",".join(cases), mode, str(index), *options]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        assert "cubin" not in done.stderr.lower(), done.stderr[-4000:]  # torch warns of those that it does not find
        return json.loads(done.stdout.splitlines()[-1])

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
    return built("device", tmp_path_factory.mktemp("device"))


@pytest.fixture
def host(tmp_path, library) -> Host:
    return Host(tmp_path, library)


def compiles(run: dict) -> list[str]:
    """Commands that were run; Triton asks ptxas for its version where it launches a kernel itself (a user's)."""
    return [command for command in run["started"] if "--version" not in command]


@pytest.mark.parametrize("mode", ["no_cudagraphs", "cudagraphs"])
def test_a_graph_for_a_gpu_is_kept_and_loaded_without_a_compiler(host, mode):
    cold, warm = host.run(mode), host.run(mode)
    for case in CASES:
        first, second = cold[case], warm[case]
        assert (first["misses"], first["bypasses"], first["failures"]) == (1, 0, 0), (case, first)
        done = [second[outcome] for outcome in ("hits", "misses", "bypasses", "failures")]
        assert done == [1, 0, 0, 0], (case, second)
        assert compiles(first) and (case in TRITON_COMPILES or not compiles(second)), case
        assert second["loaded"] == first["loaded"] and len(second["loaded"]) >= KERNELS.get(case, 1), case
        assert second["bundled"] > 0, case
    # Of a kernel that torch launches itself the binary alone; of the user's what Triton wants to see.
    left = [path.suffix for path in host.inductor.rglob("*") if path.is_file() and "triton" in path.parts]
    assert left.count(".cubin") > 12 and left.count(".ptx") in (1, 2), left


def test_a_graph_that_shares_a_kernel_with_an_earlier_one_is_kept_whole(host):
    """A later process may not have the earlier graph."""
    cold = host.run("cudagraphs", cases=["pointwise", "shared"])["shared"]
    alone = host.run("cudagraphs", cases=["shared"])["shared"]
    assert (cold["misses"], alone["hits"], compiles(alone)) == (1, 1, []), (cold, alone)
    assert alone["loaded"] and alone["bundled"] > 0, alone


def test_kernels_of_compile_workers_are_kept(host):
    """Triton is run by processes of its own, which is the default; what they hand back is no longer all there."""
    cases = ("several", "training", "written")
    cold, warm = host.run("cudagraphs", 0, "workers", cases=cases), host.run("cudagraphs", cases=cases)
    for case in cases:
        assert not any("ptxas" in command for command in compiles(cold[case])), case
        assert (cold[case]["misses"], warm[case]["hits"], compiles(warm[case])) == (1, 1, []), (case, cold, warm)
        assert warm[case]["loaded"] == cold[case]["loaded"], case


@pytest.mark.skipif(VERSION < (2, 14), reason="torch 2.14 and later")
def test_what_runs_on_any_device_is_shared_by_ranks(host):
    """Keys and bytes are the same whichever device is current, and the code is loaded onto the one that is."""
    cases = [case for case in CASES if case not in ONE_DEVICE]
    first, kept = host.run("cudagraphs", 0, "any", cases=cases), host.kept()
    shared = host.run("cudagraphs", 1, "any", cases=cases)
    for case in cases:
        assert (first[case]["misses"], shared[case]["hits"], compiles(shared[case])) == (1, 1, []), (case, shared[case])
        assert {device for _, device in first[case]["loaded"]} == {0}, case
        assert {device for _, device in shared[case]["loaded"]} == {1}, case
    shutil.rmtree(host.store)
    again = host.run("cudagraphs", 1, "any", cases=cases)
    assert {case: run["misses"] for case, run in again.items()} == dict.fromkeys(cases, 1)
    if VERSION > (2, 14):  # ptxas of 2.14 writes into a kernel when its source file was made
        assert host.kept() == kept


def test_devices_are_told_apart_where_code_names_them(host, monkeypatch):
    """Ranks that compile for one device of several say so."""
    monkeypatch.setenv("RANK", "0")
    runs = [host.run("no_cudagraphs", index, cases=["pointwise"])["pointwise"] for index in (0, 1, 1)]
    assert [(run["hits"], run["misses"]) for run in runs] == [(0, 1), (0, 1), (1, 0)]
    told = [event["detail"] for event in read(host.store / "journal") if event["outcome"] == "miss"]
    assert told == ["for one device of several: cuda:0", "for one device of several: cuda:1"]
