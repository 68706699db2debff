"""What a fingerprint says of tensors that wrap another one: all that code relies on."""

from __future__ import annotations

import types

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.testing._internal.two_tensor import TwoTensor
from warmgraph.backend.frames.codes import said_beside, untraced
from warmgraph.backend.frames.tensors import spec_text, tensor_text
from warmgraph.backend.frames.values import Values
from warmgraph.backend.torch_api.frames.acting import note_untraced
from warmgraph.backend.torch_api.frames.plain import Refused
from warmgraph.backend.torch_api.frames.seen import Seen
from warmgraph.hashing import said_with


@pytest.fixture
def mesh():
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    dist.destroy_process_group()


def text(tensor, *, marked=True, size=None):
    return tensor_text(tensor, size or tensor.shape, tensor.stride(), marked, Values(), beneath=False)


def placed(local, mesh, placement=None):
    return DTensor.from_local(local, mesh, [placement or Replicate()], run_check=False)


def at(offset):
    """Memory of its own, which begins so many floats behind a multiple of 64."""
    memory = bytearray(1024)
    begin = -torch.frombuffer(memory, dtype=torch.uint8).data_ptr() % 64
    return torch.frombuffer(memory, dtype=torch.float32, count=32, offset=begin + 4 * offset).view(4, 8)


def test_where_this_ranks_part_lies_counts_for_a_static_input(mesh):
    """Compiled code trusts its address, and checks it no more."""
    aligned, odd = placed(at(0), mesh), placed(at(1), mesh)
    assert text(aligned) == text(placed(at(16), mesh)) != text(odd)
    assert text(aligned, marked=False) == text(odd, marked=False)


OTHERS = {
    "requires_grad": lambda mesh: placed(at(0), mesh).requires_grad_(),
    "a result": lambda mesh: placed(at(0), mesh).requires_grad_() * 1.0,
    "dtype": lambda mesh: placed(at(0).double(), mesh),
    "strides": lambda mesh: placed(torch.zeros(8, 4).T, mesh),
    "size": lambda mesh: placed(at(0)[:2], mesh),
    "no DTensor": lambda mesh: at(0),
}


def test_facts_of_the_whole_tensor_count(mesh):
    with torch.enable_grad():
        texts = [text(tensor) for tensor in (placed(at(0), mesh), *(make(mesh) for make in OTHERS.values()))]
    assert len(set(texts)) == len(OTHERS) + 1


def test_sizes_that_vary_are_left_out(mesh):
    wide = placed(torch.zeros(8, 8), mesh)
    assert text(placed(at(0), mesh), size=(None, 8)) == text(wide, size=(None, 8))


def test_placements_and_meshes_are_in_the_specification(mesh):
    specs = [placed(at(0), mesh, placement)._spec for placement in (Replicate(), Shard(0), Shard(1))]
    assert len({spec_text(spec) for spec in specs}) == 3
    assert spec_text(specs[0]) == spec_text(placed(torch.zeros(16, 8), mesh)._spec), "without sizes"


def two(first=None, second=None):
    return TwoTensor(torch.zeros(4) if first is None else first, torch.zeros(4) if second is None else second)


def test_what_another_subclass_wraps_is_in_its_text():
    exact, wide = two(*[torch.zeros(4, dtype=torch.double)] * 2), two(*[torch.zeros(8)] * 2)
    texts = untraced([two(), exact, wide, TwoTensor(two(), two()), two(torch.ones(4))]).values()
    assert len({*texts}) == 4


def test_where_what_it_wraps_lies_counts_for_a_static_input():
    assert text(two(at(0), at(0))) == text(two(at(16), at(0)))
    assert len({text(two(at(a), at(b))) for a in (0, 1) for b in (0, 1)}) == 4
    assert text(two(at(0), at(0)), marked=False) == text(two(at(1), at(0)), marked=False)


def test_a_ragged_size_is_refused():
    ragged = torch.nested.nested_tensor([torch.zeros(3), torch.zeros(5)], layout=torch.jagged)
    with pytest.raises(Refused, match="ragged"):
        untraced([ragged])


STATE = []


def runs(x):
    return x if STATE else x * 1


class Held(TwoTensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return runs(super().__torch_dispatch__(func, types, args, kwargs or {}))

    def __repr__(self):
        return f"Held({self.a})"


def test_code_of_which_the_text_speaks_may_run():
    codes = [runs.__code__, Held.__repr__.__code__, at.__code__]
    plain, held = two(), Held(torch.zeros(4), torch.zeros(4))
    told = untraced([plain, held])
    assert said_with([plain], codes, told) == (set(), set())
    assert said_with([held], codes, told) == ({runs.__code__}, set())
    again = types.FunctionType(runs.__code__, {})  # another function: which of them ran?
    assert said_with([held], codes, told) == (set(), set())
    del again


def test_code_that_changes_what_it_reads_may_not_run():
    value, seen = Held(torch.zeros(4), torch.zeros(4)), Seen()
    note_untraced(seen, value)
    assert said_beside([value], seen) == (set(), set())
    STATE.append(1)
    with pytest.raises(Refused, match="the code of Held runs while it is traced, and changes what it reads"):
        said_beside([value], seen)
