"""Frames restored on a GPU compute what the compile computed, in CUDA graphs and without. From torch 2.13 on."""

import pytest
import torch
from warmgraph.backend import frames_unsupported

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(frames_unsupported() is not None, reason=str(frames_unsupported())),
]

CASES = ("inference", "training", "optimizer_steps")


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
