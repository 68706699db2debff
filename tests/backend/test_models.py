"""The promise, on real models: eager, cold and warm agree, and warm neither traces nor compiles nor starts a process.

Each run is a fresh process. The warm one is as another host would be: an empty Inductor cache of its own
and no C++ compiler on PATH.
"""

import pytest
import torch
from warmgraph.backend import frames_unsupported

MODELS = ("gpt2", "bert", "vit", "llama", "t5", "whisper", "conv")


@pytest.mark.parametrize("model", MODELS)
def test_eager_cold_and_warm_agree(model, run_worker, tmp_path):
    """Outputs, gradients and buffers: eager and cold within tolerance, cold and warm bit for bit."""
    arguments = ("--model", model, "--tiny", "--what", "both")
    frames = {"WARMGRAPH_FRAMES": 1}
    eager = run_worker(*arguments, "--backend", "eager", "--out", tmp_path / "eager.pt")
    cold = run_worker(*arguments, "--out", tmp_path / "cold.pt", **frames)
    warm = run_worker(*arguments, "--out", tmp_path / "warm.pt", compiler=False, **frames)

    assert (cold["stats"]["hits"], cold["stats"]["failures"], cold["stats"]["bypasses"]) == (0, 0, 0)
    graphs = cold["stats"]["misses"]
    assert graphs >= 2  # inference and training
    assert warm["stats"]["hits"] == graphs
    assert (warm["stats"]["misses"], warm["stats"]["bypasses"], warm["stats"]["failures"]) == (0, 0, 0)

    # Each frame is restored, and none is traced.
    if frames_unsupported() is None:
        assert (warm["stats"]["restored"], warm["stats"]["traced"]) == (cold["stats"]["traced"], 0)
        assert (cold["captured"] > 0, warm["captured"]) == (True, 0)

    # What only compiling needs is not imported, and nothing is started.
    assert warm["started"] == eager["started"] == []
    assert warm["modules"] == []
    assert cold["started"]  # the check can fail: a cold run starts g++

    values = {name: torch.load(tmp_path / f"{name}.pt") for name in ("eager", "cold", "warm")}
    for what in ("inference", "training"):
        compare(values["eager"][what], values["cold"][what], exactly=False)
        compare(values["cold"][what], values["warm"][what], exactly=True)
    assert values["cold"]["training"]["gradients"]


def compare(one, other, *, exactly):
    """`torch.testing` with the tolerances of the dtype, or none."""
    tolerance = {"rtol": 0, "atol": 0} if exactly else {"rtol": 1e-3, "atol": 1e-5}
    assert one["type"] == other["type"]
    assert len(one["outputs"]) == len(other["outputs"])
    torch.testing.assert_close(one["outputs"], other["outputs"], equal_nan=True, **tolerance)
    torch.testing.assert_close(one["buffers"], other["buffers"], **tolerance)
    # AOTAutograd gives zeros where eager leaves None (a head that the loss does not use).
    shared = one["gradients"].keys() & other["gradients"].keys()
    assert not exactly or shared == one["gradients"].keys() == other["gradients"].keys()
    for name in shared:
        torch.testing.assert_close(one["gradients"][name], other["gradients"][name], **tolerance)
