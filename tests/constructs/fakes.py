"""Group 11: graphs that change an input's geometry while they are traced are keyed and loaded by how it was before.

Dynamo's `example_value` of a placeholder is the input at the end of the trace; the key needs it as it was before.
Cases only.

PyTorch's own: test_aot_autograd_cache.py (`test_nn_module_with_params_global_constant`, `test_dynamic_shapes*`),
and from memory: issue 113605, test_export's `unsqueeze_` cases.
"""

import torch
from harness import case, outcome

# Dynamo breaks the graph at such a *method* of an input, and traces the operator.
aten = torch.ops.aten


def _both(way, function, inputs, **options):
    """One compiled function on several inputs in turn; each gets its own and shows it afterwards."""
    compiled = way.compile(function, **options)
    return [(outcome(compiled, x), x) for x in inputs]


@case()
def inputs_that_end_alike(way):
    """(2, 3) transposed in place and (3, 2) left alone end with one size; neither gets the other's code."""

    def turned(x):
        aten.t_.default(x)
        return x * 2

    def straight(x):
        aten.t.default(x)
        return x * 2

    a, b = torch.arange(6.0).reshape(2, 3), torch.arange(6.0).reshape(3, 2)
    return {"turned": _both(way, turned, [a]), "straight": _both(way, straight, [b])}


@case()
def inputs_that_begin_with_other_strides(way):
    """Equal nodes, equal sizes, and strides that were swapped before: `t_` of a tensor and of a transposed one."""

    def f(x):
        aten.t_.default(x)
        return x * 2

    square = torch.arange(9.0).reshape(3, 3)
    return [_both(way, f, [square.clone()]), _both(way, f, [square.clone().t()])]


@case()
def a_storage_taken_over(way):
    """`set_` to an input of the same size, with another storage size and offset on each call."""

    def f(x, y):
        aten.set_.source_Tensor(x, y)
        return x.sum() + y

    compiled, seen = way.compile(f), []
    for begin, size in ((0, 4), (2, 8), (0, 16)):
        x, y = torch.zeros(4), torch.arange(float(size))[begin : begin + 4]
        seen.append((compiled(x, y), x))
    return seen


@case(torch_wrong="a geometry that is restored raises no version, since nothing is left to do", fields=("version",))
def turned_and_turned_back(way):
    """An input whose geometry changes and changes back within the graph."""

    def f(x):
        aten.t_.default(x)
        y = x * 2
        aten.t_.default(x)
        return y, x + 1

    return _both(way, f, [torch.arange(6.0).reshape(2, 3), torch.arange(8.0).reshape(2, 4)])


@case()
def strides_that_change_with_history(way):
    """Transposed in place while gradients are recorded, with the sizes of the beginning in the backward."""

    def f(x):
        aten.transpose_.default(x, 0, 1)
        return (x * x).sum(0)

    leaf = torch.arange(6.0, requires_grad=True)
    x = leaf.clone().view(2, 3)
    out = way.compile(f)(x)
    out.sum().backward()
    return {"out": out, "x": x, "leaf": leaf}


@case(torch_wrong="Dynamo makes its guards from an input's sizes at the end of the trace, and fails on them if dynamic")
def transposed_with_dynamic_sizes(way):
    """Dynamo's own error, after the graph was compiled or loaded."""

    def f(x):
        aten.t_.default(x)
        return x * 2 + x.shape[0]

    return _both(way, f, [torch.arange(6.0).reshape(2, 3)], dynamic=True)


@case()
def transposed_with_dynamic_sizes_by_a_method(way):
    """`x.t_()` breaks the graph, and what follows is one dynamic graph for both sizes."""

    def f(x):
        x.t_()
        return x * 2 + x.shape[0]

    inputs = [torch.arange(6.0).reshape(2, 3), torch.arange(20.0).reshape(5, 4)]
    return _both(way, f, inputs, dynamic=True)


@case(torch_wrong="Dynamo compares a dimension with the one that has moved to its place")
def marked_dynamic_and_squeezed(way):
    """`mark_dynamic` on a dimension that moves when another is squeezed away: Dynamo's own error."""

    def f(x):
        aten.squeeze_.dim(x, 0)
        return x.sin()

    x = torch.arange(4.0).reshape(1, 4)
    if way.backend is not None:
        torch._dynamo.mark_dynamic(x, 1)
    return _both(way, f, [x])


@case()
def a_storage_emptied_and_filled_again(way):
    """A storage of nothing is resized in the graph and filled: the size of the tensor was always there."""

    def f(x, y):
        x.untyped_storage().resize_(y.untyped_storage().size())
        x.copy_(y)
        return x * 2

    seen = []
    with torch.no_grad():
        for size in (4, 6):
            compiled = way.compile(f, dynamic=False)
            x, y = torch.zeros(size), torch.arange(float(size))
            x.untyped_storage().resize_(0)
            seen.append((outcome(compiled, x, y), x))
    return seen
