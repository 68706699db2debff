"""Frames on a host with a GPU, which is pretended (`pretended/`) and whose memory is this machine's.

Operators compute there; kernels are launched and do nothing. What a frame finds out of the device while it is traced is
compared with eager code.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from warmgraph.backend import frames_unsupported
from warmgraph.cache import read

sys.path.append(str(Path(__file__).parent / "pretended"))

from pretended_build import FOLDER, built, environment

pytestmark = [
    pytest.mark.skipif(torch.version.cuda is not None, reason="a torch with CUDA has operators of its own there"),
    pytest.mark.skipif(frames_unsupported() is not None, reason=str(frames_unsupported())),
]

GRAPHS = "inference training half in_pieces on_the_host both made_there sizes written stepped".split()
FACTS = "capability how_many current is_there".split()
REFUSED = {
    "which_one": "asks for uuid",
    "which_by_name": "asks for uuid by its name",
    "as_text": "a GPU's properties as text",
    "fraction": "get_per_process_memory_fraction()",
}
HERE = {"index": 0, "count": 2}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("libraries")
    return {"PRETENDED_GPU": built("device", folder), "PRETENDED_MEMORY": built("memory", folder)}


@pytest.fixture
def run(tmp_path, libraries):
    """`run(cases, pretended=..., frames="1")`: what became of each case in a fresh process."""

    def run(cases, pretended=HERE, frames="1", mode=()):  # mode: and what is changed before
        env = environment(tmp_path, **libraries) | {"WARMGRAPH_STRICT": "1", "WARMGRAPH_FRAMES": frames}
        command = [sys.executable, str(FOLDER / "framed.py"), json.dumps(pretended), ",".join(cases), *mode]
        shutil.rmtree(tmp_path / "inductor", ignore_errors=True)
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-4000:]
        found = json.loads(done.stdout.splitlines()[-1])
        for case, one in found.items():
            assert one["result"][2] == one["eager"], case
        return found

    return run


def test_frames_are_restored(run):
    """The same graphs are loaded, and as many kernels launched: nothing is benchmarked again."""
    cold, warm = run(GRAPHS + FACTS), run(GRAPHS + FACTS)
    for case, first in cold.items():
        second = warm[case]
        assert (first["traced"], first["restored"], first["bypasses"]) == (second["restored"], 0, 0), (case, first)
        assert (second["traced"], second["misses"], second["bypasses"]) == (0, 0, 0), (case, second)
        assert second["hits"] == first["misses"] + first["hits"] > 0, case
        assert 0 <= second["launched"] <= first["launched"], case
        assert second["launched"] > 0 or case == "on_the_host", case
        assert second["result"] == first["result"], case


@pytest.mark.parametrize("frames", ["1", "0"])
def test_what_was_tuned_is_not_tuned_again(run, frames):
    """Coordinate descent compiles configurations after the entry was made: the chosen one is kept beside it."""
    cold, warm = (run(["tuned"], frames=frames, mode=["max-autotune-no-cudagraphs"])["tuned"] for _ in range(2))
    assert (cold["misses"], warm["hits"]) == (1, 1)
    assert cold["launched"] > 20 and cold["started"] > 5, cold
    assert (warm["launched"], warm["started"]) == (1, 0), warm
    assert warm["grids"] == cold["grids"][-1:]


KERNELS = {
    "written_kernel": ["a constant", "a helper", "another of its name"],
    "tuned_kernel": ["fewer configurations", "another configuration", "another rule"],
}


def test_a_frame_that_calls_a_kernel_of_the_users_is_restored(run):
    cold, warm = run([*KERNELS, "pruned_kernel"]), run([*KERNELS, "pruned_kernel"])
    assert {case: one["restored"] for case, one in warm.items()} == dict.fromkeys(KERNELS, 1) | {"pruned_kernel": 0}
    for case in KERNELS:
        assert (cold[case]["misses"], warm[case]["hits"], warm[case]["started"]) == (1, 1, 0), (case, warm)


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", KERNELS)
def test_another_kernel_is_traced_for(run, case):
    """With the same files: the kernel is what the program made of it."""
    run([case])
    for change in KERNELS[case]:
        found = run([case], mode=["default", change])[case]
        assert (found["restored"], found["traced"], found["misses"]) == (0, 1, 1), (change, found)


def test_a_constant_of_tritons_counts_by_what_is_in_it(run):
    cold, warm, other = run(["cut"]), run(["cut"]), run(["cut"], mode=["default", "a constant"])
    assert (cold["cut"]["result"][1], cold["cut"]["traced"], warm["cut"]["result"]) == ([256], 2, cold["cut"]["result"])
    assert (warm["cut"]["restored"], warm["cut"]["traced"]) == (2, 0), warm
    assert (other["cut"]["result"][1], other["cut"]["restored"]) == ([512], 0), other


def test_code_with_frozen_weights_is_loaded(run):
    """Its frame is traced; what folds the weights runs again, on the GPU, and nothing is compiled."""
    cold, warm = run(["frozen"])["frozen"], run(["frozen"])["frozen"]
    assert (cold["misses"], warm["hits"], warm["traced"], warm["started"]) == (1, 1, 1, 0), (cold, warm)
    assert (warm["result"], warm["launched"] > 0, cold["started"] > 0) == (cold["result"], True, True), (cold, warm)


def test_another_gpu_is_traced_for(run):
    run(FACTS)
    for other in ({"major": 8}, {"name": "another"}, {"total_memory": 40 << 30}, {"warp_size": 64}, {"count": 1}):
        found = run(FACTS, HERE | other)
        assert {case: one["restored"] for case, one in found.items()} == dict.fromkeys(FACTS, 0), other
    assert {one["traced"] for one in run(FACTS, HERE | {"count": 1}).values()} == {0}


def test_each_device_of_a_host_has_records_of_its_own(run):
    run(FACTS)
    assert all(one["restored"] == 0 for one in run(FACTS, {"index": 1, "count": 2}).values())
    assert all(one["traced"] == 0 for one in run(FACTS, {"index": 1, "count": 2}).values())


def test_another_of_the_same_kind_is_served(run):
    """Another host's, say; unless code asks which one it is."""
    run([*FACTS, *REFUSED])
    found = run([*FACTS, *REFUSED], HERE | {"uuid": "another"})
    assert {case for case, one in found.items() if one["traced"]} == set(REFUSED)


def test_what_tells_one_gpu_from_another_is_refused(run, tmp_path):
    run(REFUSED)
    told = [event["detail"] for event in read(tmp_path / "store" / "journal") if event["outcome"] == "traced"]
    for why in REFUSED.values():
        assert any(why in detail for detail in told), told
