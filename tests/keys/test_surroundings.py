"""A program of the constructs suite and one change of what lies around it: every graph of it has another key, or none.

Random pairs of the two; the change undone, the keys are the first ones again. Nothing is compiled.
"""

import contextlib
import importlib
import sys
import warnings
from pathlib import Path

import pytest
import torch
import torch._inductor.ops_handler
from hypothesis import given, settings
from hypothesis import strategies as st
from warmgraph.backend.key.context import key_context
from warmgraph.backend.torch_api.changes import tables
from warmgraph.hashing import Uncacheable, key_of

CONSTRUCTS = Path(__file__).parent.parent / "constructs"
GROUPS = ("mutation", "aliases", "outputs", "containers", "values", "functions", "optimizers")
aten = torch.ops.aten
OPERATORS = (
    aten.add.Tensor,
    aten.mul.Tensor,
    aten.sin.default,
    aten.gelu.default,
    aten._softmax.default,
    aten.mm.default,
)


@contextlib.contextmanager
def item(table, key, value):
    """`table[key]` is `value`, or is gone where that is None."""
    there, before = key in table, table.get(key)
    if value is None:
        table.pop(key, None)
    else:
        table[key] = value
    try:
        yield
    finally:
        table.pop(key, None)
        if there:
            table[key] = before


@contextlib.contextmanager
def attribute(owner, name, value):
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def others(*args, **kwargs):
    raise AssertionError("nothing is compiled here")


def decomposition_replaced(pick):
    from torch._inductor.decomposition import decompositions

    return item(decompositions, sorted(decompositions, key=str)[pick % len(decompositions)], others)


def decomposition_removed(pick):
    from torch._inductor.decomposition import decompositions

    return item(decompositions, sorted(decompositions, key=str)[pick % len(decompositions)], None)


def decomposition_of_another(pick):
    table = torch._decomp.decomposition_table
    first, second = aten.sinc.default, sorted(table, key=str)[pick % len(table)]
    return item(table, first if table.get(first) is not table[second] else aten.hardswish.default, table[second])


def lowering_replaced(pick):
    from torch._inductor.lowering import lowerings

    return item(lowerings, OPERATORS[pick % len(OPERATORS)], others)


def kernel_in_python(pick):
    keys = ("CompositeImplicitAutograd", "Autograd", "Meta")
    operator = OPERATORS[pick % len(OPERATORS)]
    return item(operator.py_kernels, getattr(torch._C.DispatchKey, keys[pick % len(keys)]), others)


@contextlib.contextmanager
def kernel_of_a_library(pick):
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl(OPERATORS[pick % len(OPERATORS)].name().partition("::")[2], others, "PrivateUse1")
        yield


def fake_of_an_operator(pick):
    from torch._subclasses import fake_impls

    return item(fake_impls.op_implementations_dict, OPERATORS[pick % len(OPERATORS)], others)


PATCHED = (
    "torch._inductor.fx_passes.post_grad.post_grad_passes",
    "torch._inductor.fx_passes.joint_graph.joint_graph_passes",
    "torch._inductor.lowering.make_pointwise",
    "torch._inductor.graph.GraphLowering.call_function",
    "torch._inductor.scheduler.Scheduler.fuse_nodes",
    "torch._functorch.partitioners.min_cut_rematerialization_partition",
    "torch._decomp.decompositions.gelu_backward",
    "torch._refs.softmax",
    "torch._meta_registrations.meta_mm",
)


def function_of_torch(pick):
    module, _, name = PATCHED[pick % len(PATCHED)].rpartition(".")
    with contextlib.suppress(ModuleNotFoundError):
        return attribute(importlib.import_module(module), name, others)
    outer, _, inner = module.rpartition(".")
    return attribute(getattr(importlib.import_module(outer), inner), name, others)


@contextlib.contextmanager
def pattern_in_a_pass(pick):
    from torch._inductor.fx_passes import joint_graph, post_grad
    from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_graph_pattern

    passes = (joint_graph.patterns, *joint_graph.pass_patterns, *post_grad.pass_patterns)
    chosen, operator = passes[pick % len(passes)], OPERATORS[pick % len(OPERATORS)]
    register_graph_pattern(CallFunction(operator, KeywordArg("x")), pass_dict=chosen)(others)
    try:
        yield
    finally:
        chosen.patterns["call_function", operator].pop()


@contextlib.contextmanager
def denormals_are_zero(pick):
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


class Heuristic:
    """In the place of a class of Inductor's, which is asked how a template is called."""


def heuristic_of_a_template(pick):
    registry = sys.modules.get("torch._inductor.heuristics.registry")  # torch 2.15's name
    registry = registry or importlib.import_module("torch._inductor.template_heuristics.registry")
    known = registry._TEMPLATE_HEURISTIC_REGISTRY
    new = (("mm", "cpu", None), ("ours", "cuda", None))  # some have been there
    return item(known, [*known, *new][-pick % (len(known) + 2)], Heuristic)


@contextlib.contextmanager
def operation_on_numbers(pick):
    registered = torch._inductor.ops_handler.registered_pointwise_ops
    torch._inductor.ops_handler.register_pointwise_op(f"ours_{pick}")
    try:
        yield
    finally:
        registered.discard(f"ours_{pick}")


def accesses_of_a_kernel(pick):
    """An operation of somebody's Triton, or one of Triton's with other arguments."""
    wrapped = torch._higher_order_ops.triton_kernel_wrap
    info, known = wrapped._KernelAccessOpInfo, wrapped._KERNEL_ACCESS_OPS
    name = ("tt.ours", "tt.store", "tt.descriptor_store", "tt.atomic_rmw")[pick % 4]
    return item(known, name, info(write_indexes=wrapped._read_write_indexes([3 + pick])))


NEW = (operation_on_numbers, accesses_of_a_kernel)
IS_NEW = hasattr(torch._inductor.ops_handler, "register_pointwise_op")  # torch 2.15
CHANGES = (
    decomposition_replaced,
    decomposition_removed,
    decomposition_of_another,
    lowering_replaced,
    kernel_in_python,
    kernel_of_a_library,
    fake_of_an_operator,
    function_of_torch,
    pattern_in_a_pass,
    denormals_are_zero,
    heuristic_of_a_template,
    *(NEW if IS_NEW else ()),
)


@pytest.fixture(scope="module", autouse=True)
def constructs():
    """The suite's cases, by "group/name"; its groups import one another by their files' names."""
    tables.import_inductor()
    sys.path.insert(0, str(CONSTRUCTS))
    try:
        import harness

        for group in GROUPS:
            importlib.import_module(group)
        yield harness
    finally:
        sys.path.remove(str(CONSTRUCTS))
        for name in ("harness", *GROUPS):
            sys.modules.pop(name, None)


def keys_of(constructs, word):
    """The keys of all graphs of one case; None for one that has none."""
    found = []

    def backend(gm, inputs):
        try:
            found.append(key_of(gm, inputs, key_context(gm, inputs, "warmgraph")).id)
        except Uncacheable:
            found.append(None)
        return gm.forward

    torch._dynamo.reset()
    torch.manual_seed(0)
    with warnings.catch_warnings(), contextlib.suppress(Exception):  # what a case says of itself is not asked here
        warnings.simplefilter("ignore")
        constructs.CASES[word](constructs.Way("keys", backend))
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_around_a_program_changes_all_of_its_keys(constructs, change):
    """Or takes them away."""
    words, compared = sorted(constructs.CASES), []

    @settings(max_examples=5, derandomize=True, database=None)
    @given(case=st.integers(0, 10_000), pick=st.integers(0, 10_000))
    def holds(case, pick):
        word = words[case * 37 % len(words)]
        before = keys_of(constructs, word)
        with change(pick):
            changed = keys_of(constructs, word)
        after = keys_of(constructs, word)
        assert after == before or len(after) != len(before), word
        for first, second in zip(before, changed, strict=False):
            assert first is None or second != first, word
            compared.append(first is not None)

    holds()
    assert any(compared), "no graph of these programs has a key: nothing was seen"
