"""Frames over several calls: dynamic sizes, training, verification, damaged records, and all of it switched off."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from warmgraph.backend.torch_api import versions

sys.path.append(str(Path(__file__).parent))

from probe import frames


@pytest.fixture
def call(ask, tmp_path):
    def call(step, what="sizes", sizes=(3, 5, 7), way="", backend="warmgraph", job=None, **environment):
        task = {"what": what, "sizes": list(sizes), "way": way, "job": job, "backend": backend}
        return ask(tmp_path, step, environment, module="calls", **task)

    return call


def test_sizes_that_vary_are_restored_static_and_dynamic(call):
    """Two records of one frame: the first call's, and the one for all sizes."""
    cold, warm = call("cold", WARMGRAPH_PGO="0"), call("warm", WARMGRAPH_PGO="0")
    assert len(frames(cold, "traced")) == 2
    assert (len(frames(warm, "restored")), len(frames(warm, "traced")), warm["traced"]) == (2, 0, 0)
    assert warm["result"] == cold["result"]


def test_another_order_of_sizes_gives_the_same(call):
    cold = call("cold", sizes=(3, 5, 7))
    warm = call("warm", sizes=(7, 3, 5))
    assert warm["result"] == [cold["result"][n] for n in (2, 0, 1)]


def test_sizes_of_many_processes_do_not_use_up_the_limit_of_recompiles(call):
    """Each recorded one size: restored one by one they would be more graphs than torch lets one function have."""
    sizes = (3, 5, 7, 9, 11)
    for size in sizes:
        call(f"size-{size}", "limited", (size,), WARMGRAPH_PGO="0")
    found = [call(way, "limited", sizes, backend=way, WARMGRAPH_PGO="0") for way in ("warmgraph", "inductor")]
    assert found[0]["result"] == found[1]["result"]


# What is called before a graph for all sizes has to be there, and whether each process is a job with profiles of sizes.
SETTLED = {
    "two sizes": ("", (3, 5), False),
    "two sizes, with profiles": ("", (3, 5), True),
    "eager_then_compile": ("eager_then_compile", (3, 5), False),
    "dynamic_sources": ("dynamic_sources", (5,), False),
}
if versions.at_hand() >= (2, 13):
    SETTLED["a mark of AOTAutograd's"] = ("propagated", (5,), False)


@pytest.mark.parametrize("name", SETTLED)
def test_sizes_of_many_processes_are_not_restored_where_a_graph_for_all_is_due(name, call):
    """Each recorded one size."""
    way, sizes, profiles = SETTLED[name]

    def step(folder, *more):
        return call(folder, *more, job=folder if profiles else None, WARMGRAPH_PGO=str(int(profiles)))["result"]

    step("three", "sizes", (3,))
    step("five", "sizes", (5,))
    assert step("ours", "settled", sizes, way) == step("plain", "settled", sizes, way, "inductor")


def test_training_is_restored_to_the_bit(call):
    """Gradients, the running statistics of a batch norm, and what the optimizer makes of them."""
    cold, warm = call("cold", "training"), call("warm", "training")
    assert warm["result"] == cold["result"]
    assert frames(warm, "restored")
    assert not frames(warm, "traced")


def test_a_restored_frame_is_verified_by_a_trace(call):
    cold, warm = call("cold"), call("warm", WARMGRAPH_VERIFY="1")
    assert warm["result"] == cold["result"]
    assert not frames(warm, "restored")
    assert [event[1] for event in frames(warm, "verified")].count("differs") == 0
    assert warm["traced"]


def test_a_damaged_record_is_traced_again(call, tmp_path):
    cold = call("cold", sizes=(3,))
    for path in (tmp_path / "store" / "objects").rglob("*"):
        if path.is_file():
            path.write_bytes(path.read_bytes()[:-1] + b"\0")
    warm = call("warm", sizes=(3,))
    assert warm["result"] == cold["result"]
    assert not frames(warm, "restored")


def test_switched_off_nothing_of_dynamo_is_replaced(call):
    """Profiles need to know where a trace begins and whether it failed."""
    found = call("cold", WARMGRAPH_FRAMES="0")
    assert not frames(found, "restored", "traced")
    assert not {"inlining", "values", "guards left out"} & set(found["patches"])
    found = call("cold", WARMGRAPH_FRAMES="0", WARMGRAPH_PGO="0")
    assert "frames" not in found["patches"]
