"""Tables of Inductor's and AOTAutograd's, by operator: decompositions, rules, patterns."""

from __future__ import annotations

import functools
import importlib
from operator import methodcaller

import torch
import torch.nn.functional as F
from harness import compiled, operator, pair, values

aten = torch.ops.aten


def whole():
    """Inductor's decompositions, with all of Inductor imported."""
    importlib.import_module("torch._inductor.fx_passes.reinplace")
    return importlib.import_module("torch._inductor.decomposition").decompositions


# --- decompositions -------------------------------------------------------------------------------------


@pair()
def the_decomposition_of_hardswish_is_that_of_hardsigmoid(v):
    """Both entries are functions of torch's own; the second version has one in the other's place."""
    from torch._inductor.decomposition import decompositions

    if v == 2:
        decompositions[aten.hardswish.default] = decompositions[aten.hardsigmoid.default]
    return compiled(torch.nn.functional.hardswish)(values())


@pair()
def the_decomposition_of_gelu_is_removed(v):
    """Without its entry the operator is called as it is, whose last bits differ from those of its formula."""
    from torch._inductor.decomposition import decompositions

    if v == 2:
        del decompositions[aten.gelu.default]
    return compiled(torch.nn.functional.gelu)(values(64) - 4)


@pair()
def a_decomposition_is_a_partial_of_torchs(v):
    """The entry is `functools.partial` over a function of torch's: no code of the user's, a number of theirs."""
    whole()[aten.hardsigmoid.default] = functools.partial(torch.add, alpha=v, other=1.0)
    return compiled(F.hardsigmoid)(values())


@pair()
def a_decomposition_is_a_call_of_a_method(v):
    """The entry is an object of Python's own that calls a method, with a number of the user's."""
    whole()[aten.hardsigmoid.default] = methodcaller("mul", v)
    return compiled(F.hardsigmoid)(values())


@pair()
def a_decomposition_is_a_module_of_torchs(v):
    """The entry is an object of a class of torch's, which keeps a number of the user's."""
    whole()[aten.hardsigmoid.default] = torch.nn.Hardtanh(-1.0, v / 2)
    return compiled(F.hardsigmoid)(values())


@pair()
def a_decomposition_of_the_users_made_from_text(v):
    """As packages that keep signatures do: `exec` without a module's name, and `functools.wraps`."""
    table = whole()
    space = {"v": v}
    exec("def scaled(x): return x * v", space)
    table[aten.hardswish.default] = functools.wraps(table[aten.hardswish.default])(space["scaled"])
    return compiled(F.hardswish)(values())


@pair()
def a_decomposition_of_a_custom_operator(v):
    """The operator is the user's, as is the function that it is taken apart by."""
    op = operator("op")
    whole()[torch.ops.pairs.op.default] = lambda x: x * v
    return compiled(lambda x: op(x))(values())


@pair()
def a_decomposition_entered_before_inductor_is_imported(v):
    """Inductor copies what stands in `torch._decomp.decomposition_table` when it is imported, which is later."""
    table = torch._decomp.decomposition_table
    theirs = table[aten.hardswish.default]
    table[aten.hardswish.default] = lambda x: theirs(x) * v
    return compiled(torch.nn.functional.hardswish)(values())


@pair()
def a_table_changed_before_the_first_of_two_compiles(v):
    """Only the table's own module was imported then; the first compile imports the rest of Inductor."""
    from torch._inductor.decomposition import decompositions

    if v == 2:
        decompositions[aten.hardswish.default] = decompositions[aten.hardsigmoid.default]
    compiled(lambda x: x + v)(values())
    return compiled(F.hardswish)(values())


@pair()
def a_decomposition_for_random_numbers(v):
    """Inductor joins `extra_random_decomps` to its own table, and that one is not among its own."""
    from torch._decomp.decompositions_for_rng import extra_random_decomps

    extra_random_decomps[aten.bernoulli.p] = lambda x, p, *, generator=None: torch.full_like(x, p * v)
    return compiled(lambda x: torch.ops.aten.bernoulli.p(x, 0.25))(values())


@pair()
def a_decomposition_of_aotautograds(v):
    """`aot_autograd_decompositions` holds for every compiler that AOTAutograd traces for."""
    from torch._functorch.aot_autograd import aot_autograd_decompositions

    aot_autograd_decompositions[aten.erfinv.default] = lambda x: x * v
    return compiled(torch.erfinv)(values() / 2)


@pair()
def the_shape_that_a_fake_tensor_takes_from_a_decomposition(v):
    """A fake tensor asks `decomposition_table` for what the operator gives; here stands that of a sum."""
    import torch._inductor.decomposition  # has taken its own copy by now

    table = torch._decomp.decomposition_table
    if v == 2:
        table[aten.erfinv.default] = table[aten.sum.default]
    return compiled(lambda x: torch.ones_like(torch.erfinv(x)))(values() / 2)


# --- operators that are nothing, constants, or written in place -------------------------------------------


@pair()
def a_custom_operator_that_is_said_to_do_nothing(v):
    """The operator is the user's, the rule is torch's own."""
    from torch._inductor.fx_passes import post_grad

    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    op = operator("op", forward=twice)
    if v == 2:
        post_grad.noop_registry[torch.ops.pairs.op.default] = post_grad.noop_registry[aten.clone.default]
    return compiled(lambda x: op(x + 1) + 1)(values())


@pair()
def an_operator_that_is_not_folded_with_constants(v):
    """What is on this list is computed when the code runs and not when it is made, where denormals are zero."""
    from torch._inductor.constant_folding import add_dont_constant_fold

    if v == 2:
        add_dont_constant_fold(aten.mul.Tensor)
    torch.set_flush_denormal(True)
    run = compiled(lambda x: (torch.full((4,), 1e-30) * 1e-12 + 0, x + 1))
    run(values())
    torch.set_flush_denormal(False)
    return run(values())


@pair()
def an_operator_that_works_in_place_of_another(v):
    """`inplaceable_ops` names what an operator becomes when its input may be written to: here, another operator."""
    from torch._inductor.fx_passes.reinplace import InplaceableOp, inplaceable_ops

    if v == 2:
        inplaceable_ops[aten.sin.default] = InplaceableOp(aten.cos_.default, 0)
    return compiled(lambda x: torch.sin(x + 1))(values())


# --- patterns -------------------------------------------------------------------------------------------


def replaces_sin(pass_dict, factor):
    """Register a pattern that puts `x * factor` in the place of sin(x)."""
    from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_graph_pattern

    @register_graph_pattern(CallFunction(aten.sin.default, KeywordArg("x")), pass_dict=pass_dict)
    def handle(match, x):
        match.replace_by_example(lambda x: x * factor, [x])


@pair()
def a_pattern_among_those_of_the_joint_graph(v):
    """A pattern of the user's in a pass of torch's."""
    from torch._inductor.fx_passes import joint_graph

    replaces_sin(joint_graph.patterns, v)
    return compiled(torch.sin)(values())


@pair()
def a_pass_appended_to_the_passes_after_autograd(v):
    """The list of passes itself has one more."""
    from torch._inductor.fx_passes import post_grad
    from torch._inductor.pattern_matcher import PatternMatcherPass

    post_grad.pass_patterns.append(PatternMatcherPass())
    replaces_sin(post_grad.pass_patterns[-1], v)
    return compiled(torch.sin)(values())


@pair()
def a_pattern_before_autograd(v):
    """Passes before autograd see the graph that the key describes."""
    from torch._inductor.fx_passes import pre_grad
    from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_graph_pattern

    @register_graph_pattern(CallFunction(torch.sin, KeywordArg("x")), pass_dict=pre_grad.efficient_conv_bn_eval_pass)
    def handle(match, x):
        with match.graph.inserting_before(match.nodes[0]):
            new = match.graph.call_function(torch.mul, (x, v))
        new.meta.update(match.nodes[0].meta)
        match.nodes[0].replace_all_uses_with(new)
        match.erase_nodes()

    return compiled(torch.sin)(values())


@pair()
def a_pattern_changed_between_two_compiles(v):
    """An entry of a pass gets another handler."""
    from torch._inductor.fx_passes import joint_graph
    from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_graph_pattern

    whole()

    def by(factor):
        return lambda match, x: match.replace_by_example(lambda x: x * factor, [x])

    register_graph_pattern(CallFunction(aten.sin.default, KeywordArg("x")), pass_dict=joint_graph.patterns)(by(3))
    compiled(lambda x: x + v)(values())
    (entry,) = joint_graph.patterns[("call_function", aten.sin.default)]
    entry.handler = by(v)
    return compiled(torch.sin)(values())


@pair()
def a_method_of_one_pass_of_inductors(v):
    """The pass is an object, and its `apply` is replaced in it alone."""
    from torch._inductor.fx_passes import post_grad

    theirs = post_grad.pass_patterns[0].apply

    def apply(gm):
        graph = getattr(gm, "graph", gm)
        for node in graph.find_nodes(op="call_function", target=aten.mul.Tensor):
            node.update_arg(1, v)
        return theirs(gm)

    post_grad.pass_patterns[0].apply = apply
    return compiled(lambda x: x * 3)(values())


@pair()
def a_fusion_of_groups_by_its_name(v):
    """The setting names a fusion, and the table says what is done under that name."""
    from torch._inductor.fx_passes.group_batch_fusion import BatchFusion, register_fusion

    @register_fusion("mine", pre_grad=False)
    class Mine(BatchFusion):
        def match(self, node):
            return ("mine",) if node.target is aten.sin.default else None

        def fuse(self, graph, subset):
            for node in subset:
                with graph.inserting_before(node):
                    new = graph.call_function(aten.mul.Tensor, (node.args[0], v))
                new.meta.update(node.meta)
                node.replace_all_uses_with(new)
                graph.erase_node(node)

    with torch._inductor.config.patch(post_grad_fusion_options={"mine": {"min_fuse_set_size": 1}}):
        return compiled(lambda x: torch.sin(x) + torch.sin(x + 1))(values())
