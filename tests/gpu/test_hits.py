"""A hit on a GPU computes what the compile computed, and what eager does, in every mode. The store is a folder."""

import pytest
import torch

pytestmark = pytest.mark.gpu

MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs")
# Convolutions and attention may add up in another order from run to run: cuDNN's and SDPA's backwards are not
# deterministic. The rest is the same code on the same numbers.
EXACT = ("inference", "training", "optimizer_steps")
ROUNDED = ("buffers", "attention")


NUMBERS = ("inference", "training", "two_forwards")


def agree(one, other, **tolerance):
    assert len(one) == len(other)
    for step, (left, right) in enumerate(zip(one, other, strict=True)):
        torch.testing.assert_close(left, right, msg=lambda said, step=step: f"step {step}: {said}", **tolerance)


def hit_alone(cold, warm, case):
    """What one process missed the other hits, and nothing else happens. Returns what both said of `case`."""
    cold, warm = cold[case], warm[case]
    for found in (cold, warm):
        assert "error" not in found, found["error"]
        assert (found["bypasses"], found["failures"]) == (0, 0)
    assert cold["misses"] > 0
    assert (warm["hits"], warm["misses"]) == (cold["misses"] + cold["hits"], 0)
    return cold, warm


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", [*EXACT, *ROUNDED])
def test_outputs_and_gradients_are_those_of_the_compile_and_of_eager(case, mode, cold_and_warm):
    """Every step of a forward and a backward: warm-up, recording and replay."""
    named = () if mode == "default" else ("--mode", mode)
    cold, warm = hit_alone(*cold_and_warm(*EXACT, *ROUNDED, *named), case)
    exactly = {"rtol": 0, "atol": 0} if case in EXACT else {"rtol": 2e-2, "atol": 2e-2}
    agree(warm["steps"]["compiled"], cold["steps"]["compiled"], **exactly)
    near = {"rtol": 1e-3, "atol": 1e-4} if case in EXACT else {"rtol": 5e-2, "atol": 5e-2}
    agree(warm["steps"]["compiled"], warm["steps"]["eager"], **near)


def test_a_folder_is_all_that_a_hit_needs(cold_and_warm):
    """No Redis, nor its library."""
    hit_alone(*cold_and_warm("inference", "--without", "redis"), "inference")


@pytest.mark.parametrize("case", NUMBERS)
def test_the_backend_without_inductor_agrees_too(case, cold_and_warm):
    """`warmgraph_cudagraphs` runs torch's own kernels: eager's numbers, out of CUDA graphs."""
    cold, warm = hit_alone(*cold_and_warm(*NUMBERS, "--backend", "warmgraph_cudagraphs"), case)
    agree(warm["steps"]["compiled"], cold["steps"]["compiled"], rtol=0, atol=0)
    agree(warm["steps"]["compiled"], warm["steps"]["eager"], rtol=1e-3, atol=1e-4)
    assert warm["recordings"] == cold["recordings"]
    assert warm["recordings"][-1] > 0
