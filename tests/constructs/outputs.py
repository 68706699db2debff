"""Group 3, outputs: views of inputs, intermediate values and each other come back as such, and are then written to.

PyTorch's own: test_aotdispatch.py (`test_output_aliases_intermediate_*`,
`test_output_aliases_input_multi_output_view*`, `test_output_all_alias_types`,
`test_output_aliases_multiple_inputs_get_correct_one`, `test_alias_of_intermediate_detach`, `test_outputs_are_aliased`,
`test_input_output_view_*`, `test_view_detach`, `test_view_and_inplace_view`, `test_some_output*`,
`test_input_mutation_return`, `test_dupe_arg_returned_as_output`). Cases only.
"""

import torch
from harness import case, outcome

aten = torch.ops.aten


def _each(way, *functions):
    """Each function with and without history; then the caller writes to the last output, and takes gradients."""
    seen = []
    for function in functions:
        for requires_grad in (False, True):
            leaf = torch.arange(9.0).reshape(3, 3).requires_grad_(requires_grad)
            x = leaf * 1
            outs = way.compile(function)(x)
            written = outcome(outs[-1].mul_, 2)
            differentiable = [out for out in outs if outcome(getattr, out, "requires_grad") is True]
            total = outcome(lambda outs=differentiable: sum(out.sum() for out in outs).backward())
            seen.append({"outs": outs, "x": x, "leaf": leaf, "written": written, "total": total})
    return seen


@case(
    torch_wrong="not every view of an intermediate value keeps a base and version",
    fields=("base", "version"),
)
def views_of_an_intermediate_value(way):
    """One view, two views, and views of two values."""
    return _each(
        way,
        lambda x: [(x * 3).view(-1)],
        lambda x: [(y := x * 3).view(-1), y.view(-1)],
        lambda x: [(y := x * 3).view(-1), (x * 4).t(), y.t()],
    )


@case(
    torch_wrong="not every view of an intermediate value keeps a base and version",
    fields=("base", "version"),
)
def an_intermediate_value_and_its_views(way):
    """The value itself first, last, twice, and with a part that is cut from its history."""
    return _each(
        way,
        lambda x: [(y := x * 3).view(-1), y],
        lambda x: [y := x * 3, y.view(-1)],
        lambda x: [y := x * 3, y.view(-1), y],
        lambda x: [(y := x * 3).view(-1), y, y[0].detach()],
    )


@case(torch_wrong="AOTAutograd hides from autograd that pieces of one value are views; eager forbids to write to them")
def pieces_of_an_intermediate_value(way):
    """`unbind` alone, with the whole, and with a view of the whole; torch forbids writing to a piece."""
    return _each(
        way,
        lambda x: list((x * 3).unbind(0)),
        lambda x: [*(y := x * 3).unbind(0), y],
        lambda x: [*(y := x * 3).unbind(0), y, y.view(-1)],
    )


@case(torch_wrong="AOTAutograd hides from autograd that pieces of one value are views; eager forbids to write to them")
def pieces_of_an_input(way):
    """`unbind` of an input, alone and with a view of all of it."""
    return _each(way, lambda x: list(x.unbind(0)), lambda x: [*x.unbind(0), x.view(-1)])


@case(
    torch_wrong="not every view of an intermediate value keeps a base and version",
    fields=("base", "version"),
)
def views_of_inputs_that_changed(way):
    """A write, then views; a detached view from before the write; a turned input and a view of it."""

    def turned(x):
        aten.t_.default(x)
        x[0].mul_(2)
        return [x.view(x.shape), x * 3]

    return _each(
        way,
        lambda x: [x.add_(1).view(-1), x.t(), x * 3],
        lambda x: [y := x.detach(), x.mul_(2), y.view(-1)],
        turned,
    )


@case()
def of_two_inputs_that_share_a_storage(way):
    """Each output is a view of its own input, and not of the other one that lies in the same place."""
    base = torch.arange(6.0)
    x, y = base.view(2, 3), base[:3]
    outs = way.compile(lambda x, y: (y.view(3, 1), x.view(-1), x * 2))(x, y)
    outs[0].add_(1)
    return {"outs": outs, "x": x, "y": y, "base": base}


@case()
def an_argument_returned_under_its_other_name(way):
    """One tensor as two arguments, written to by one name and returned by the other; and what `out=` returns."""

    def f(a, b, again):
        a[0].add_(1)
        return again, torch.sin(a, out=b)

    a, b = torch.ones(2), torch.zeros(2)
    out = way.compile(f)(a, b, a)
    return {"out": out, "a": a, "b": b, "is": [out[0] is a, out[1] is b]}


@case()
def gradients_asked_for_inside(way):
    """`requires_grad_()` on a view of an input, and outputs of which some have no history."""

    def f(a, b):
        view = a.view(-1)
        view.requires_grad_()
        return view, b.detach(), b.add(1).detach(), b, view.shape[0]

    a, b = torch.ones(2, 2), torch.ones(2, requires_grad=True)
    return {"out": outcome(way.compile(f), a, b), "a": a, "b": b}
