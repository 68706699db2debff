"""Group 3: inputs whose storage is replaced (`set_`, `.data = y`) or resized.

Dynamo breaks the graph at `x.set_(y)` if x is an input, and Python makes the call; as an operator
(`torch.ops.aten.set_`), which is how FSDP calls it, it is in the graph.

PyTorch's own: test_aotdispatch.py (`test_set__and_data_mutation_good`, `_bad`, `test_set__not_allowed`,
`test_input_mutation_set__nop`, `test_input_mutation_storage_resize_up`, `_down`, `_before_set_`),
test_input_attr_tracking.py (`test_set_data_on_input_tensor`, `test_set_data_on_scoped_tensor`). Cases only.
"""

import torch
from harness import case, outcome

# Dynamo breaks the graph at such a *method* of an input, and traces the operator.
aten = torch.ops.aten


def _run(way, function, *inputs, **options):
    """The outputs or the error, and the inputs after the call."""
    return {"out": outcome(way.compile(function, **options), *inputs), "inputs": inputs}


@case()
def a_method_that_breaks_the_graph(way):
    """`x.set_(y)` between two graphs: x lies in y's storage afterwards, and later writes go there."""

    def f(x, y):
        z = x + y.sum()
        x.set_(y)
        x.mul_(2)
        return x + 1, z

    return _run(way, f, torch.zeros(2), torch.arange(4.0))


@case()
def set_to_another_input(way):
    """`set_` in the graph: x lies in y's storage afterwards."""

    def f(x, y):
        aten.set_.source_Tensor(x, y)
        return x + 1

    return _run(way, f, torch.zeros(4), torch.arange(4.0))


@case(
    uncompiled="AOTAutograd refuses the graph",
    torch_wrong="AOTAutograd supports no `set_` together with a write to the same input",
)
def set_to_another_input_and_written(way):
    """Writes after `set_` would go to the other input; torch says that it cannot."""

    def f(x, y):
        aten.set_.source_Tensor(x, y)
        x.mul_(2)
        return x + 1

    return _run(way, f, torch.zeros(4), torch.arange(4.0))


@case()
def set_to_something_made_inside(way):
    """`set_` to an intermediate value: x takes its storage."""

    def f(x, y):
        aten.set_.source_Tensor(x, y.t().reshape(6)[:4] + 1)
        return x * 2

    return _run(way, f, torch.zeros(4), torch.arange(6.0).reshape(2, 3))


@case(torch_wrong="Dynamo fails on guards when an input gets more dimensions in the graph")
def set_to_more_dimensions(way):
    """Dynamo's own error, after the graph was compiled or loaded."""

    def f(x, y):
        aten.set_.source_Tensor(x, y + 1)
        return x * 2

    return _run(way, f, torch.zeros(2), torch.arange(6.0).reshape(2, 3))


@case(torch_wrong="Inductor checks an input's size against the one after `set_`")
def set_to_another_size(way):
    """Inductor's failed assertion, and the same when warm."""

    def f(x, y):
        aten.set_.source_Tensor(x, y)
        return x * 2

    return _run(way, f, torch.zeros(2), torch.arange(3.0))


@case()
def set_to_a_view_of_a_larger_tensor(way):
    """`set_` to a slice: offset and storage size come with it."""

    def f(x, y):
        aten.set_.source_Tensor(x, y[2:5])
        return x * 2

    return [_run(way, f, torch.zeros(3), torch.arange(float(size))) for size in (8, 12)]


@case(torch_wrong="two `set_` that undo each other raise no version, since nothing is left to do", fields=("version",))
def set_and_set_back(way):
    """Two `set_` that undo each other are none."""

    def f(x, y):
        old = x.detach()
        aten.set_.source_Tensor(x, y)
        z = x + 1
        aten.set_.source_Tensor(x, old)
        return z

    return _run(way, f, torch.zeros(4), torch.arange(4.0))


@case(
    uncompiled="AOTAutograd refuses the graph",
    torch_wrong="a storage that `set_` has replaced cannot be written to any more while tracing",
)
def set_then_written_through_an_old_view(way):
    """A view taken before `set_` still means the old storage."""

    def f(x):
        view = x.view(-1)
        aten.set_.source_Tensor(x, torch.ones(2))
        view.mul_(2)
        return x + 1

    x = torch.arange(4.0)
    old = x.view(2, 2)
    return {**_run(way, f, x), "old": old}


@case(
    torch_wrong="Inductor fails on `x.data = y` of another size; torch's own check of what it may cache fails on any",
)
def data_of_another_size_assigned(way):
    """`x.data = y`: Inductor's error, and nothing is kept."""

    def f(x, y):
        x.data = y
        return x * 2

    return _run(way, f, torch.zeros(2), torch.arange(3.0))


@case(
    torch_wrong="the version of a tensor rises by the assignment that eager does not count",
    fields=("version",),
)
def data_of_a_parameter_assigned(way):
    """`parameter.data = ...` between two uses: the gradient is taken at the new values."""

    def f(p, y):
        p.data = y * 2
        return (p * p).sum()

    p = torch.nn.Parameter(torch.ones(3))
    seen = _run(way, f, p, torch.arange(3.0))
    seen["out"].backward()
    return {**seen, "p": p}


@case(torch_wrong="a write through `.data` raises the version, which eager does not count", fields=("version",))
def written_through_data(way):
    """`x.data.mul_(2)` changes the values."""

    def f(x):
        x.data.mul_(2)
        return x + 1

    return _run(way, f, torch.arange(3.0))


@case()
def a_storage_emptied(way):
    """`untyped_storage().resize_(0)` after the last use, as FSDP frees parameters."""

    def f(x):
        out = x * 2
        x.untyped_storage().resize_(0)
        return out

    with torch.no_grad():
        return _run(way, f, torch.arange(4.0))


@case()
def a_storage_filled(way):
    """A storage is resized from nothing and copied into, as FSDP gathers parameters."""

    def f(x, y):
        x.untyped_storage().resize_(16)
        x.copy_(y)
        return x * 2

    x = torch.zeros(4)
    x.untyped_storage().resize_(0)
    with torch.no_grad():
        return _run(way, f, x, torch.arange(4.0))


@case(torch_wrong="AOTAutograd gives both inputs one storage when two `set_` in one graph exchange them")
def tensors_exchanged(way):
    """Two inputs exchange their storages with `set_`; wrong as with Inductor, and not otherwise."""

    def f(x, y):
        z = x.detach().clone()
        aten.set_.source_Tensor(x, y.detach().clone())
        aten.set_.source_Tensor(y, z)
        return x + y

    return _run(way, f, torch.arange(3.0), torch.ones(3))


@case()
def bytes_of_a_parameter_resized(way):
    """`resize_storage_bytes_` of a tensor that requires grad: up before use, and down after it."""

    def up(x):
        torch.ops.inductor.resize_storage_bytes_(x, 16)
        with torch.no_grad():
            x.copy_(torch.ones(4))
        return x + 1

    def down(x):
        out = x.sin()
        torch.ops.inductor.resize_storage_bytes_(x, 0)
        return out

    empty, full = torch.zeros(4, requires_grad=True), torch.arange(4.0, requires_grad=True)
    empty.untyped_storage().resize_(0)
    return {"up": _run(way, up, empty), "down": _run(way, down, full)}
