"""Sizes, bodies of higher-order operators, checkpoints, subclasses, in two versions each, for `test_known_bugs.py`."""

from __future__ import annotations

import collections
import functools
import importlib.util
import sys
import threading
from pathlib import Path

import torch
from torch._higher_order_ops.invoke_subgraph import NestedCompileRegionOptions
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts
from warmgraph.backend.torch_api import compile as compat
from warmgraph.backend.torch_api import versions

_SPEC = importlib.util.spec_from_file_location("warmgraph_tests_known", Path(__file__).parent / "known.py")
known = sys.modules.setdefault("warmgraph_tests_known", importlib.util.module_from_spec(_SPEC))
if not hasattr(known, "Cases"):
    _SPEC.loader.exec_module(known)
X, trace = known.X, known.trace
CASES = known.Cases()

# --- symbols: what Inductor may assume of a size --------------------------------------------------------


def sized(mark, **kwargs):
    x = torch.ones(8, 4)
    mark(x, 0, **kwargs)
    return trace(lambda x: x.sum(0) + 1, x)


@CASES.differs
def a_hint_override(v):
    return sized(torch._dynamo.mark_dynamic, hint_override=16 * v)


@CASES.differs
def the_range_of_a_dynamic_size(v):
    return sized(torch._dynamo.mark_dynamic, min=2, max=64 * v)


@CASES.differs
def a_hint_override_of_an_unbacked_size(v):
    return sized(torch._dynamo.decorators.mark_unbacked, hint_override=16 * v)


if versions.at_hand() >= (2, 12):

    @CASES.differs
    def the_range_of_an_unbacked_size(v):
        return sized(torch._dynamo.decorators.mark_unbacked, min=v, max=64)


@CASES.differs
def whether_an_unbacked_size_is_strict(v):
    return sized(torch._dynamo.decorators.mark_unbacked, strict=v == 1)


@CASES.differs
def whether_two_unbacked_sizes_are_one(v):
    x, y = torch.ones(8, 4), torch.ones(8, 4)
    for tensor, name in ((x, "a"), (y, "ab"[v - 1])):
        torch._dynamo.decorators.mark_unbacked(tensor, 0, shape_id=name)
    return trace(lambda x, y: (x.sum(0), y.sum(0)), x, y)


@CASES.differs
def whether_backed_sizes_are_treated_as_unbacked(v):
    with compat.config_modules["shapes"].patch(backed_size_oblivious=v == 2):
        return trace(lambda x: x + 1, torch.ones(8, 4), dynamic=True)


# --- bodies of higher-order operators -------------------------------------------------------------------


def leaf():
    return X.clone().requires_grad_()


@CASES.differs
def the_body_of_a_condition(v):
    other = torch.cos if v == 1 else torch.tan
    return trace(lambda x: torch.cond(x.sum() > 0, torch.sin, other, (x,)), X)


@CASES.differs
def the_body_of_a_loop(v):
    def loop(x):
        body = (lambda i, y: (i + 1, y * 2)) if v == 1 else (lambda i, y: (i + 1, y * 3))
        return torch._higher_order_ops.while_loop(lambda i, y: i < 3, body, (torch.tensor(0), x))

    return trace(loop, X)


@CASES.differs
def the_body_of_a_scan(v):
    return trace(lambda x: scan(lambda c, y: (c + y * v, c * 1), torch.zeros(4), x), X)


@CASES.differs
def a_checkpointed_body(v):
    return trace(lambda x: checkpoint(lambda y: y.sin() * v, x, use_reentrant=False), leaf())


@CASES.differs
def the_body_of_a_compile_region(v):
    region = torch.compiler.nested_compile_region(lambda x: x.sin() * v)
    return trace(lambda x: region(x) + region(x + 1), X)


@CASES.refuses("nested_region_config")
def the_options_of_a_compile_region(v):
    options = NestedCompileRegionOptions(
        partitioner=("default_partition", "min_cut_rematerialization_partition")[v - 1]
    )
    with torch._dynamo.config.patch(enable_invoke_subgraph_regional_compile=True):
        region = torch.compiler.nested_compile_region(lambda x: x.sin(), options=options)
        return trace(lambda x: region(x) + region(x + 1), X)


@CASES.refuses("annotations", "_dynamo_bypassing_wrapper_fn")
def a_function_around_a_body_that_dynamo_does_not_look_into(v):
    """Kept in the nested graph's meta; torch reads it from there while tracing."""
    wrapper = (lambda inner: inner) if v == 1 else (lambda inner: lambda *args: inner(*args) * 2)
    hop = torch._higher_order_ops.wrap.dynamo_bypassing_wrapper
    return trace(lambda x: hop(wrapper, lambda y: (y.sin(),), x), X)


@CASES.differs
def a_hook_on_a_tensors_gradient(v):
    def hooked(x):
        y = x * 2
        y.register_hook(lambda g: g * v)
        return y.sum()

    return trace(hooked, leaf())


@CASES.differs
def the_backward_of_an_autograd_function(v):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * v

    with compat.functorch_config.patch(autograd_cache_allow_custom_autograd_functions=True):
        return trace(lambda x: Double.apply(x), leaf())


def attention(**kwargs):
    q = torch.ones(1, 1, 128, 16)
    return trace(lambda q: flex_attention(q, q, q, **kwargs), q)


@CASES.differs
def the_scores_of_an_attention(v):
    return attention(score_mod=lambda score, b, h, i, j: score + (i - j) * v)


@CASES.differs
def the_mask_of_an_attention(v):
    mask = create_block_mask(lambda b, h, i, j: i >= j + v, 1, 1, 128, 128, device="cpu")
    return attention(block_mask=mask)


@CASES.differs
def the_kernel_options_of_an_attention(v):
    return attention(kernel_options={"BLOCK_M": 32 * v})


# --- selective checkpointing ----------------------------------------------------------------------------


def policy(v):
    choice = CheckpointPolicy.MUST_SAVE if v == 1 else CheckpointPolicy.PREFER_RECOMPUTE
    return lambda ctx, op, *args, **kwargs: choice


def selective(context):
    return trace(lambda x: checkpoint(lambda y: y.sin().cos(), x, use_reentrant=False, context_fn=context), leaf())


@CASES.differs
def a_policy_without_a_hash(v):
    """What it does is looked at."""
    return selective(functools.partial(create_selective_checkpoint_contexts, policy(v)))


@CASES.differs
def a_policy_that_is_a_list_of_operators(v):
    saved = [torch.ops.aten.sin.default if v == 1 else torch.ops.aten.cos.default]
    return selective(functools.partial(create_selective_checkpoint_contexts, saved))


@CASES.differs
def a_policy_that_counts(v):
    """As torchtitan has it: every nth of an operation is saved. The table is made for each call of context_fn."""

    def of(counts):
        def policy(ctx, op, *args, **kwargs):
            counts[op] += 1
            return CheckpointPolicy.PREFER_RECOMPUTE if counts[op] % (v + 1) else CheckpointPolicy.MUST_SAVE

        return policy

    return selective(lambda: create_selective_checkpoint_contexts(of(collections.defaultdict(int))))


torch.library.define("wgbugs::compared", "(Tensor x) -> Tensor")


@CASES.differs
def a_policy_that_names_an_operator_of_the_users(v):
    """It compares it with others, and calls none."""
    saved = {torch.ops.wgbugs.compared.default, *([torch.ops.aten.cos.default] if v == 1 else [])}
    return selective(functools.partial(create_selective_checkpoint_contexts, lambda ctx, op, *_, **__: op in saved))


class Policies:
    def __init__(self, choice):
        self.choice = choice

    def policy(self, ctx, op, *args, **kwargs):
        return self.choice


@CASES.differs
def a_policy_of_an_object(v):
    holder = Policies(policy(v)(None, None))
    return selective(functools.partial(create_selective_checkpoint_contexts, holder.policy))


@CASES.refuses("context_fn", "lock has no stable identity", "cache_hash")
def a_policy_of_an_object_that_nothing_describes(v):
    holder = Policies((threading.Lock(), policy(v)(None, None)))
    return selective(functools.partial(create_selective_checkpoint_contexts, holder.policy))


@CASES.differs
def a_policy_with_a_hash(v):
    def context():
        return create_selective_checkpoint_contexts(policy(v))

    context.cache_hash = f"policy {v}"
    return selective(context)


@CASES.differs
def a_partial_policy_with_a_hash(v):
    context = functools.partial(create_selective_checkpoint_contexts, policy(v))
    context.cache_hash = f"policy {v}"
    return selective(context)


@CASES.differs
def a_partial_of_a_policy_with_a_hash(v):
    """As torch has it: the hash of the inner function says nothing of the arguments."""

    def context(choice):
        return create_selective_checkpoint_contexts(policy(choice))

    context.cache_hash = "policy"
    return selective(functools.partial(context, v))


if hasattr(torch.autograd.graph, "region_activation_memory_budget"):  # since torch 2.13

    @CASES.differs
    def the_memory_budget_of_a_region(v):
        def budgeted(x):
            with torch.autograd.graph.region_activation_memory_budget(0.25 * v):
                return x.sin().cos()

        return trace(budgeted, leaf())


# --- tensor subclasses and objects ----------------------------------------------------------------------


class Two(torch.Tensor):
    """Two tensors and something to remember."""

    @staticmethod
    def __new__(cls, a, b, memory):
        return torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype, device=a.device)

    def __init__(self, a, b, memory):
        self.a, self.b, self.memory = a, b, memory

    def __tensor_flatten__(self):
        return ["a", "b"], self.memory

    @staticmethod
    def __tensor_unflatten__(inner, memory, size, stride):
        return Two(inner["a"], inner["b"], memory)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        first = torch.utils._pytree.tree_map_only(Two, lambda t: t.a, args)
        second = torch.utils._pytree.tree_map_only(Two, lambda t: t.b, args)
        (memory,) = {t.memory for t in args if isinstance(t, Two)}
        return Two(func(*first, **(kwargs or {})), func(*second, **(kwargs or {})), memory)


def two(memory, b=X):
    return trace(lambda t: t.sin() + 1, Two(X.clone(), b + 1, memory))


@CASES.differs
def what_a_subclass_remembers(v):
    return two(("scale", v))


@CASES.differs
def the_type_of_what_a_subclass_remembers(v):
    return two(2 if v == 1 else 2.0)


@CASES.differs
def the_dtype_of_an_inner_tensor(v):
    return two(0, X if v == 1 else X.double())


@CASES.differs
def what_a_subclass_inside_a_subclass_remembers(v):
    return trace(lambda t: t.sin() + 1, Two(Two(X.clone(), X + 1, v), X + 1, 0))


class Opaque:
    def __init__(self, v):
        self.v = v

    def __eq__(self, other):
        return self.v == other.v

    def __hash__(self):
        return hash(self.v)


@CASES.refuses("Opaque", "no stable identity")
def an_object_that_a_subclass_remembers(v):
    return two(Opaque(v))


@CASES.refuses("Two")
def a_subclass_made_inside_the_graph(v):
    return trace(lambda x: Two(x, x + 1, v).a * 2, X)
