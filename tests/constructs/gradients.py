"""Group 10, seventh part: hooks and their handles, and gradients that are sparse, expanded, hooked or kept. Cases only.

PyTorch's own: dynamo/test_hooks.py (`test_removed_handle_return`,
`test_tensor_register_multiple_hooks_handles_in_list`, `test_tensor_register_hook_repeated_handle_not_local`,
`test_intermediary_hooks_same_on_inductor`, `test_hook_on_intermediate_returns_none`, `_used_before_and_after`,
`_with_container`, `test_hook_with_closure`, `test_functools_arg_vary`, `test_no_recompile_on_hook_identity_change`,
`test_hook_bwd_inside_side_effects`),
test_aotdispatch.py (`test_embedding_bag_view_dynamic`, `test_squeeze_mutation`, `test_output_op_depending_on_symint`,
`test_default_partitioner_saves_symints_not_tensors_for_bw`, `test_rrelu_with_noise_mutation`,
`test_noncontig_nonmemformat_tangents`, `test_batchnorm_inference`, `test_saved_tensors_hooks_donated_buffers`,
`test_output_dict`), test_aot_autograd_cache.py (`HOPCacheTests`).
"""

import functools

import torch
import torch._functorch.config
import torch._inductor.config
from harness import case, outcome
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

WITHOUT_KERNELS = True


def numbers(rows=3, requires_grad=True):
    return (torch.arange(rows * 4.0).reshape(rows, 4) / 7).requires_grad_(requires_grad)


def step(function, x, *args):
    out = function(x, *args)
    out.sum().backward()
    return out.detach(), x.grad.clone()


@case()
def handles_that_are_returned_and_removed(way):
    """Hooks set in the graph: one is removed inside, one outside, one stays; one is kept on an object."""

    class Keeper:
        handle = None

    keeper = Keeper()

    def function(x, keeper):
        gone = x.register_hook(lambda grad: grad * 100)
        later = x.register_hook(lambda grad: grad * 2)
        keeper.handle = x.register_hook(lambda grad: grad + 1)
        y = x.sin()
        gone.remove()
        return y, later, gone

    x, found = numbers(), []
    y, later, gone = way.compile(function)(x, keeper)
    for handle in (later, keeper.handle, gone):
        (grad,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
        found.append(grad)
        handle.remove()
    return found, torch.autograd.grad(y.sum(), x)[0]


@case()
def hooks_by_partial_and_closure(way):
    """The hook is a partial or a closure over a number: another number is another gradient, never the first's."""

    def add(grad, *, by):
        return grad + by

    def function(x, hook):
        y = x * 2
        y.register_hook(hook)
        z = y.sin()
        z.register_hook(hook)
        return z

    hooks = [functools.partial(add, by=3), functools.partial(add, by=4), lambda grad: grad * 5, lambda grad: grad * 6]
    found = []
    for hook in hooks:
        torch._dynamo.reset()
        found.append(step(way.compile(function), numbers(), hook))
    return found


@case()
def a_hook_that_returns_nothing(way):
    """On a value that is used before and after the hook is set, and that lies in a list outside."""
    outside = []

    def function(x):
        y = x * 2
        before = y + 1
        outside.append(y)
        y.register_hook(lambda grad: None)
        y.register_hook(lambda grad: grad * 2)
        return before + y * 3 + outside[0]

    found = step(way.compile(function), numbers())
    return found, outside


@case()
def a_hook_with_a_side_effect(way):
    """What the hook appends while the backward runs is appended; or torch refuses, warm as cold."""
    seen = []

    def hook(grad):
        seen.append(grad.shape)
        return grad * 2

    def function(x):
        y = x * 2
        y.register_hook(hook)
        return y.sin()

    return outcome(lambda: step(way.compile(function), numbers())), seen


@case()
def a_sparse_gradient(way):
    """`sparse=True`: the gradient of a table is a sparse tensor, of static and of dynamic sizes."""
    found = []
    for dynamic in (False, True):
        table = torch.nn.EmbeddingBag(10, 4, sparse=True)
        torch.nn.init.constant_(table.weight, 0.5)
        torch._dynamo.reset()
        out = way.compile(lambda x, y, table=table: table(x, y).view(-1) * 2, dynamic=dynamic)(
            torch.tensor([1, 2, 2, 7]), torch.tensor([0, 2])
        )
        out.sum().backward()
        grad = table.weight.grad
        found.append((out.detach(), grad.is_sparse, grad.coalesce().indices(), grad.coalesce().values()))
    return found


@case()
def a_backward_that_needs_a_size_alone(way):
    """A row is overwritten in place: the backward needs the size of what was there, and not its values."""

    def function(x):
        row = x[0]
        return row.masked_fill_(torch.ones_like(row, dtype=torch.bool), 0.5) * 2

    compiled, found = way.compile(function, dynamic=True), []
    for rows in (3, 5):
        leaf = numbers(rows)
        x = leaf.clone()
        out = compiled(x)
        (out.sum() + x.sum()).backward()
        found.append((out.detach(), x.detach(), leaf.grad))
    return found


@case()
def expanded_and_squeezed(way):
    """An output expanded to the input's own sizes, and a write to a squeezed copy, with dynamic sizes."""

    def function(x):
        copy = x.clone().squeeze(-1)
        copy.add_(1)
        return x.expand(x.shape), x + copy

    compiled, found = way.compile(function, dynamic=True), []
    for rows in (3, 4):
        x = torch.arange(float(rows)).reshape(rows, 1).requires_grad_()
        same, out = compiled(x)
        (same.sum() + out.sum()).backward()
        found.append((same, out, x))
    return found


@case()
def tangents_that_do_not_lie_as_the_outputs(way):
    """With `guess_tangent_strides_as_outputs`: dense, of one element, and with gaps; dynamic and static."""
    found = []
    with torch._functorch.config.patch(guess_tangent_strides_as_outputs=True):
        for dynamic in (False, True):
            torch._dynamo.reset()
            compiled = way.compile(lambda x: (x + 1).transpose(0, 1), dynamic=dynamic)
            for tangent in (torch.ones(4, 3), torch.ones(1).as_strided((4, 3), (0, 0)), torch.ones(24)[::2].view(4, 3)):
                x = numbers()
                compiled(x).backward(tangent)
                found.append(x.grad)
    return found


@case(torch_wrong="compiled code draws other random numbers than eager", fields=("value",))
def a_random_slope(way):
    """`rrelu` keeps the noise that it drew for its backward; it is written to a tensor of the graph's."""

    def function(x):
        noise = torch.ones_like(x)
        return torch.ops.aten.rrelu_with_noise(x, noise, 0.2, 0.8, True), noise

    torch.manual_seed(3)
    x = (-numbers(requires_grad=False) - 1).requires_grad_()
    out, noise = way.compile(function)(x)
    out.sum().backward()
    return {"out": out, "noise": noise, "grad": x.grad, "agree": bool(torch.allclose(x.grad, noise))}


@case()
def statistics_that_are_only_read(way):
    """Batch norm in `eval`: its statistics and their counter stay as they are; then a step of `train`."""
    norm = torch.nn.BatchNorm1d(4)
    compiled, found = way.compile(norm), []
    for training in (False, True):
        norm.train(training)
        found += [step(compiled, numbers()), norm.running_mean.clone(), norm.num_batches_tracked.clone()]
    return found, norm.running_mean, norm.num_batches_tracked


@case()
def dictionaries_of_results(way):
    """One tensor under two names, sums of gradients by name."""
    compiled = way.compile(
        lambda given: {"same": given["a"], "again": given["a"], **{k: v * 2 for k, v in given.items()}}
    )
    given = {"a": numbers(), "b": numbers()}
    out = compiled(given)
    sum(value.sum() for value in out.values()).backward()
    return out, given


@case(torch_wrong="inlined hooks see only what the compiled graph saves", fields=("value",))
def hooks_and_a_backward_that_is_kept(way):
    """What a packing hook makes is the graph's own, and may be overwritten: a backward that is kept runs again."""
    pack, unpack = torch.fx.symbolic_trace(lambda x: x * 2), torch.fx.symbolic_trace(lambda x: x * 3)
    kernels, x = torch._inductor.config.patch(fallback_by_default=False), numbers()
    settings = torch._functorch.config.patch(donated_buffer=True, saved_tensors_hooks_filtering_mode="no_static")
    with kernels, settings, saved_tensors_hooks(pack, unpack):
        out = way.compile(lambda x: ((x @ x.t()).sin() @ x).exp().sum())(x)
    (first,) = torch.autograd.grad(out, x, retain_graph=True)
    (second,) = torch.autograd.grad(out, x)
    return out.detach(), first, second


def saving(which):
    def policy(ctx, op, *args, **kwargs):
        return CheckpointPolicy.MUST_SAVE if op is which else CheckpointPolicy.PREFER_RECOMPUTE

    context = functools.partial(create_selective_checkpoint_contexts, policy)
    context.cache_hash = f"save {which}"
    return context


@case()
def policies_with_hashes_of_their_own(way):
    """Two checkpoint policies, each with its `cache_hash`, then the first again."""
    found = []
    for which in (torch.ops.aten.mm.default, torch.ops.aten.sin.default, torch.ops.aten.mm.default):
        torch._dynamo.reset()
        context = saving(which)

        def function(x, context=context):
            return checkpoint(lambda x: (x @ x.t()).sin() @ x, x, use_reentrant=False, context_fn=context)

        found.append(step(way.compile(function), numbers()))
    return found
