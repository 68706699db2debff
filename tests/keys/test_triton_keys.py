"""Users' Triton kernels in keys: all that a compiled kernel is made of. Needs Triton, but no GPU; compiles nothing."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import sys
import types
from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton")

_SPEC = importlib.util.spec_from_file_location("warmgraph_tests_known", Path(__file__).parent / "known.py")
known = sys.modules.setdefault("warmgraph_tests_known", importlib.util.module_from_spec(_SPEC))
if not hasattr(known, "Cases"):
    _SPEC.loader.exec_module(known)
both = known.load("both_keys")

TEXT = """
import triton, triton.language as tl
SCALE: tl.constexpr = tl.constexpr({scale})
@triton.jit
def inner(x):
    return x * {factor}
@triton.jit
def helper(x):
    return inner(x) + SCALE
{decorator}
{jit}
def kernel(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, helper(tl.load(x + at, mask=at < n)), mask=at < n)
"""
PLAIN = {"scale": 1, "factor": 2, "decorator": "", "jit": "@triton.jit", "block": 16}
COUNT = itertools.count()


def tuned(block=16, warps=4, rest=""):
    configs = f"configs=[triton.Config({{'BLOCK': {block}}}, num_warps={warps})]"
    return {"decorator": f"@triton.autotune({configs}, key=['n']{rest})", "block": None}


def make(**changes):
    """A module with the kernel."""
    text = TEXT.format(**PLAIN | changes)
    made = types.ModuleType("warmgraph_tests_kernels")
    made.__file__ = f"/made/kernels_{next(COUNT)}.py"
    linecache.cache[made.__file__] = (len(text), None, text.splitlines(keepends=True), made.__file__)
    sys.modules[made.__name__] = made
    exec(compile(text, made.__file__, "exec"), vars(made))
    return made


def key(**changes):
    """The key of a graph that calls the kernel; Dynamo is stopped there, since nothing can run it."""
    values, made = PLAIN | changes, make(**changes)
    constant = {} if values["block"] is None else {"BLOCK": values["block"]}
    found = []

    def call(x):
        y = torch.empty_like(x)
        made.kernel[(1,)](x, y, x.numel(), **constant)
        return y

    def backend(gm, inputs):
        found.append(both.our_key(gm, inputs)[0])
        raise Stopped

    torch._dynamo.reset()
    with pytest.raises(Exception, match="Stopped"):
        torch.compile(call, backend=backend)(torch.ones(16))
    assert "triton_kernel_wrapper" in found[0].texts()["graph"]
    return found[0].id


class Stopped(Exception):
    pass


@pytest.fixture(autouse=True)
def as_with_a_gpu(monkeypatch):
    """Dynamo only looks for kernels where one could run."""
    both.trace(torch.sin, torch.ones(4))  # what is imported later would take the replacement for its own
    monkeypatch.setattr(torch.utils._triton, "has_triton", lambda **_: True)


CASES = {
    "a helper two calls away": ({}, {"factor": 3}),
    "a global constant": ({}, {"scale": 2}),
    "a constant argument": ({}, {"block": 32}),
    "an autotuner": ({}, tuned()),
    "what an autotuner chooses from": (tuned(), tuned(block=32)),
    "the warps of a configuration": (tuned(), tuned(warps=8)),
    "what an autotuner restores": (tuned(), tuned(rest=", restore_value=['y']")),
    "what an autotuner resets": (tuned(), tuned(rest=", reset_to_zero=['y']")),
    "a heuristic": (
        {"decorator": "@triton.heuristics({'BLOCK': lambda arguments: 16})", "block": None},
        {"decorator": "@triton.heuristics({'BLOCK': lambda arguments: 32})", "block": None},
    ),
    "what is not specialised": ({}, {"jit": "@triton.jit(do_not_specialize=['n'])"}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_is_told_apart_by_all_that_it_is_compiled_from(name):
    """And by nothing else: the same text in another file is the same kernel."""
    one, two = CASES[name]
    assert key(**one) == key(**one)
    assert key(**one) != key(**two)


@pytest.mark.filterwarnings("ignore:Warning only once for all operators")
def test_one_that_replaces_a_kernel_of_torchs():
    """As libraries for results that do not depend on the batch do it, and others that bring faster kernels."""

    def replaced(**changes):
        made = make(**changes)

        def kernel(x):
            y = torch.empty_like(x)
            made.kernel[(triton.cdiv(x.numel(), 16),)](x, y, x.numel(), BLOCK=16)
            return y

        with torch.library._scoped_library("aten", "IMPL") as library:
            library.impl("erfinv", kernel, "CUDA")
            (graph,) = both.trace(torch.sin, torch.ones(4)).graphs
        assert graph.id is not None, graph.why
        return graph.id

    assert replaced() == replaced() != replaced(factor=3)
