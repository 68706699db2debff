"""Group 1: inputs mutated under no_grad, grad and inference mode, in every manner; nothing is shared here (`aliases`).

PyTorch's own: test_aotdispatch.py (`test_input_mutation_simple_with_none_and_nontensor`, `_is_output`, `_multiple`,
`_noncontiguous`, `_return`, `_requires_grad_detach`, `_requires_grad_no_grad`,
`_requires_grad_no_grad_inference_graph`, `_requires_grad_no_grad_detach_mixed`, `_hidden_from_autograd_aliasing`,
`test_mutates_input_noncontiguous`, `test_inference_mode`), test_torchinductor.py (`test_input_mutation1` to `5`,
`test_index_put*`). Cases only.
"""

import torch
from harness import case, outcome, raised


@case()
def under_no_grad_a_leaf_that_requires_grad(way):
    """`no_grad` inside: the parameter changes in place and stays a leaf without history."""

    def f(x):
        with torch.no_grad():
            x.mul_(2)
        return x + 1

    x = torch.arange(4.0, requires_grad=True)
    out = way.compile(f)(x)
    out.sum().backward()
    return {"out": out, "x": x}


@case()
def under_no_grad_outside(way):
    """`no_grad` around the call: the same graph without a backward."""
    x = torch.arange(4.0, requires_grad=True)
    with torch.no_grad():
        out = way.compile(lambda x: x.mul_(2) + 1)(x)
    return {"out": out, "x": x}


@case()
def under_grad_with_history(way):
    """A mutated input that has history keeps it: the gradient flows through both the mutation and the output."""
    leaf = torch.arange(4.0, requires_grad=True)
    x = leaf.clone()
    out = way.compile(lambda x: x.mul_(2) + 1)(x)
    (out.sum() + (x * x).sum()).backward()
    return {"out": out, "x": x, "leaf": leaf}


@case()
def under_inference_mode(way):
    """Inside inference mode, on a tensor made in it."""
    with torch.inference_mode():
        x = torch.arange(4.0)
        out = way.compile(lambda x: x.mul_(2) + 1)(x)
    return {"out": out, "x": x}


@case()
def under_inference_mode_an_ordinary_tensor(way):
    """Inside inference mode, on a tensor made outside: its version rises, it stays an ordinary tensor."""
    x = torch.arange(4.0)
    with torch.inference_mode():
        out = way.compile(lambda x: x.mul_(2) + 1)(x)
    return {"out": out, "x": x}


@case(torch_wrong="eager refuses to mutate an inference tensor outside of inference mode; compiled code does it")
def an_inference_tensor_outside_of_inference_mode(way):
    """Whatever torch.compile does with one, warm does."""
    with torch.inference_mode():
        x = torch.arange(4.0)
    return {"out": outcome(way.compile(lambda x: x.mul_(2) + 1), x), "x": x}


@case(
    uncompiled="Dynamo meets the error on its fake tensors",
    torch_wrong="Dynamo wraps the error of a fake tensor in one of its own",
    fields=("error", "line"),
)
def a_leaf_that_requires_grad_is_refused(way):
    """In grad mode a leaf must not be mutated; the error is torch's."""
    x = torch.arange(4.0, requires_grad=True)
    return {"error": raised(way.compile(lambda x: x.mul_(2) + 1), x), "x": x}


@case()
def with_grad_detached_and_no_grad_mixed(way):
    """One input mutated in all three manners; autograd sees one of them."""

    def f(x):
        x.detach().mul_(2)
        x.mul_(3)
        with torch.no_grad():
            x.mul_(4)
        return x + 1

    leaf = torch.arange(4.0, requires_grad=True)
    x = leaf.clone()
    out = way.compile(f)(x)
    (out + x).sum().backward()
    return {"out": out, "x": x, "leaf": leaf}


@case()
def hidden_from_autograd(way):
    """A mutation through `detach()` changes the values and no gradient."""

    def f(x):
        x.detach().mul_(2)
        return x * 3

    x = torch.arange(4.0, requires_grad=True)
    out = way.compile(f)(x)
    out.sum().backward()
    return {"out": out, "x": x}


@case()
def a_transposed_input(way):
    """A non-contiguous input keeps its strides, and the base sees the change."""
    base = torch.arange(6.0).reshape(2, 3)
    x = base.t()
    out = way.compile(lambda x: x.mul_(2) + 1)(x)
    return {"out": out, "x": x, "base": base}


@case()
def by_index_and_by_mask(way):
    """Slices, index tensors, masks, other dtypes, a tensor without dimensions, and `out=`."""

    def f(x, i, flag, count, number, out):
        x[1:3] = 7.0
        x[i] += 1
        x.masked_fill_(flag, -1.0)
        count.add_(flag.sum())
        flag.logical_not_()
        number.copy_(count)
        torch.add(x, 1, out=out)
        return x.sum()

    x, i, flag = torch.arange(4.0), torch.tensor([0, 2]), torch.tensor([True, False, False, True])
    count, number, out = torch.tensor(3), torch.tensor(0.0), torch.empty(4)
    total = way.compile(f)(x, i, flag, count, number, out)
    return {"total": total, "x": x, "flag": flag, "count": count, "number": number, "out": out}


@case(torch_wrong="the pass that turns scalars into tensors removes a write to a float64 tensor without dimensions")
def a_double_without_dimensions(way):
    """A write that torch.compile loses is lost alike when warm; the smallest program is this one."""

    def f(number, x):
        number.copy_(x.sum())

    number = torch.tensor(0.0, dtype=torch.float64)
    way.compile(f)(number, torch.arange(4.0))
    return {"number": number}


@case()
def of_dynamic_size(way):
    """One dynamic graph, two sizes, a base and its view."""

    def f(x, y):
        x.mul_(2)
        return y + x.sum()

    compiled = way.compile(f, dynamic=True)
    seen = {}
    for size in (5, 9):
        x = torch.arange(float(size))
        y = x[1:4]
        seen[str(size)] = [compiled(x, y), x, y]
    return seen


@case()
def of_a_tensor_that_is_no_argument(way):
    """A closed-over tensor and a module-level one change like arguments."""
    closed = torch.zeros(4)

    def f(x):
        closed.add_(x)
        _GLOBAL.sub_(x)
        return closed * _GLOBAL

    _GLOBAL.zero_()
    compiled = way.compile(f)
    outs = [compiled(torch.ones(4)), compiled(torch.ones(4))]
    return {"outs": outs, "closed": closed, "global": _GLOBAL}


_GLOBAL = torch.zeros(4)


@case()
def before_and_after_a_graph_break(way):
    """Two graphs write to one input, with Python in between that reads it."""

    def f(x):
        x.mul_(2)
        torch._dynamo.graph_break()
        x.add_(x.sum().item())
        return x + 1

    x = torch.arange(4.0)
    return {"out": way.compile(f)(x), "x": x}


@case()
def requires_grad_that_comes_and_goes(way):
    """Without history, with it, and under no_grad: each call mutates, and has the gradient it should."""

    def f(x):
        x.mul_(2)
        return x.sin()

    compiled = way.compile(f)
    leaf = torch.ones(4, requires_grad=True)
    with_history = leaf * 3
    plain, seen = torch.ones(4), {}
    seen["plain"] = compiled(plain), plain
    seen["history"] = compiled(with_history), with_history
    with torch.no_grad():
        quiet = leaf * 3
        seen["quiet"] = compiled(quiet), quiet
    seen["history"][0].sum().backward()
    return {**seen, "leaf": leaf}


@case()
def grad_mode_set_in_the_graph(way):
    """Grad mode switched inside is as it was afterwards, and what was computed without it has no history."""

    def f(x):
        before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
        y = x * 2
        torch.set_grad_enabled(before)
        return y, x * 3, torch.is_grad_enabled()

    x = torch.arange(4.0, requires_grad=True)
    return {"out": way.compile(f)(x), "mode": torch.is_grad_enabled()}


@case()
def through_a_real_view_of_complex_numbers(way):
    """`view_as_real` of an input is written to."""

    def f(z):
        torch.view_as_real(z)[..., 0] = 5.0
        return z.abs()

    z = torch.complex(torch.arange(4.0), torch.ones(4))
    return {"out": way.compile(f)(z), "z": z}


@case()
def channels_last(way):
    """The memory format of a mutated input, and of what is computed from it, stays."""
    x = torch.arange(16.0).reshape(1, 2, 2, 4).contiguous(memory_format=torch.channels_last)
    out = way.compile(lambda x: x.mul_(2) + 1)(x)
    return {"out": out, "x": x}
