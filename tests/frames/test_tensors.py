"""What a fingerprint says of tensors that wrap another one: of DTensors all that code relies on, of others nothing."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.testing._internal.two_tensor import TwoTensor
from warmgraph.backend.frames.tensors import spec_text, tensor_text
from warmgraph.backend.frames.values import Values
from warmgraph.backend.torch_api.frames.plain import Refused


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


def test_another_subclass_that_wraps_tensors_is_refused():
    with pytest.raises(Refused, match="TwoTensor"):
        text(TwoTensor(torch.zeros(4), torch.zeros(4)))
