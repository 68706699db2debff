"""The class that ships in `warmgraph.testing.compilers`: both compilers pass it, and one that loads wrong fails."""

from __future__ import annotations

import pytest
import torch
from warmgraph.backend import Backend
from warmgraph.backend.compilers.aot_cudagraphs import CudaGraphs
from warmgraph.backend.compilers.inductor import Inductor

from warmgraph.testing.compilers import STEPS, CompilerConformance


class TestInductor(CompilerConformance):
    @pytest.fixture
    def compiler(self):
        return Inductor()


class TestCudaGraphs(CompilerConformance):
    @pytest.fixture
    def compiler(self):
        return CudaGraphs()


class _Loaded:
    """A loaded graph whose results are one more than they should be."""

    def __init__(self, loaded):
        self._loaded = loaded

    def __getattr__(self, name):
        return getattr(self._loaded, name)

    def post_compile(self, graph, fx_config):
        right = self._loaded.post_compile(graph, fx_config)

        def wrong(inputs):
            return [value + 1 if isinstance(value, torch.Tensor) else value for value in right(inputs)]

        wrong._boxed_call = True
        return wrong


class _LoadsWrong(CudaGraphs):
    def unpack(self, payload, hit, request):
        forward, backward = super().unpack(payload, hit, request)
        return _Loaded(forward), backward


def test_a_compiler_that_loads_wrong_fails():
    """The check can fail."""
    step, claims = STEPS["inference"], CompilerConformance()
    with pytest.raises(AssertionError, match=r"torch\.equal"):
        claims.test_what_is_loaded_is_what_was_compiled(Backend(_LoadsWrong()), step, dynamic=False)
    torch._dynamo.reset()
