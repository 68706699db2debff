"""Group 3, geometry: inputs whose sizes, strides or flags change in place, and writes through views from before.

Dynamo breaks the graph at `x.t_()` and its like if x is an input, and Python makes the call; as operators
(`torch.ops.aten.t_`) they are in the graph.

PyTorch's own: test_aotdispatch.py (`test_input_mutation_metadata`, `metadata2`,
`test_input_data_and_metadata_mutation`, `test_input_metadata_mutation_aliases`,
`test_input_inplace_requires_grad_true`, `test_dupe_arg_torture`), test_misc.py
(`test_inplace_view_on_graph_input`). Cases only.
"""

import torch
from harness import case, outcome

# Dynamo breaks the graph at such a *method* of an input, and traces the operator.
aten = torch.ops.aten


def _run(way, function, *inputs, **options):
    """The outputs or the error, and the inputs after the call."""
    return {"out": outcome(way.compile(function, **options), *inputs), "inputs": inputs}


@case()
def transposed_in_place(way):
    """`t_`: the caller's tensor has the new size and strides."""
    return _run(way, lambda x: aten.t_.default(x) + 1, torch.arange(6.0).reshape(2, 3))


@case()
def squeezed_and_unsqueezed_in_place(way):
    """Dimensions go and come in place, with a write in between."""

    def f(x):
        aten.squeeze_.dim(x, 0)
        x.mul_(2)
        aten.unsqueeze_.default(x, -1)
        return x + 1

    return _run(way, f, torch.arange(3.0).reshape(1, 3))


@case()
def strided_anew_in_place(way):
    """`as_strided_` on a base and its view."""

    def f(x, y):
        aten.as_strided_.default(x, (2,), (2,), 1)
        x.mul_(2)
        return x + y.sum()

    x = torch.arange(6.0)
    return _run(way, f, x, x[3:])


@case()
def strided_anew_alone(way):
    """`as_strided_` on an input without aliases: size, strides and offset change."""

    def f(x):
        aten.as_strided_.default(x, (2,), (2,), 1)
        x.mul_(2)
        return x + 1

    return _run(way, f, torch.arange(6.0))


@case()
def metadata_and_data_changed(way):
    """Geometry and values of a tensor with history both change; gradients follow."""

    def f(x):
        aten.transpose_.default(x, 0, 1)
        x.mul_(3)
        return x.sin()

    leaf = torch.arange(6.0, requires_grad=True)
    x = leaf.clone().view(2, 3)
    seen = _run(way, f, x)
    (seen["out"].sum() + x.sum()).backward()
    return {**seen, "leaf": leaf}


@case()
def resized(way):
    """`resize_` to a smaller and to a larger size within what the storage holds."""

    def f(x):
        aten.resize_.default(x, [2])
        x.add_(1)
        return x * 2

    return _run(way, f, torch.arange(4.0))


@case(torch_wrong="AOTAutograd replays `resize_` by `as_strided_`, which cannot enlarge a storage")
def resized_larger(way):
    """`resize_` beyond the storage, then filled: torch's error, warm as cold."""

    def f(x):
        aten.resize_.default(x, [6])
        x.fill_(1.0)
        return x * 2

    return _run(way, f, torch.arange(4.0))


@case()
def written_through_an_old_view(way):
    """A view from before the call and one from inside see each other's writes."""

    def f(x, view):
        inner = x.view(-1)
        view.mul_(2)
        inner.add_(1)
        return x.sum(), inner[1:]

    x = torch.arange(4.0).reshape(2, 2)
    return _run(way, f, x, x[0])


@case(torch_wrong="AOTAutograd does not replay `detach_` on an input")
def detached_in_place(way):
    """`detach_` in the graph leaves the caller's tensor its history, as with Inductor."""

    def f(x):
        aten.detach_.default(x)
        return x * 2

    leaf = torch.arange(3.0, requires_grad=True)
    return _run(way, f, leaf * 1)


@case()
def requires_grad_set_in_place(way):
    """`requires_grad_()` on an input, inside."""

    def f(x):
        x.requires_grad_()
        return x * 2

    return _run(way, f, torch.arange(3.0))
