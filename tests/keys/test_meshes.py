"""Device meshes, process groups, placements and DTensors: in keys by content, and cached like any other input."""

from __future__ import annotations

import contextlib
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, _redistribute
from torch.distributed.tensor.experimental._context_parallel import _sharding_rules
from torch.distributed.tensor.parallel import loss
from torch.distributed.tensor.placement_types import _MaskPartial, _StridedShard
from torch.testing._internal.distributed.fake_pg import FakeStore
from warmgraph.backend.torch_api import versions
from warmgraph.backend.torch_api.ranks import places
from warmgraph.hashing import Uncacheable, describing_once, encode
from warmgraph.hashing.encoding import distributed

from .cases import changed, of_inputs

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture
def job():
    """Starts this process's part in a job of four ranks that do not exist; each call is a job of its own."""
    places.listen()  # as the backend does before the first graph is traced; else the first key tells ranks apart

    def start(rank=0):
        if dist.is_initialized():
            dist.destroy_process_group()
        dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=4)

    yield start
    if dist.is_initialized():
        dist.destroy_process_group()


def two_by_two(names=("dp", "tp"), ranks=((0, 1), (2, 3)), device="cpu"):
    return DeviceMesh(device, list(map(list, ranks)), mesh_dim_names=names)


def flattened():
    mesh = two_by_two()
    mesh._flatten("all")
    return mesh


def after_another_group():
    dist.new_group([0, 1, 2])
    return two_by_two()


MESHES = {
    "device type": lambda: two_by_two(device="cuda"),
    "shape": lambda: init_device_mesh("cpu", (4, 1), mesh_dim_names=("dp", "tp")),
    "names of dimensions": lambda: two_by_two(("a", "b")),
    "order of ranks": lambda: two_by_two(ranks=((0, 2), (1, 3))),
    "ranks": lambda: two_by_two(ranks=((0, 1), (3, 2))),
    "names of groups": after_another_group,
    "flattened meshes": flattened,
}


@pytest.mark.parametrize("fact", MESHES)
def test_a_fact_of_a_mesh_changes_its_text(fact, job, record_property):
    """AOTAutograd asks for it while tracing, and bakes the answer in."""
    job()
    before = encode(two_by_two())
    job()
    assert encode(two_by_two()) == before
    job()
    assert encode(MESHES[fact]()) != before
    record_property("key_field", ["inputs", f"mesh: {fact}"])


def test_the_ranks_place_in_a_mesh_changes_its_text(job, record_property):
    """Its coordinate is baked in; torch's own key does not have it."""
    found = []
    for rank in range(4):
        job(rank)
        found.append(encode(two_by_two()))
    assert len(set(found)) == 4
    record_property("key_field", ["inputs", "mesh: this rank's coordinate"])


def test_a_part_of_a_mesh_is_not_a_mesh_of_its_own(job, record_property):
    """Its root can be asked for other groups."""
    job()
    part = encode(two_by_two()["tp"])
    job()
    assert encode(DeviceMesh("cpu", [0, 1], mesh_dim_names=("tp",))) != part
    record_property("key_field", ["inputs", "mesh: root"])


def test_every_placement_has_a_text_of_its_own(record_property):
    """And one that nothing is known of has none."""
    known = [Replicate(), Shard(0), Shard(1), Partial("sum"), Partial("max")]
    known += [_StridedShard(0, split_factor=2), _StridedShard(0, split_factor=4)]
    assert len({encode(placement) for placement in known}) == len(known)
    with pytest.raises(Uncacheable, match="_MaskPartial"):
        encode(_MaskPartial())
    record_property("key_field", ["inputs", "placement of a DTensor"])


DTENSORS = {
    "placement": lambda mesh: DTensor.from_local(torch.ones(4, 4), mesh, [Shard(1), Replicate()]),
    "dtype inside": lambda mesh: DTensor.from_local(torch.ones(4, 4).double(), mesh, [Shard(0), Replicate()]),
    "mesh": lambda mesh: DTensor.from_local(torch.ones(4, 4), two_by_two(("a", "b")), [Shard(0), Replicate()]),
    "Parameter": lambda mesh: torch.nn.Parameter(
        DTensor.from_local(torch.ones(4, 4), mesh, [Shard(0), Replicate()]), requires_grad=False
    ),
}


# Nor do 2.11's own caches: a DTensor's specification came by its `_stable_hash` with 2.12.
cached = pytest.mark.skipif(versions.at_hand() < (2, 12), reason="graphs of DTensors are bypassed on torch 2.11")


@cached
@pytest.mark.parametrize("fact", DTENSORS)
def test_a_fact_of_a_dtensor_changes_the_inputs(fact, job, record_property):
    """And no other part."""
    job()
    mesh = two_by_two()

    def keyed(tensor):
        return of_inputs(tensor).key()

    before = keyed(DTensor.from_local(torch.ones(4, 4), mesh, [Shard(0), Replicate()]))
    assert changed(before, keyed(DTensor.from_local(torch.ones(4, 4), mesh, [Shard(0), Replicate()]))) == set()
    assert changed(before, keyed(DTENSORS[fact](mesh))) == {"inputs"}
    record_property("key_field", ["inputs", f"DTensor: {fact}"])


@cached
def test_a_mesh_is_described_once_for_a_key(job):
    """It has as many ranks as the job, and each parameter of a model may be a DTensor of it."""
    job()
    mesh = two_by_two()

    def asked(count):
        tensors = [DTensor.from_local(torch.ones(4, 4), mesh, [Shard(0), Replicate()]) for _ in range(count)]
        case = of_inputs(*tensors)
        with mock.patch.object(distributed, "_mesh", side_effect=distributed._mesh) as describing:
            case.key()
        return describing.call_count

    assert asked(12) == asked(1) > 0


def test_what_was_said_of_a_mesh_holds_for_one_key_only(job):
    job()
    mesh = two_by_two()
    with describing_once():
        before = encode(mesh), encode([mesh, mesh])
    assert before == (encode(mesh), encode([mesh, mesh]))
    mesh._flatten("all")
    with describing_once():
        assert encode(mesh) != before[0]


@contextlib.contextmanager
def parallel_loss():  # what `loss_parallel` does
    loss._enable_custom_loss_ops()
    try:
        yield
    finally:
        loss._disable_custom_loss_ops()


@contextlib.contextmanager
def rules_of_context_parallel():
    _sharding_rules.register_cp_sharding_rules()
    try:
        yield
    finally:
        _sharding_rules.unregister_cp_sharding_rules()


def gone():
    return mock.patch.dict(handlers(), clear=True)


def of_a_user():
    return mock.patch.dict(handlers(), {torch.ops.aten.sin.default: lambda op, args, kwargs: args[0] * 100})


def exchanged():
    handler = handlers()[torch.ops.aten.argmin.default]
    return mock.patch.dict(handlers(), {torch.ops.aten.is_pinned.default: handler})


def replaced():
    return mock.patch.object(_redistribute, "redistribute_local_tensor", lambda *args, **kwargs: args[0])


def handlers():
    return DTensor._op_dispatcher._custom_op_handlers


@pytest.mark.parametrize("change", [parallel_loss, rules_of_context_parallel, gone, of_a_user, exchanged, replaced])
def test_what_runs_operators_of_dtensors_changes_the_key(change, record_property):
    """Torch's own functions among them, which it puts there itself. They run while a graph is traced."""
    case = of_inputs(torch.ones(3))
    before = case.key()
    with change():
        assert changed(before, case.key()) == {"code"}
    assert changed(before, case.key()) == set()
    record_property("key_field", ["code", f"DTensors: {change.__name__}"])


PROGRAM = """
import json, torch, warmgraph
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import local_map

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = dist.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
x = distribute_tensor(torch.ones(4, 4), mesh, [Replicate()]).requires_grad_()
w = distribute_tensor(torch.arange(16.0).reshape(4, 4), mesh, [Shard(1)])

mapped = local_map(lambda a: a.cos() * 2, [Shard(1)], in_placements=([Shard(1)],), device_mesh=mesh)

def f(x, w):
    return mapped(torch.mm(x, w)).redistribute(placements=[Replicate()]).to_local().sin()

def run(function):
    x.grad = None
    out = function(x, w)
    out.sum().backward()
    return out.detach(), x.grad.full_tensor()

torch.testing.assert_close(run(torch.compile(f, backend="warmgraph")), run(f))
warmgraph.flush()
print(json.dumps(warmgraph.stats()))
dist.destroy_process_group()
"""


@cached
@pytest.mark.exhaustive
def test_a_graph_of_dtensors_is_compiled_once(run_python):
    """Forward and backward, with collectives and `local_map`: a hit in a fresh process that has no compiler."""
    first = run_python(PROGRAM)
    assert (first["misses"], first["bypasses"], first["failures"]) == (1, 0, 0)
    again = run_python(PROGRAM, compiler=False)
    assert (again["hits"], again["misses"], again["bypasses"], again["failures"]) == (1, 0, 0, 0)
