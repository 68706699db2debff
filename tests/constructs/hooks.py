"""Group 10, first part: saved-tensors hooks, gradient hooks, module hooks and activation checkpointing. Cases only.

PyTorch's own: test_aotdispatch.py (`test_saved_tensors_hooks_base`, `_params`, `_recompile`,
`_donated_buffers`), dynamo/test_aot_autograd_cache.py (`test_saved_tensors_hooks_autograd_cache`,
`_symbolic`), dynamo/test_backward_hooks.py and test_hooks.py (`test_tensor_register_hook_*`, `test_post_acc_grad_hook`,
`test_module_backward_hooks_*`), dynamo/test_activation_checkpointing.py (`test_tags_*`, `test_compile_selective_*`).
"""

import collections
import functools

import torch
import torch._functorch.config
import torch._inductor.config
from harness import case
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

WITHOUT_KERNELS = True


def numbers():
    return (torch.arange(12.0).reshape(3, 4) / 7).requires_grad_()


def step(function, x, *, around=None):
    """Calls, and runs the backward."""
    if around is None:
        out = function(x)
    else:
        with around:
            out = function(x)
    out.sum().backward()
    return {"out": out, "grad": x.grad.clone()}


def wave(x):
    return (x.sin() * x).exp()


def halved(x):
    return x.to(torch.bfloat16)


def doubled(x):
    return x.to(torch.float32)


def hook_graphs(pack, unpack):
    """Hooks as graph modules: torch puts these into the compiled graphs."""
    return torch.fx.symbolic_trace(pack), torch.fx.symbolic_trace(unpack)


@case(
    torch_wrong="a compiled graph saves other tensors than eager, so that its hooks are called otherwise",
    fields=("is",),
)
def hooks_around_a_compiled_function(way):
    """Plain Python hooks run after the compiled forward and before the backward, on what it saved."""
    calls = []

    def pack(x):
        calls.append("pack")
        return x.detach().clone()

    def unpack(x):
        calls.append("unpack")
        return x

    found = step(way.compile(wave), numbers(), around=saved_tensors_hooks(pack, unpack))
    return {**found, "packed": calls.count("pack"), "unpacked": calls.count("unpack")}


@case(torch_wrong="inlined hooks see only what the compiled graph saves", fields=("value",))
def hooks_that_call_methods(way):
    """Hooks that are graph modules round what is saved to bfloat16, by methods, inside the compiled graphs."""
    with torch._functorch.config.patch(saved_tensors_hooks_filtering_mode="all"):
        return step(way.compile(wave), numbers(), around=saved_tensors_hooks(*hook_graphs(halved, doubled)))


@case(torch_wrong="inlined hooks see only what the compiled graph saves", fields=("value",))
def other_hooks_are_another_graph(way):
    """None, one pair, another pair, none again: each gradient is its own hooks'."""
    function = way.compile(wave)
    pairs = (None, hook_graphs(lambda x: x * 2, lambda x: x * 3), hook_graphs(lambda x: x * 5, lambda x: x * 7), None)
    with torch._functorch.config.patch(saved_tensors_hooks_filtering_mode="all"):
        return [step(function, numbers(), around=pair and saved_tensors_hooks(*pair)) for pair in pairs]


@torch.fx.wrap
def scaled(x):
    return x * 4 if x.dtype is torch.float32 else x


def wrapped_hooks(user_hash):
    def pack(x):
        return scaled(x)

    def unpack(x):
        return x / 2

    pair = hook_graphs(pack, unpack)
    for node in pair[0].graph.nodes:
        if node.op == "call_function" and node.target is scaled and user_hash:
            node.meta["user_cache_hash"] = user_hash
    return saved_tensors_hooks(*pair)


@case(torch_wrong="inlined hooks see only what the compiled graph saves", fields=("value",))
def a_wrapped_call_with_a_hash(way):
    """A hook that calls a wrapped function, with a hash of the user's for what it does."""
    with torch._functorch.config.patch(saved_tensors_hooks_filtering_mode="all"):
        return step(way.compile(wave), numbers(), around=wrapped_hooks("scaled v1"))


@case(
    bypass="user_cache_hash",
    torch_wrong="inlined hooks see only what the compiled graph saves",
    fields=("value",),
)
def a_wrapped_call_without_a_hash(way):
    """Nothing says what the wrapped function does: not cached."""
    with torch._functorch.config.patch(saved_tensors_hooks_filtering_mode="all"):
        return step(way.compile(wave), numbers(), around=wrapped_hooks(None))


@case()
def hooks_that_must_not_be_used(way):
    """A function that disables saved-tensors hooks runs as one graph and leaves them enabled."""

    def function(x):
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            return wave(x)

    found = step(way.compile(function), numbers())
    return {**found, "again": step(way.compile(wave), numbers(), around=saved_tensors_hooks(lambda x: x, lambda x: x))}


@case()
def gradient_hooks_outside(way):
    """Hooks on an input and on an output of the compiled function: called once, in order, with the right gradients."""
    seen = []
    x = numbers()
    x.register_hook(lambda grad: seen.append(("input", grad.clone())))
    x.register_post_accumulate_grad_hook(lambda x: seen.append(("accumulated", x.grad.clone())))
    out = way.compile(wave)(x)
    out.register_hook(lambda grad: seen.append(("output", grad.clone())))
    out.register_hook(lambda grad: grad * 2)
    out.sum().backward()
    return {"out": out, "grad": x.grad.clone(), "seen": seen}


@case()
def a_gradient_hook_inside_on_an_intermediate(way):
    """A hook that doubles a gradient half-way is part of the compiled backward."""

    def function(x):
        y = x.sin()
        y.register_hook(lambda grad: grad * 2)
        return (y * x).exp()

    return step(way.compile(function), numbers())


@case()
def a_gradient_hook_inside_on_an_input(way):
    """A hook registered on an input stays on the caller's tensor and runs in every backward."""

    def function(x):
        x.register_hook(lambda grad: grad * 2)
        return wave(x)

    x = numbers()
    found = step(way.compile(function), x)
    (x * 3).sum().backward()
    return {**found, "again": x.grad.clone()}


@case()
def module_hooks(way):
    """Forward, forward-pre and full backward hooks of a compiled module."""

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(4, 4)

        def forward(self, x):
            return wave(self.inner(x))

    model, seen = Model(), []
    model.inner.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    model.inner.register_forward_hook(lambda module, args, out: out + 1)
    model.inner.register_full_backward_hook(lambda module, into, out: seen.append(tuple(out[0].shape)))
    out = way.compile(model)(numbers())
    out.sum().backward()
    return {"out": out, "weight": model.inner.weight.grad.clone(), "seen": seen}


@case()
def a_checkpointed_region(way):
    """What is recomputed gives the same gradients; nested, and with arguments by keyword."""

    def inner(x, *, scale):
        return wave(x) * scale

    def function(x):
        once = checkpoint(inner, x, scale=2.0, use_reentrant=False)
        return checkpoint(lambda y: checkpoint(wave, y * 0.1, use_reentrant=False) + x, once, use_reentrant=False)

    return step(way.compile(function), numbers())


@case(torch_wrong="compiled dropout draws other numbers than eager", fields=("value",))
def dropout_in_a_checkpointed_region(way):
    """Forward and recomputation drop the same elements, and warm drops what cold dropped."""

    def function(x):
        return checkpoint(lambda x: torch.nn.functional.dropout(x.sin(), 0.5) * x, x, use_reentrant=False)

    # With kernels: a bare `fallback_by_default` draws anew what it recomputes (`mode="lite"` does not).
    with torch._inductor.config.patch(fallback_by_default=False):
        found = step(way.compile(function), numbers())
    return {**found, "agree": bool(((found["out"] == 0) == (found["grad"] == 0)).all())}


def policy(ctx, op, *args, **kwargs):
    save = CheckpointPolicy.MUST_SAVE
    return save if op is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


def selective(context):
    def function(x):
        return checkpoint(lambda x: wave(torch.mm(x, x.t())), x, use_reentrant=False, context_fn=context)

    return function


@case()
def a_checkpoint_with_a_policy(way):
    """Which operators are saved is a Python function: what that does is part of the key. (torch wants a hash of it.)"""
    context = functools.partial(create_selective_checkpoint_contexts, policy)
    return step(way.compile(selective(context)), numbers())


def every_second(counts):
    def counting(ctx, op, *args, **kwargs):
        if op is torch.ops.aten.mm.default:
            counts[op] += 1
        save = op in SAVED and counts[op] % 2
        return CheckpointPolicy.MUST_SAVE if save else CheckpointPolicy.PREFER_RECOMPUTE

    return counting


SAVED = {torch.ops.aten.mm.default, torch.ops._c10d_functional.reduce_scatter_tensor.default}


@case()
def a_checkpoint_with_a_policy_that_counts(way):
    """Around a module, as torchtitan has it: every second product is saved, and the rest computed again."""
    module = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
    wrapped = checkpoint_wrapper(
        module, context_fn=lambda: create_selective_checkpoint_contexts(every_second(collections.defaultdict(int)))
    )
    return step(way.compile(wrapped), numbers())


class Policies:
    def policy(self, ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE


@case()
def a_checkpoint_with_the_policy_of_an_object(way):
    """Its policy is a method of an object, which is its class and its attributes."""
    context = functools.partial(create_selective_checkpoint_contexts, Policies().policy)
    return step(way.compile(selective(context)), numbers())


@case()
def a_checkpoint_with_a_policy_and_its_hash(way):
    """With a `cache_hash` on the partial the policy is part of the key."""
    context = functools.partial(create_selective_checkpoint_contexts, policy)
    context.cache_hash = "save mm v1"
    return step(way.compile(selective(context)), numbers())
