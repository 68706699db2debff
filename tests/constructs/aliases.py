"""Group 1, aliases: mutated inputs that share a storage with other inputs, with outputs, or with tensors outside.

PyTorch's own: test_aotdispatch.py (`test_input_mutation_aliases_other_input`, `_aliases_other_input2`,
`_aliases_bases_out_of_order`, `_alias_everything`, `_aliases_and_output_alias`, `_aliases_and_none_require_gradients`,
`_false_aliasing`, `_modifies_autograd_meta_of_aliases`, `_output_view_multiple`, `_and_output_view`,
`test_input_aliased_with_mutation_output_alias`, `test_input_data_and_metadata_mutation_aliases_other_input`,
`test_synthetic_base_base_attribute_is_none`, `test_inputs_overlapping_*`, `test_input_output_view_mutate_multiple`,
`test_dupe_arg`, `test_invalid_dupe`, `test_invalid_requires_grad`).
Cases only.
"""

import torch
from harness import case, outcome


@case()
def an_input_that_has_an_alias_outside(way):
    """A view and the base that the graph does not see change with the input."""
    base = torch.arange(8.0)
    x, other = base[:4], base.view(2, 4)
    out = way.compile(lambda x: x.mul_(2) + 1)(x)
    return {"out": out, "x": x, "base": base, "other": other}


@case()
def an_input_that_is_another_inputs_base(way):
    """A base and its view are both inputs; the base is mutated, the view is read."""

    def f(x, y):
        x.mul_(2)
        return y + 1

    x = torch.arange(4.0)
    y = x[1:3]
    out = way.compile(f)(x, y)
    return {"out": out, "x": x, "y": y}


@case()
def two_views_of_one_base_overlap(way):
    """Both views of a storage are mutated, in turn; what one wrote the other reads."""

    def f(x, y):
        x.mul_(2)
        y.add_(x.sum())
        return x + y

    base = torch.arange(8.0)
    x, y = base[0:4], base[2:6]
    out = way.compile(f)(x, y)
    return {"out": out, "x": x, "y": y, "base": base}


@case()
def two_views_of_one_base_lie_apart(way):
    """Disjoint views of a storage share nothing: each is mutated as if it were alone."""

    def f(x, y):
        x.mul_(2)
        y.add_(x.sum())
        return x + y

    base = torch.arange(8.0)
    x, y = base[0:4], base[4:8]
    out = way.compile(f)(x, y)
    return {"out": out, "x": x, "y": y, "base": base}


@case()
def views_with_history(way):
    """A mutated view whose base requires grad: the base's history changes too."""

    def f(x, y):
        x.mul_(2)
        return x * y

    leaf = torch.arange(4.0, requires_grad=True)
    base = leaf.clone()
    x, y = base.view(2, 2), base[:2]
    out = way.compile(f)(x, y)
    (out.sum() + base.sum()).backward()
    return {"out": out, "x": x, "y": y, "base": base, "leaf": leaf}


@case()
def everything_is_an_alias(way):
    """Views mutated and returned with views of them, and one input twice."""

    def f(x, y, z):
        x.mul_(2)
        return x, y, z.view(2, 2), x + 1, y[0:1]

    base = torch.arange(4.0)
    x = base.view(4)
    out = way.compile(f)(x, base, x)
    return {"out": out, "x": x, "base": base}


@case()
def one_tensor_passed_twice(way):
    """The same tensor as two arguments: a write to one is seen through the other."""

    def f(x, y):
        x.add_(1)
        return x * y

    x = torch.arange(4.0)
    out = way.compile(f)(x, x)
    return {"out": out, "x": x}


@case()
def a_mutated_input_and_its_views_returned(way):
    """What comes back is the input itself, and views of it."""

    def f(x):
        x.mul_(2)
        return x, x.view(2, 2), x[1:], x[1:].view(3, 1)

    leaf = torch.arange(4.0, requires_grad=True)
    x = leaf.clone()
    out = way.compile(f)(x)
    out[2].sum().backward(retain_graph=True)
    return {"out": out, "x": x, "is": out[0] is x, "leaf": leaf}


@case(bypass="guards that no entry can say")
def aliases_that_come_and_go(way):
    """A dynamic graph on inputs apart, overlapping, equal and apart: each call gets code for what it is given."""

    def f(x, y):
        x.add_(1)
        return x * 2 + y

    return _aliases_in_turn(way.compile(f, dynamic=True))


@case(torch_wrong="with static sizes torch sets no guard on which inputs overlap, and runs the code for inputs apart")
def aliases_that_come_and_go_with_static_sizes(way):
    """The second call's result is the wrong one that Inductor gives, and no other."""

    def f(x, y):
        x.add_(1)
        return x * 2 + y

    return _aliases_in_turn(way.compile(f, dynamic=False))


def _aliases_in_turn(compiled):
    seen = []
    for kind in ("apart", "overlapping", "equal", "apart"):
        base = torch.arange(8.0)
        x, y = base[0:4], {"apart": base[4:8], "overlapping": base[2:6]}.get(kind, base[0:4])
        y = x if kind == "equal" else y
        seen.append([kind, compiled(x, y), base])
    return seen


@case()
def a_view_made_under_no_grad(way):
    """A view of a leaf, made without gradients, is mutated without gradients: the leaf changes."""
    leaf = torch.arange(4.0, requires_grad=True)
    with torch.no_grad():
        x = leaf[1:]
        out = way.compile(lambda x: x.mul_(2) + 1)(x)
    return {"out": out, "x": x, "leaf": leaf}


@case()
def one_of_several_views_of_one_call(way):
    """A piece of `split` is mutated inside; all pieces and the input are returned."""

    def f(x):
        with torch.no_grad():
            pieces = x.split(2)
            pieces[0].add_(10)
        return *pieces, x

    x = torch.arange(4.0)
    return {"out": way.compile(f)(x), "x": x}


@case(
    uncompiled="AOTAutograd meets the error while tracing",
    torch_wrong="the error of a fake tensor has other words",
    fields=("error", "line"),
)
def an_expanded_input(way):
    """Torch refuses to write to memory that several elements share."""
    x = torch.ones(1).expand(4)
    return {"out": outcome(way.compile(lambda x: x.mul_(2) + 1), x), "x": x}


@case()
def interleaved_views(way):
    """Columns of one matrix share its memory and no element; neither is rebuilt from the base."""

    def f(a, b):
        a.mul_(3)
        b.mul_(2)
        return a + b

    seen = []
    for pick in (lambda m: (m[:, :2], m[:, 2:]), lambda m: (m[:2], m[2:]), lambda m: (m[0, ::2], m[0, 1::2])):
        matrix = torch.arange(16.0).reshape(4, 4)
        a, b = pick(matrix)
        seen.append((way.compile(f, dynamic=False)(a, b), a, b, matrix))
    return seen


@case(torch_wrong="no version rises when inputs are rebuilt from a storage without a base", fields=("version",))
def aliases_without_a_base(way):
    """Detached pieces of one tensor share a storage, and no tensor is their base."""

    def f(a, b):
        a.add_(1)
        return a + b

    base = torch.arange(4.0)
    a, b = base[:3].detach(), base[1:].detach()
    return {"out": way.compile(f)(a, b), "a": a, "b": b, "base": base}


@case(torch_wrong="Dynamo fails on guards when an input gets more dimensions in the graph")
def bases_out_of_order(way):
    """Two pairs of aliases, interleaved: of one pair the first is written to and the second gets a dimension."""

    def f(a, b, c, d):
        b.add_(1)
        torch.ops.aten.unsqueeze_.default(d, 0)
        return a + c + d, b.view(-1)

    one, two = torch.arange(4.0), torch.arange(4.0) + 10
    inputs = one.view(4), two.view(4), one.view(4), two.view(4)
    return {"out": outcome(way.compile(f), *inputs), "inputs": inputs, "bases": (one, two)}


@case()
def values_of_one_and_geometry_of_the_other(way):
    """Two names of one storage: one is written to, the other transposed."""

    def f(a, b):
        a.mul_(2)
        torch.ops.aten.t_.default(b)
        return a * b

    leaf = torch.arange(4.0, requires_grad=True)
    base = (leaf * 1).view(2, 2)
    a, b = base.view(2, 2), base.view(2, 2)
    return {"out": outcome(way.compile(f), a, b), "a": a, "b": b, "base": base}


@case(bypass="guards that no entry can say")
def aliases_from_the_first_call_on(way):
    """A dynamic graph whose inputs are two views of one place on its first call already, and later lie apart."""

    def f(x, y):
        x.add_(1)
        y.add_(1)
        return x * 2

    compiled, seen = way.compile(f, dynamic=True), []
    for part in (lambda base: base[1:], lambda base: base.unsqueeze(0), lambda base: base.clone()):
        base = torch.arange(6.0)
        x, y = part(base), part(base)
        seen.append((compiled(x, y), x, y, base))
    return seen


@case()
def two_inputs_written_one_viewed(way):
    """Of three inputs two are written to; views of the second and of the third come back."""

    def f(a, b, c):
        a.mul_(2)
        c.mul_(3)
        return b.view(2, 2), c.view(2, 2), a + c

    leaf = torch.arange(4.0, requires_grad=True)
    a, b, c = leaf * 1, leaf * 2, leaf * 3
    out = way.compile(f)(a, b, c)
    sum(x.sum() for x in out).backward()
    return {"out": [x.detach() for x in out], "a": a.detach(), "c": c.detach(), "leaf": leaf}
