"""Process groups in keys: by what they are. And in code: found where collectives take them, and nowhere else."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.distributed.fake_pg import FakeStore
from warmgraph.backend.torch_api import versions
from warmgraph.backend.torch_api.ranks.group_names import Unknown, group_names, with_groups
from warmgraph.hashing import KeyContext, key_of

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


@pytest.fixture
def job():
    """This process's part in a job of four ranks that do not exist; each call is a job of its own."""

    def start(rank):
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=4)

    yield start
    if dist.is_initialized():
        dist.destroy_process_group()


def halves(rank):
    return [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2]


def keyed(*groups, **told):
    def f(x):
        return [funcol.all_gather_tensor(x, 0, group) + 1 for group in groups]

    x = torch.ones(4)
    gm = make_fx(f)(x)
    return key_of(gm, [x], KeyContext(compiler={}, **({"shares_ranks": True} | told)))


def test_ranks_that_stand_alike_in_their_groups_have_one_key(job, record_property):
    found = []
    for rank in range(4):
        job(rank)
        found.append(keyed(halves(rank)))
    assert len({key.id for key in found}) == 1
    assert len({key.groups for key in found}) == 2  # names of their own
    assert len({key.in_place().id for key in found}) == 2
    record_property("key_field", ["graph", "group: how its ranks stand to each other"])


@pytest.mark.parametrize("ranks", [[0, 2], [0, 1, 2], [1, 0]])
def test_another_group_is_another_key(job, ranks):
    if ranks == [1, 0] and versions.at_hand() < (2, 12):
        pytest.skip("torch 2.11 sorts the ranks of each group")
    job(0)
    before = keyed(halves(0)).id
    job(0)
    assert keyed(dist.new_group(ranks, sort_ranks=False) if ranks == [1, 0] else dist.new_group(ranks)).id != before


def test_which_of_its_groups_a_graph_uses_where_is_in_the_key(job):
    """Two that are alike are still two."""
    job(0)
    one, other = dist.new_group([0, 1]), dist.new_group([0, 1])
    assert keyed(one, other).id == keyed(other, one).id
    assert keyed(one, other).groups == keyed(other, one).groups[::-1]
    assert keyed(one, one).id != keyed(one, other).id


def test_names_stay_where_nobody_would_put_others_in_their_place(job):
    """So do they where code from outside torch may hold groups that only a digest tells."""
    found = []
    for rank in (0, 2):
        job(rank)
        group = halves(rank)
        found += [keyed(group, shares_ranks=False), keyed(group, code={"mine": "a digest"})]
    assert len({key.id for key in found}) == 4
    assert all(key.groups == () for key in found)


CODE = """
        buf1 = torch.ops._c10d_functional.all_gather_into_tensor.default(arg0_1, 2, '1')
        assert_size_stride(buf1, (4, ), (1, ), 'torch.ops._c10d_functional.all_gather_into_tensor.default')
        torch.ops._c10d_functional.all_reduce_.default(buf7, '1', '2')
        torch.ops._c10d_functional.all_gather_into_tensor_out.default(buf3, 2, '1', out=buf4)
        torch.ops._c10d_functional.wait_tensor.default(buf3)
        buf5 = torch.ops._c10d_functional.all_reduce.default(buf4, 'sum', arg3_1)
        buf6 = torch.ops.mine.op.default(buf5, '1')
"""


def test_names_are_replaced_where_a_collective_takes_a_group():
    """Not in another argument that reads the same, nor where the group is an input."""
    assert group_names(CODE) == {"1", "2"}
    found = with_groups(CODE, {"1": "2", "2": "it's"})
    expected = CODE.replace("2, '1'", "2, '2'").replace("'1', '2'", "'1', \"it's\"")
    assert found == expected
    with pytest.raises(KeyError):
        with_groups(CODE, {"1": "2"})


@pytest.mark.parametrize(
    "line",
    [
        "torch.ops._c10d_functional.all_reduce_.default(buf0, 'sum',",
        "torch.ops._c10d_functional.no_such_thing.default(buf0, 'sum', '0')",
        "torch.ops._c10d_functional.all_reduce_.default(buf0, 'sum', names[0])",
        "torch.ops._c10d_functional.all_reduce_.default(buf0, 'sum', '\N{GREEK SMALL LETTER ALPHA}')",
    ],
)
def test_a_collective_that_is_written_otherwise_is_not_guessed_at(line):
    with pytest.raises(Unknown):
        group_names(line)
