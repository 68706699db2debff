"""Custom operators and autocast: cases of which no node of a graph says what changed. Data for `test_known_bugs.py`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import torch
from warmgraph.backend.torch_api import versions

_SPEC = importlib.util.spec_from_file_location("warmgraph_tests_known", Path(__file__).parent / "known.py")
known = sys.modules.setdefault("warmgraph_tests_known", importlib.util.module_from_spec(_SPEC))
if not hasattr(known, "Cases"):
    _SPEC.loader.exec_module(known)
X, trace = known.X, known.trace
CASES = known.Cases()

# --- custom operators (pytorch#187830: schema; fakes; and what else tracing takes from them) ------------


def operator(v, *, implementation=None, fake=torch.empty_like, mutates=(), tags=(), register=lambda op: None):
    def plain(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    op = torch.library.custom_op("wgbugs::op", implementation or plain, mutates_args=mutates, tags=tags)
    op.register_fake(lambda x, *rest: fake(x))
    register(op)
    return trace(lambda x: torch.ops.wgbugs.op(x) + 1, X)


@CASES.differs
def the_schemas_default_of_an_operator(v):
    def first(x: torch.Tensor, by: int = 1) -> torch.Tensor:
        return x * by

    def second(x: torch.Tensor, by: int = 2) -> torch.Tensor:
        return x * by

    return operator(v, implementation=first if v == 1 else second)


@CASES.differs
def what_an_operator_mutates(v):
    return operator(v, mutates=() if v == 1 else ("x",))


@CASES.differs
def the_tags_of_an_operator(v):
    return operator(v, tags=[torch.Tag.flexible_layout if v == 1 else torch.Tag.needs_fixed_stride_order])


def contiguous(x):
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def transposed(x):
    return torch.empty_like(x.t()).t()


@CASES.differs
def a_helper_that_the_fake_of_an_operator_calls(v):
    helper = contiguous if v == 1 else transposed
    return operator(v, fake=lambda x: helper(x))


@CASES.differs
def the_dtype_that_an_operator_is_autocast_to(v):
    dtype = torch.float16 if v == 1 else torch.bfloat16
    return operator(v, register=lambda op: op.register_autocast("cpu", dtype))


@CASES.differs
def whether_an_operator_is_autocast(v):
    return operator(v, register=lambda op: v == 1 or op.register_autocast("cpu", torch.bfloat16))


@CASES.differs
def an_effect_of_an_operator(v):
    effect = None if v == 1 else torch._library.effects.EffectType.ORDERED
    return operator(v, register=lambda op: op.register_effect(effect))


class Mode(torch.utils._python_dispatch.TorchDispatchMode):
    pass


@CASES.differs
def the_rule_by_which_an_operator_is_dispatched(v):
    rule = (lambda mode, func, *rest: contiguous) if v == 1 else (lambda mode, func, *rest: transposed)
    return operator(v, register=lambda op: op.register_torch_dispatch(Mode, rule))


@CASES.differs
def what_an_operators_backward_saves(v):
    def save_input(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    def save_output(ctx, inputs, output):
        ctx.save_for_backward(output)

    def backward(ctx, g):
        return g * ctx.saved_tensors[0]

    setup = save_input if v == 1 else save_output
    return operator(v, register=lambda op: op.register_autograd(backward, setup_context=setup))


def library(v, key, kernels, *, fakes=None, name="f"):
    with torch.library._scoped_library("wgbugslib", "DEF") as lib:
        lib.define(f"{name}(Tensor x) -> Tensor")
        lib.impl(name, kernels[v - 1], key)
        if fakes is not None:
            torch.library.register_fake(f"wgbugslib::{name}", fakes[v - 1], lib=lib)
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.wgbugslib, packet), overload or "default")
        return trace(lambda x: op(x) * 1, X)


def rows(n):
    return lambda x: x[:n].clone()


def empty_rows(n):
    return lambda x: x.new_empty(n, 4)


@CASES.differs
def the_fake_of_an_operator_that_a_library_defines(v):
    return library(v, "CPU", (rows(2), rows(3)), fakes=(empty_rows(2), empty_rows(3)))


@CASES.differs
def a_kernel_for_every_device_that_decides_shapes_for_want_of_a_fake(v):
    return library(v, "CompositeExplicitAutograd", (rows(2), rows(3)))


@CASES.differs
def a_composite_kernel_of_an_overload(v):
    return library(v, "CompositeImplicitAutograd", (rows(2), rows(3)), name="g.other")


@CASES.differs
def a_kernel_without_a_dispatch_key(v):
    return library(v, "", (rows(2), rows(3)))


@CASES.differs
def a_kernel_in_the_place_of_one_of_torchs(v):
    with torch.library._scoped_library("aten", "IMPL") as lib:
        lib.impl("sinc", (lambda x: x * 2) if v == 1 else (lambda x: x * 3), "AutogradCPU")
        return trace(lambda x: torch.sinc(x), X)


@CASES.differs
def a_rule_by_which_inductor_lowers_an_operator_of_torch(v):
    """Registered with Inductor by the user (`register_lowering`): not in the graph, not in the settings."""
    from torch._inductor import lowering

    table, op = lowering.lowerings, torch.ops.aten.sin.default
    before = table[op]
    try:
        table[op] = (lambda x: x) if v == 1 else (lambda x: (x, x)[0])
        return trace(torch.sin, X)
    finally:
        table[op] = before


if versions.at_hand() >= (2, 12):  # 2.11 has no table of its own for them

    @CASES.refuses("autotuned")
    def an_operator_that_inductor_chooses_among_implementations_of(v):
        from torch._inductor import lowering

        lowering.user_lowerings[torch.ops.aten.sin.default] = contiguous
        try:
            return trace(torch.sin, X)
        finally:
            del lowering.user_lowerings[torch.ops.aten.sin.default]


# --- autocast (pytorch#181564) -------------------------------------------------------------------------


@CASES.differs
def the_dtype_that_an_autocast_region_takes_from_torchs_state(v):
    def region(x):
        with torch.autocast("cpu"):
            return x @ x

    before = torch.get_autocast_dtype("cpu")
    torch.set_autocast_dtype("cpu", torch.float16 if v == 1 else torch.bfloat16)
    try:
        return trace(region, X)
    finally:
        torch.set_autocast_dtype("cpu", before)
