"""A loaded graph runs in CUDA-graph trees as the compiled one does: as many recordings, at the same steps."""

import pytest
import torch

pytestmark = pytest.mark.gpu

TOGETHER = ("inference", "training", "two_forwards", "forwards_without_backwards", "sizes")


@pytest.fixture
def in_graphs(cold_and_warm):
    """What a cold and a warm process said of a case under `reduce-overhead`. Each hits what the other compiled."""

    def found(case, together=TOGETHER):
        cold, warm = (process[case] for process in cold_and_warm(*together, "--mode", "reduce-overhead"))
        for one in (cold, warm):
            assert "error" not in one, one["error"]
            assert (one["bypasses"], one["failures"]) == (0, 0)
        assert warm["misses"] == 0
        assert warm["recordings"] == cold["recordings"]
        assert warm["skips"] == cold["skips"]
        torch.testing.assert_close(warm["steps"]["compiled"], cold["steps"]["compiled"], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(warm["steps"]["compiled"], warm["steps"]["eager"], rtol=1e-3, atol=1e-4)
        return cold, warm

    return found


@pytest.mark.parametrize(("case", "recorded"), [("inference", 1), ("training", 2)])
def test_a_graph_is_recorded_at_its_second_call_and_replayed_from_then_on(case, recorded, in_graphs):
    """The first call warms up; a backward is a recording of its own. A hit records just as a compile does."""
    _, warm = in_graphs(case)
    assert warm["recordings"] == [0, recorded, recorded, recorded, recorded]
    assert warm["skips"] == 0


def test_other_modes_record_nothing(cold_and_warm):
    """The count above can be zero."""
    for process in cold_and_warm("training", "--mode", "default"):
        assert set(process["training"]["recordings"]) == {0}


@pytest.mark.parametrize("case", ["two_forwards", "forwards_without_backwards"])
def test_forward_and_backward_generations_are_kept_apart(case, in_graphs):
    """Pending forwards are not overwritten, and a backward that never comes holds nothing up for ever."""
    _, warm = in_graphs(case)
    assert warm["recordings"][-1] > 0


def test_each_size_is_recorded_once(in_graphs):
    """Three sizes in turn; in the last round nothing is recorded any more."""
    _, warm = in_graphs("sizes")
    assert warm["recordings"][-4:] == [3, 3, 3, 3]


def test_a_reset_of_dynamo_forgets_the_recordings(in_graphs):
    """They are made again by what is then loaded: the process that compiled hits its own entry."""
    cold, warm = in_graphs("reset", ("reset",))
    assert warm["recordings"] == [0, 2, 2, 2] * 2
    assert (cold["misses"], cold["hits"], warm["hits"]) == (1, 1, 2)
