"""`warmgraph.describe`, and the facts of a process that code may read."""

import pytest
import torch
from warmgraph.hashing import Uncacheable, described, source_digest
from warmgraph.hashing.source_code import described as registered

import warmgraph

STATE = {"version": 1, "broken": False}


def reads_the_clock(x):
    import time

    return x * time.time()


def calls_it(x):
    return reads_the_clock(x) + 1


@pytest.fixture(autouse=True)
def forgotten():
    table = registered._described
    before = dict(table)
    yield
    table.clear()
    table.update(before)


def test_code_that_cannot_be_seen_is_keyed_by_what_its_author_says():
    """Called for each graph: another value is another digest, the same one the same."""
    with pytest.raises(Uncacheable, match=r"time\.time.*warmgraph\.describe"):
        source_digest(calls_it, "f")
    warmgraph.describe(reads_the_clock, lambda: ("v", STATE["version"]))
    first = source_digest(calls_it, "f")
    assert source_digest(calls_it, "f") == first
    STATE["version"] = 2
    assert source_digest(calls_it, "f") != first
    STATE["version"] = 1


@pytest.mark.parametrize("form", ["name", "path", "packet", "overload", "definition"])
def test_an_operator_is_described_by_any_of_its_forms(form):
    """`mine::scale`, as torch.library names its files, and the objects that stand for it."""
    definition = torch.library.custom_op(
        "wgdescribe::op", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    forms = {
        "name": "wgdescribe::op",
        "path": "wgdescribe/op",
        "packet": torch.ops.wgdescribe.op,
        "overload": torch.ops.wgdescribe.op.default,
        "definition": definition,
    }
    warmgraph.describe(forms[form], lambda: 3)
    for other in forms.values():
        assert described(other) == "described 3"
    assert described(torch.ops.aten.sin) is None


def test_a_description_that_fails_or_is_not_plain_is_no_key():
    """The graph is bypassed with the reason; the training run goes on."""

    def fails():
        raise RuntimeError("no group yet")

    warmgraph.describe("wgdescribe::fails", fails)
    with pytest.raises(Uncacheable, match=r"wgdescribe::fails raised RuntimeError: no group yet"):
        described("wgdescribe::fails")
    warmgraph.describe("wgdescribe::odd", object)
    with pytest.raises(Uncacheable, match=r"wgdescribe::odd: .*return plain values"):
        described("wgdescribe::odd")
    with pytest.raises(TypeError, match="takes a function that returns the key, not a str"):
        warmgraph.describe("wgdescribe::op", "v1")


RANKED = """
import sys, torch, torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from warmgraph.hashing import source_digest
before = [source_digest(f, "f") for f in ()]
def slices(g): return g[dist.get_rank()]
def divides(g): return g / dist.get_world_size()
def asks(g): return g if dist.is_initialized() else g * 2
def none(g): return g * 2
alone = [source_digest(f, "f") for f in (slices, divides, asks, none)]
dist.init_process_group("fake", rank=int(sys.argv[1]), world_size=int(sys.argv[2]), store=FakeStore())
import json
print(json.dumps([alone, [source_digest(f, "f") for f in (slices, divides, asks, none)]]))
"""


def test_the_rank_is_part_of_what_reads_it_and_of_nothing_else(run_python):
    """The size of the world alone is shared by its ranks; what reads neither is the same in every job."""
    (alone, first), (_, second), (_, larger) = (run_python(RANKED, *at) for at in ((0, 4), (1, 4), (0, 8)))
    slices, divides, asks, none = range(4)
    assert "reads distributed (rank 0 of 4)" in first[slices]
    assert "reads world (of 8)" in larger[divides]
    assert first[slices] != second[slices]
    assert first[divides] == second[divides] != larger[divides]
    assert first[asks] == second[asks] == larger[asks] != alone[asks]
    assert alone[none] == first[none] == second[none] == larger[none]
