"""What torch 2.11 and 2.12 lack or do otherwise, made of the torch at hand: only one version is installed."""

import sys
import types
from types import SimpleNamespace

import pytest
import torch
import torch._inductor.kernel.custom_op
from warmgraph.backend import adopt
from warmgraph.backend.compilers.inductor import Inductor
from warmgraph.backend.torch_api.changes import registries as registered
from warmgraph.backend.typing import NotSerialisable
from warmgraph.backend.verify import isolated as apart
from warmgraph.backend.verify.verified import VerifiedHit


def test_what_stays_torchs_own_is_called_as_torch_2_11_takes_it():
    """Its `_TorchCompileInductorWrapper` takes a graph and inputs, and no patches."""

    class Wrapper:
        def __init__(self, mode, options, dynamic):
            self.config = {}

        def __call__(self, model_, inputs_):
            return model_, inputs_

        def reset(self):
            pass

    class AheadOfTime(Wrapper):
        pass

    torch_2_11 = types.ModuleType("torch")
    torch_2_11._TorchCompileInductorWrapper = Wrapper
    torch_2_11._TorchCompileWrapper = type("Other", (), {"__init__": lambda self, backend: None})
    adopt(torch_2_11, lambda: None)
    assert AheadOfTime(None, None, None)("gm", ["x"]) == ("gm", ["x"])


def test_autotuned_operators_are_found_where_torch_2_11_keeps_them(monkeypatch):
    """Among all lowerings, under the name of the operator's module: nothing else says that they are a user's."""
    makes = torch._inductor.kernel.custom_op
    made = types.FunctionType((lambda x: x).__code__, vars(makes))
    mine, other = torch.ops.aten.relu.default, torch.ops.aten.add.Tensor
    lowering = SimpleNamespace(lowerings={mine: made, other: lambda x: x, "name": print})
    monkeypatch.setitem(sys.modules, "torch._inductor.lowering", lowering)
    assert registered.autotuned_operators() == [mine]
    monkeypatch.delitem(sys.modules, makes.__name__)
    assert registered.autotuned_operators() == []


@pytest.fixture
def shared_settings(monkeypatch):
    """Settings as 2.11 has them: a value for the process, where later ones have one for each context."""
    setting = SimpleNamespace(user_override=object())
    monkeypatch.setattr(apart.compat, "inductor_config", SimpleNamespace(_config={"triton.cudagraphs": setting}))


def test_nothing_is_compiled_beside_a_step_whose_settings_it_would_change(shared_settings):
    """The verdict says why, and the loaded code goes on running."""
    told = []
    hit = VerifiedHit(lambda x: x + 1, lambda x: x, frozenset(), None, None, told.append, strict=True)
    assert [hit(1), hit(2), hit(3)] == [2, 3, 4]
    (verdict,) = told
    assert verdict.wrong is None
    assert torch.__version__ in verdict.unknown


def test_where_settings_are_a_contexts_own_a_hit_is_verified():
    assert (apart.impossible_here() is None) == (not torch.__version__.startswith("2.11."))


@pytest.mark.parametrize("name", ["_original_gm", "_serialized_original_gm"])
def test_a_graph_kept_within_a_graph_is_not_stored(name):
    """`wrap_inductor_compiled_regions`: as a module in 2.12, as a pickle since 2.13."""
    graph = SimpleNamespace(**{name: object()})
    result = SimpleNamespace(compiled_fw=SimpleNamespace(result=graph), compiled_bw=None)
    with pytest.raises(NotSerialisable, match="wrap_inductor_compiled_regions"):
        Inductor().pack(SimpleNamespace(kernels={}, result=result), SimpleNamespace(uses_cpu=True))
