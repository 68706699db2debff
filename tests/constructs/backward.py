"""Group 2: tensors mutated while the backward runs.

PyTorch's own: test_aotdispatch.py (`test_backward_mutation_data`, `_metadata`, `_on_grad_out`, `_forward_inputs`,
`_forward_inputs_create_graph`), dynamo/test_hooks.py (`test_tensor_register_hook*`,
`test_intermediary_hooks*`, `test_post_acc_grad_hook*`). There the backward that writes is mostly a
`torch.autograd.Function`'s; an operator with a registered backward traces the same way. Cases only.
"""

import torch
from harness import case, outcome


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def operator(name, backward, save=_save):
    """`torch.ops.wgback.<name>(x, other)`, a copy of x, whose backward is `backward(ctx, grad)`; both are saved."""

    @torch.library.custom_op(f"wgback::{name}", mutates_args=())
    def op(x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return x.clone()

    op.register_fake(lambda x, other: torch.empty_like(x))
    op.register_autograd(backward, setup_context=save)
    return op


def _record_scale(ctx, grad):
    _, history = ctx.saved_tensors
    history.copy_(torch.roll(history, 1))
    history[0] = grad.abs().max()
    return grad * 2, None


class Record(torch.autograd.Function):
    """The delayed-scaling buffer of low-precision training, as a Function."""

    @staticmethod
    def forward(ctx, x, history):
        ctx.save_for_backward(history)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        (history,) = ctx.saved_tensors
        history.copy_(torch.roll(history, 1))
        history[0] = grad.abs().max()
        return grad * 2, None


def _two_steps(function):
    x, history = torch.arange(4.0, requires_grad=True), torch.zeros(3)
    for by in (1.0, 5.0):
        out = function(x, history)
        (out * by).sum().backward()
    return {"x": x, "history": history, "out": out}


@case(torch_wrong="a write in a compiled backward raises no version", fields=("version",))
def a_delayed_scaling_buffer(way):
    """The largest gradient of each step lands in a buffer that the forward only read."""
    op = operator("scale", _record_scale)
    return _two_steps(way.compile(lambda x, history: op(x, history).sin()))


@case(torch_wrong="a write in a compiled backward raises no version", fields=("version",))
def a_delayed_scaling_buffer_by_an_autograd_function(way):
    """The same by `torch.autograd.Function`."""
    return _two_steps(way.compile(lambda x, history: Record.apply(x, history).sin()))


@case()
def an_input_mutated_in_forward_and_backward(way):
    """One counter rises in both halves."""

    def backward(ctx, grad):
        ctx.saved_tensors[1].add_(10)
        return grad, None

    op = operator("both", backward)

    def f(x, count):
        count.add_(1)
        return op(x, count).sin()

    return _two_steps(way.compile(f))


@case(torch_wrong="a write in a compiled backward raises no version", fields=("version",))
def a_view_mutated_in_the_backward(way):
    """The buffer is a row of a table; the table sees it."""
    op = operator("row", _record_scale)
    table = torch.zeros(2, 3)
    row = table[1]
    x = torch.arange(4.0, requires_grad=True)
    way.compile(lambda x, row: op(x, row).sin())(x, row).sum().backward()
    return {"x": x, "row": row, "table": table}


@case()
def a_gradient_mutated_in_the_backward(way):
    """The incoming gradient is scaled in place."""

    def backward(ctx, grad):
        grad.mul_(3)
        return grad, None

    op = operator("incoming", backward)
    x = torch.arange(4.0, requires_grad=True)
    way.compile(lambda x: op(x, x.detach()).sin())(x).sum().backward()
    return {"x": x}


@case(torch_wrong="the check for inputs that require grad and are mutated in the backward takes every mutated input")
def a_buffer_under_create_graph(way):
    """With `create_graph=True` torch.compile refuses a mutation even of a buffer that requires no grad."""
    op = operator("created", _record_scale)
    x, history = torch.arange(4.0, requires_grad=True), torch.zeros(3)
    out = way.compile(lambda x, history: op(x, history).sin())(x, history)
    return {"grad": outcome(torch.autograd.grad, out.sum(), x, create_graph=True), "history": history}


@case(torch_wrong="AOTAutograd refuses what eager allows: a mutation that it keeps in the backward's graph")
def an_input_that_requires_grad_under_create_graph(way):
    """Mutating an input that requires grad in the backward is an error under `create_graph=True`, warm as cold."""

    def backward(ctx, grad):
        with torch.no_grad():
            ctx.saved_tensors[1].mul_(2)
        return grad * 2, None

    op = operator("strict", backward)

    def begin():
        x, other = torch.arange(4.0, requires_grad=True), torch.ones(4, requires_grad=True)
        return x, other, compiled(x, other).sum()

    compiled = way.compile(lambda x, other: op(x, other).sin())
    x, other, out = begin()
    out.backward()
    seen = {"x": x, "other": other}
    x, other, out = begin()
    return {**seen, "error": outcome(torch.autograd.grad, out, x, create_graph=True), "later": other}


@case(torch_wrong="a write in a compiled backward raises no version", fields=("version",))
def a_backward_that_runs_twice(way):
    """With `retain_graph=True` the buffer moves on twice."""

    def backward(ctx, grad):
        ctx.count.add_(grad.sum())
        return grad, None

    op = operator("twice", backward, lambda ctx, inputs, output: setattr(ctx, "count", inputs[1]))
    x, count = torch.arange(4.0, requires_grad=True), torch.zeros(())
    out = way.compile(lambda x, count: op(x, count).sin())(x, count).sum()
    out.backward(retain_graph=True)
    out.backward()
    return {"x": x, "count": count}


@case(
    uncompiled="AOTAutograd refuses the graph", torch_wrong="AOTAutograd supports no change of metadata in a backward"
)
def metadata_changed_in_the_backward(way):
    """The refusal is torch's own, and no entry is made of it."""

    def backward(ctx, grad):
        ctx.saved_tensors[1].unsqueeze_(0)
        return grad, None

    op = operator("metadata", backward)
    x, other = torch.arange(4.0, requires_grad=True), torch.zeros(3)

    def step():
        way.compile(lambda x, other: op(x, other).sin())(x, other).sum().backward()
        return x.grad

    return {"x": x, "error": outcome(step), "other": other}


@case(torch_wrong="the backward of compiled code cannot be differentiated again")
def a_second_derivative_is_refused(way):
    """The error comes when the second backward is asked for, warm as cold."""
    x = torch.arange(4.0, requires_grad=True)
    out = way.compile(lambda x: x.sin())(x)
    (grad,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return {"grad": grad, "error": outcome(grad.sum().backward)}


@case(torch_wrong="a write in a compiled backward raises no version", fields=("version",))
def a_hook_on_an_intermediate_value(way):
    """`register_hook` in the graph: the hook scales the gradient and writes to a buffer."""
    seen = torch.zeros(4)

    def hook(grad):
        seen.add_(grad)
        return grad * 2

    def f(x):
        y = x.sin()
        y.register_hook(hook)
        return y * 3

    x = torch.arange(4.0, requires_grad=True)
    way.compile(f)(x).sum().backward()
    return {"x": x, "seen": seen}


@case()
def hooks_on_inputs_and_parameters(way):
    """Hooks set outside run on the compiled backward: on an input, and after a gradient is accumulated."""
    log = []
    model = torch.nn.Linear(4, 1)
    torch.nn.init.ones_(model.weight)
    model.weight.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.sum().item()))
    x = torch.arange(4.0, requires_grad=True)
    x.register_hook(lambda grad: grad * 2)
    way.compile(model)(x).sum().backward()
    return {"x": x, "log": log}


@case()
def hooks_of_a_module(way):
    """Forward and full backward hooks of a submodule."""
    log = []
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.1)
    model[1].register_forward_hook(lambda module, args, out: out * 2)
    model[1].register_full_backward_hook(lambda module, grads_in, grads_out: log.append(grads_out[0].sum().item()))
    x = torch.arange(4.0, requires_grad=True)
    way.compile(model)(x).sum().backward()
    return {"x": x, "log": log, "weight": model[0].weight}


@case()
def an_input_written_to_before_the_backward(way):
    """What the backward needs was changed in between: eager's error, and not a wrong gradient."""
    x, y = torch.arange(4.0, requires_grad=True), torch.arange(4.0)
    out = way.compile(lambda x, y: x * y)(x, y).sum()
    y.add_(1)
    return {"error": outcome(out.backward), "x": x}
