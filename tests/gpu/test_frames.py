"""Frames restored on a GPU compute what the compile computed, in CUDA graphs and without."""

from pathlib import Path

import pytest
import torch
from warmgraph.backend import frames_unsupported
from warmgraph.backend.torch_api import versions

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(frames_unsupported() is not None, reason=str(frames_unsupported())),
]

PROGRAM = Path(__file__).with_name("framed.py")
CASES = ("inference", "training", "optimizer_steps")
# Cases of `framed.py` in one process each.
TOGETHER = {
    "models": "inference training half in_pieces on_the_host both made_there sizes written convolved",
    "facts": "capability how_many current is_there reads_flags reads_versions made_by_default tuned spread",
    "kernels": "written_kernel tuned_kernel own_function flexible attends dropped",
    "products": "multiplied multiplied_halves cast_by_default scattered cached on_either",
    "with the host": "waited_for to_the_host_and_back pinned",
}
# In CUDA graphs: what is not a gradient that the program keeps from one step to the next.
IN_GRAPHS = "inference training in_pieces sizes written written_kernel own_function attends dropped cached"
STEPS = "stepped amplified"  # with resume functions that have closures, which 2.11 makes otherwise
TRACED = "which_one fraction as_text reads_memory pruned_kernel on_a_stream"
CHANGED = {
    "tf32": "multiplied reads_flags",
    "precision": "multiplied",
    "reduced": "multiplied_halves",
    "no flash": "attends reads_flags",
    "only math": "attends",
    "no cudnn": "convolved reads_flags",
    "benchmark": "convolved reads_flags",
    "deterministic": "scattered",
    "cast": "cast_by_default",
    "default device": "made_by_default",
    "default tensors": "made_by_default made_there",
    "a stream": "on_either in_pieces",
    "on the host": "on_either",
    "a constant": "written_kernel",
    "a helper": "written_kernel",
    "another configuration": "tuned_kernel",
}


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_traced_and_numbers_are_those_of_the_compile(case, mode, cold_and_warm):
    cold, warm = (found[case] for found in cold_and_warm(*CASES, "--frames", "--mode", mode))
    for found in (cold, warm):
        assert "error" not in found, found["error"]
        assert (found["bypasses"], found["failures"]) == (0, 0)
    assert cold["traced"] > 0 and warm["restored"] == cold["traced"] + cold["restored"] and warm["traced"] == 0
    assert warm["recordings"] == cold["recordings"]
    for step, (left, right) in enumerate(zip(warm["steps"]["compiled"], cold["steps"]["compiled"], strict=True)):
        torch.testing.assert_close(left, right, rtol=0, atol=0, msg=lambda said, step=step: f"step {step}: {said}")


@pytest.fixture
def run(run_in, fresh_host, tmp_path):
    """What a process on another host says of these cases; each computed what Inductor's compile beside it does."""

    def run(cases, *options):
        found = run_in(tmp_path, PROGRAM, *cases.split(), *options, WARMGRAPH_FRAMES="1", **fresh_host())
        for case, one in found.items():
            assert "error" not in one, (case, one["error"])
            assert one["said"] == one["inductor said"], (case, one)
            assert one["from inductor"] < 1e-2, (case, one)
        return found

    return run


def restored(cold, warm):
    for case, first in cold.items():
        second = warm[case]
        assert not any(one["bypasses"] for one in (first, second)), (case, first, second)
        assert (second["misses"], second["traced"]) == (0, 0), (case, second)
        assert second["restored"] == first["traced"] + first["restored"] > 0, (case, first, second)
        assert second["digests"] == first["digests"], case


@pytest.mark.parametrize("cases", TOGETHER.values(), ids=TOGETHER)
def test_they_are_restored(cases, run):
    restored(run(cases), run(cases))


def test_they_are_restored_into_cuda_graphs(run):
    restored(run(IN_GRAPHS, "--mode", "reduce-overhead"), run(IN_GRAPHS, "--mode", "reduce-overhead"))


@pytest.mark.skipif(versions.at_hand() < (2, 12), reason="a resume function with a closure is traced on torch 2.11")
def test_steps_of_an_optimizer_are_restored(run):
    restored(run(STEPS), run(STEPS))


def test_what_no_record_can_tell_is_traced(run):
    run(TRACED)
    assert all(one["traced"] > 0 for one in run(TRACED).values())


@pytest.mark.parametrize("change", CHANGED)
def test_a_change_between_record_and_restore_is_seen(change, run):
    run(CHANGED[change])
    for case, found in run(CHANGED[change], "--change", change).items():
        assert found["restored"] == 0, (case, found)
