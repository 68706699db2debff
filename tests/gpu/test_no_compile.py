"""A hit starts no process, compiles nothing and benchmarks nothing, where neither Inductor nor Triton kept anything."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

PROGRAM = Path(__file__).with_name("watched.py")


@pytest.fixture
def both(run_in, fresh_host, tmp_path):
    """What the process that compiled did, and what one on another host did that hit."""

    def both(case, mode, **extra):
        cold = run_in(tmp_path, PROGRAM, case, mode, **fresh_host(), **extra)
        warm = run_in(tmp_path, PROGRAM, case, mode, **fresh_host(), **extra)
        assert cold["misses"] > 0
        assert (warm["misses"], warm["failures"]) == (0, 0)
        return cold, warm

    return both


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
@pytest.mark.parametrize("case", ["inference", "training", "buffers", "attention"])
def test_a_hit_does_nothing_but_load(case, mode, both):
    """Forward and backward, up to the fourth step: what is chosen at a first launch is chosen already."""
    cold, warm = both(case, mode)
    assert any("compile" in one for one in cold["done"])  # what is looked for is seen where it happens
    assert not warm["done"], "\n".join(warm["done"])


def test_what_max_autotune_chose_is_not_tried_again(both):
    """Its templates and their configurations are in the entry, the choice is beside it, and with it what coordinate
    descent compiled later.
    """
    cold, warm = both("training", "max-autotune-no-cudagraphs")
    assert any("benchmark" in one for one in cold["done"])
    assert not warm["done"], "\n".join(warm["done"])
