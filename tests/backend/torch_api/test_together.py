"""Settings under which ranks talk to each other while they compile: one that loads would leave the others waiting."""

import pytest
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
from warmgraph.backend.torch_api.compile import inductor_config, ranks_compile_together


@pytest.fixture
def job():
    """Two ranks, of which the other one is pretended."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    yield
    dist.destroy_process_group()


def test_nothing_is_refused_as_torch_is_by_default(job):
    """Also on 2.12, where `spmd_check` is on: alone it does nothing."""
    assert ranks_compile_together() is None


def test_overlap_scheduling_is_a_reason(job):
    """It aligns its estimates among all ranks."""
    with inductor_config.patch({"aten_distributed_optimizations.enable_overlap_scheduling": True}):
        assert "enable_overlap_scheduling makes ranks talk" in ranks_compile_together()


@pytest.mark.skipif(
    "aten_distributed_optimizations.spmd_check" not in inductor_config._config, reason="this torch has no such check"
)
def test_a_check_that_graphs_are_alike_is_one_where_torch_makes_it(job):
    """That is where collectives are reordered as well."""
    with inductor_config.patch({"aten_distributed_optimizations.spmd_check": True}):
        assert ranks_compile_together() is None
        with inductor_config.patch(reorder_for_compute_comm_overlap=True):
            assert "spmd_check makes ranks talk" in ranks_compile_together()


def test_a_process_by_itself_talks_to_nobody():
    """Such settings are left on where nothing is distributed."""
    with inductor_config.patch({"aten_distributed_optimizations.enable_overlap_scheduling": True}):
        assert ranks_compile_together() is None
