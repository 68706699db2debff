"""Pairs that a hunt found, as they were found: each of these loaded the other's result once. More are in the others."""

from __future__ import annotations

import torch
import torch.distributed as dist
from harness import Wrapped, compiled, gradient_of_backward, operator, pair, values
from torch.testing._internal.distributed.fake_pg import FakeStore

aten = torch.ops.aten


@pair(agrees=True)
def where_the_base_of_two_views_begins(v):
    """The views lie at the same places of their storage; a base that is made anew begins elsewhere."""
    pool = torch.arange(32.0)
    low = 12 - 4 * v
    part = pool[low : low + 16].data
    first, second = part[8 - low : 16 - low], part[12 - low : 20 - low]
    return compiled(lambda a, b: a.add_(1) + b)(first, second), pool


@pair()
def an_operator_that_stays_though_nobody_uses_what_it_gives(v):
    """`torch.fx.has_side_effect`."""
    calls = []

    def note(x):
        calls.append(1)
        return x.clone()

    note.__annotations__ = {"x": torch.Tensor, "return": torch.Tensor}
    op = torch.library.custom_op("pairs_rows::note", note, mutates_args=())
    op.register_fake(lambda x: torch.empty_like(x))
    if v == 2:
        torch.fx.has_side_effect(torch.ops.pairs_rows.note.default)

    def run(x):
        torch.ops.pairs_rows.note(x)
        return x + 1

    return compiled(run)(values()), torch.tensor(len(calls))


@pair(agrees=True)
def an_operator_of_torchs_that_stays(v):
    if v == 2:
        torch.fx.has_side_effect(aten.sin.default)
    return compiled(lambda x: (x.sin(), x + 1)[1])(values())


@pair()
def a_decomposition_of_torchs_is_wrapped(v):
    """Inductor's own table, torch's own operator."""
    from torch._inductor.decomposition import decompositions

    theirs = decompositions[aten.elu.default]
    decompositions[aten.elu.default] = lambda *args, **kwargs: theirs(*args, **kwargs) * v
    return compiled(torch.nn.functional.elu)(values() - 0.5)


@pair(kernels=True)
def a_lowering_of_torchs_is_wrapped(v):
    """What stands for `sin` in Inductor's loops."""
    from torch._inductor import lowering

    theirs = lowering.lowerings[aten.sin.default]
    lowering.lowerings[aten.sin.default] = lambda x: lowering.lowerings[aten.mul.Tensor](theirs(x), v)
    return compiled(lambda x: torch.sin(x) + 1)(values())


@pair(kernels=True, agrees=True)
def a_lowering_of_torchs_is_made_a_fallback(v):
    """It is called then instead of generated: the same value, other code."""
    from torch._inductor import lowering

    if v == 2:
        del lowering.lowerings[aten.sin.default]
        lowering.make_fallback(aten.sin.default, warn=False, override_decomp=True)
    return compiled(lambda x: torch.sin(x) + 1)(values())


@pair()
def a_replacement_among_those_of_the_joint_graph(v):
    """As torchao and vLLM register theirs: functions that are traced to patterns."""
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.pattern_matcher import fwd_only, register_replacement

    def search(x, y):
        return torch.sub(torch.sin(x), y)

    def replace(x, y):
        return torch.sub(torch.sin(x), y * v)

    register_replacement(search, replace, [values(), values()], fwd_only, joint_graph.patterns)
    with torch.no_grad():
        return compiled(lambda x, y: torch.sin(x) - y)(values(), values() + 1)


@pair()
def a_pattern_that_is_lowered_to_something_else(v):
    """Registered into the passes after autograd."""
    from torch._inductor.fx_passes.post_grad import pass_patterns
    from torch._inductor.lowering import lowerings
    from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_lowering_pattern

    @register_lowering_pattern(CallFunction(aten.erfinv.default, KeywordArg("x")), pass_dict=pass_patterns[2])
    def scaled(match, *, x):
        return lowerings[aten.mul.Tensor](x, v)

    return compiled(torch.erfinv)(values() / 2)


class Ranked(Wrapped):
    """A tensor whose operations know their rank."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        plain = torch.utils._pytree.tree_map_only(Ranked, lambda t: t.inner, args)
        return Ranked(func(*plain, **(kwargs or {})) * (dist.get_rank() + 1))


@pair()
def the_rank_that_the_dispatch_of_a_subclass_asks_for(v):
    """Dynamo traces the operator; AOTAutograd, with the key made, calls the dispatch."""
    dist.init_process_group("fake", rank=v - 1, world_size=2, store=FakeStore())
    return compiled(lambda x: x.sin())(Ranked(values())).inner


class Config:
    scale: 2
    """Read at trace time, as some libraries of settings do."""


@pair()
def the_docstring_of_a_class(v):
    """What a class says of itself, and code that reads it."""
    Config.__doc__ = str(v)
    return gradient_of_backward(lambda ctx, g: g * int(Config.__doc__))


@pair(bypass="Generator")
def the_default_generator_of_torch(v):
    """Its seed, which is the process's."""
    torch.manual_seed(v)
    return gradient_of_backward(lambda ctx, g: g * torch.default_generator.initial_seed())


@pair()
def a_replacement_that_is_made_of_torchs_functions(v):
    """None of what is registered is the user's."""
    from torch._inductor.fx_passes import post_grad
    from torch._inductor.pattern_matcher import fwd_only, register_replacement
    from torch.nn import functional

    instead = functional.softsign if v == 2 else functional.tanh
    register_replacement(functional.tanhshrink, instead, [torch.ones(2, 2)], fwd_only, post_grad.pass_patterns[0])
    with torch.no_grad():
        return compiled(lambda x: functional.tanhshrink(x) + 1)(torch.ones(2, 2))


@pair(kernels=True)
def a_layout_is_asked_for_an_operator_of_the_users(v):
    """By the user, and not by its tags: the operator sees other strides."""
    from torch._inductor import lowering

    def stride(x: torch.Tensor) -> torch.Tensor:
        return torch.full_like(x, float(x.stride(0)))

    op = operator("op", forward=stride)
    if v == 2:
        made = {"layout_constraint": lowering.require_contiguous, "warn": False}
        lowering.make_fallback(torch.ops.pairs.op.default, **made)
    return compiled(lambda x: op(x.t()))(torch.ones(2, 3))
