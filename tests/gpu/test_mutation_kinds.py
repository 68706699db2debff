"""Which inputs a graph may write to inside CUDA graphs is decided on a hit as after the compile, and told."""

from pathlib import Path

import pytest
from warmgraph.backend.torch_api import versions

pytestmark = pytest.mark.gpu

# Seen with backend="inductor" as well: a piece of a graph that writes to an earlier recording is given None for its
# output, and the launcher ends the process.
ENDS_2_11 = pytest.mark.skipif(versions.at_hand() == (2, 11), reason="torch 2.11 itself ends in a segmentation fault")
PROGRAM = Path(__file__).with_name("mutations.py")


@pytest.fixture
def both(run_in, fresh_host, tmp_path):
    """A kind's report from the process that compiled, and from one on another host that hit; results were right."""

    def both(kind):
        cold = run_in(tmp_path, PROGRAM, kind, **fresh_host())
        warm = run_in(tmp_path, PROGRAM, kind, **fresh_host())
        assert cold["misses"] > 0
        assert warm["misses"] == 0
        assert warm["recordings"] == cold["recordings"]
        assert warm["skips"] == cold["skips"]
        return warm

    return both


@pytest.mark.parametrize("kind", ["none", "buffers", pytest.param("earlier_graphs", marks=ENDS_2_11)])
def test_what_cuda_graphs_manage_is_recorded(kind, both):
    """Nothing written to; a buffer, which does not move; a tensor that an earlier recording made."""
    found = both(kind)
    assert found["skips"] == []
    assert found["recordings"][-1] > 0
    assert found["recordings"][-2:] == [found["recordings"][-1]] * 2


def test_what_they_do_not_manage_runs_without_and_says_which_input(both):
    """One event, however often it is called; with the input and the line that writes to it."""
    found = both("others")
    assert set(found["recordings"]) == {0}
    ((reason, detail),) = found["skips"]
    assert reason == "skip-mutation"
    assert "input L['x'] (position 0)" in detail
    assert "x.add_(1)" in detail


def test_a_function_seen_as_the_fourth_kind_stays_so_at_its_place(both):
    """Elsewhere in the tree it is judged anew: behind a graph whose output it writes to, it is recorded."""
    found = both("others_first")
    assert [reason for reason, _ in found["skips"]] == ["skip-mutation"]
    assert found["recordings"][-1] > 0


@ENDS_2_11
def test_one_that_becomes_it_later_is_caught(both):
    """Recorded while its input was an earlier recording's; results stay right when the caller passes its own."""
    found = both("others_later")
    assert [reason for reason, _ in found["skips"]] == ["skip-mutation"]
    assert found["recordings"][3] > 0


def test_a_reset_forgets_the_kind_and_finds_it_again(both):
    """Two graphs of Dynamo's, and so one event for each."""
    found = both("dropped")
    assert [reason for reason, _ in found["skips"]] == ["skip-mutation"] * 2
    assert set(found["recordings"]) == {0}
