"""Group 4, second part: wrappers whose gradients, views, parameters and metadata are not the plain ones. Cases only.

PyTorch's own: test_aotdispatch.py (`test_aot_dispatch_incorrect_backward`, `_output_alias`, `_input_mutation`,
`_input_mutation_and_output_alias`, `test_subclass_metadata_mutation`, `test_wrong_guess_tangent_type`,
`test_tangent_type_coercion`, `test_subclass_parameters`, `_torture_case`, `test_input_mutation_false_aliasing`,
`test_grads_no_force_contiguous_subclass`), dynamo/test_subclasses.py (`test_wrapper_subclass_guards_on_inner_tensor`,
`test_recompiles_with_optional_inner_tensor`, `test_tensor_subclass_ctx_*`, `test_subclass_constructor_proxying`,
`test_subclass_views`, `test_tensor_subclass_TwoTensor_*`), test_aot_autograd_cache.py
(`test_aot_runtime_trace_joint`).
"""

import dataclasses
import enum
from typing import NamedTuple

import torch
import torch._functorch.config
import torch._inductor.config
from harness import case, outcome
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing
from two_tensors import kernels, numbers, two

WITHOUT_KERNELS = True


@case(torch_wrong="a result that is expanded in the graph is a view of something unseen", fields=("base",))
def expanded_to_its_own_size(way):
    """The result's size is a size of the input twice; with a backward, and again with another size."""

    def function(x):
        y = x.sin()
        return y.expand(y.shape[0], y.shape[0])

    compiled, found = way.compile(function), []
    for count in (4, 5, 6):
        x = TwoTensor(torch.arange(float(count)), torch.ones(count)).requires_grad_()
        out = compiled(x)
        out.sum().backward()
        found.append((out, x))
    return found


@case(torch_wrong="a copy that is viewed in the graph comes back as itself, not as a view", fields=("base",))
def views_and_parts_with_sizes_in_them(way):
    """A copy viewed with its sizes exchanged, flattened, and one of its inner tensors beside it."""

    def function(x):
        y = x.clone()
        return y.view(y.shape[1], y.shape[0]) * x.shape[0], y.view(y.shape[0] * y.shape[1]), y.a

    compiled, found = way.compile(function, dynamic=True), []
    for rows in (3, 5):
        x = two(rows, requires_grad=True)
        turned, flat, part = compiled(x)
        (turned.sum() + flat.sum()).backward()
        found.append((turned, flat, part, x))
    return found


@case(torch_wrong="a compiled backward takes the kind of gradient that it was traced with, and no other")
def a_gradient_of_another_kind(way):
    """A wrapper's gradient may be a wrapper; a plain tensor is refused, warm as cold, and the next step works."""
    compiled, found = way.compile(lambda x: x.clone() * 2), []
    for tangent in (two(), numbers(), two()):
        x = two(requires_grad=True)
        found.append((outcome(compiled(x).backward, tangent), x.grad))
    return found


@case(torch_wrong="a compiled backward takes the kind of gradient that it was traced with, and no other")
def a_plain_result_that_meets_a_wrapper(way):
    """A plain and a wrapped result are added outside, so that the plain one's gradient is a wrapper."""

    def function(x, y):
        return x * 2 / (y + 3), y + y

    x, y = two(requires_grad=True), numbers().requires_grad_()
    wrapped, plain = way.compile(function)(x, y)
    return outcome((wrapped + plain).sum().backward), wrapped, plain


@case()
def written_with_history(way):
    """A wrapper and a plain input with history are both written to; a view of the wrapper comes back."""

    def function(x, y):
        x.mul_(2)
        y.mul_(3)
        return y.view(-1), x + y

    leaf, wrapper = numbers().requires_grad_(), two(requires_grad=True)
    x, y = leaf + 1, wrapper + 1
    guess = torch._functorch.config.patch(disable_guess_zero_tangent_for_mutated_input_subclass=True)
    with kernels(), guess:
        view, total = way.compile(function)(x, y)
        (view.sum() + (total * y).sum()).backward()
    return {"view": view.detach(), "total": total.detach(), "x": x.detach(), "leaf": leaf, "wrapper": wrapper}


@case(uncompiled="AOTAutograd refuses the graph", torch_wrong="a wrapper's geometry must not change in the graph")
def turned_in_place(way):
    """`t_` of a wrapper in the graph: torch's refusal, and no entry."""
    x = two()
    return outcome(way.compile(lambda x: torch.ops.aten.t_.default(x) * 2), x)


@case()
def two_parts_of_one_wrapper(way):
    """Rows of one wrapper that lie apart are both written to."""

    def function(x, y):
        x.mul_(3)
        y.mul_(2)
        return x.clone() + y.clone()

    base = two(4)
    with kernels():
        out = way.compile(function)(base[:2], base[2:])
    return {"out": out, "a": base.a.clone(), "b": base.b.clone()}


@case(uncompiled="AOTAutograd refuses the graph", torch_wrong="wrappers that overlap must not be written to")
def two_parts_that_overlap(way):
    """The same with rows in common: torch's refusal, and no entry."""

    def function(x, y):
        x.mul_(3)
        return x + y

    base = two(4)
    return outcome(way.compile(function), base[:3], base[1:])


class Model(torch.nn.Module):
    """A plain parameter, and wrappers in a wrapper as one."""

    def __init__(self):
        super().__init__()
        self.plain = torch.nn.Parameter(numbers())
        self.deep = torch.nn.Parameter(TwoTensor(TwoTensor(numbers(), numbers() * 2), two()))

    def forward(self, x):
        return (x + 2 * self.plain) * self.deep


def step(way, model):
    out = way.compile(model)(numbers())
    out.sum().backward()
    return out.detach(), [(name, parameter.grad) for name, parameter in model.named_parameters()]


@case()
def parameters_of_nested_wrappers(way):
    """Wrappers in wrappers as parameters: their gradients are wrappers in wrappers."""
    return step(way, Model())


@case(bypass="TwoTensor")
def parameters_taken_apart(way):
    """torch's parametrisation puts them together in the graph, which calls the user's class: not cached."""
    from torch._functorch._aot_autograd.subclass_parametrization import unwrap_tensor_subclass_parameters

    model = Model()
    unwrap_tensor_subclass_parameters(model)
    return step(way, model)


class Layout(NamedTuple):
    """Metadata with a size, a device and more of its kind inside."""

    size: torch.Size
    device: torch.device
    inner: object


class Kind(enum.Enum):
    ROWS = 1


@dataclasses.dataclass
class Block:
    """As torchao says how activations are quantized."""

    size: int
    kind: Kind


class Described(torch.Tensor):
    """One inner tensor, another that may be missing, and metadata of any kind."""

    @staticmethod
    def __new__(cls, inner, extra, meta):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner, extra, meta):
        self.inner, self.extra, self.meta = inner, extra, meta

    def __tensor_flatten__(self):
        return ["inner"] + (["extra"] if self.extra is not None else []), self.meta

    @classmethod
    def __tensor_unflatten__(cls, tensors, meta, size, stride):
        return cls(tensors["inner"], tensors.get("extra"), meta)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        first = next(leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, cls))
        inside, named = pytree.tree_map_only(cls, lambda x: x.inner, (args, kwargs or {}))
        out = func(*inside, **named)
        if isinstance(first.meta, int):
            out = out * first.meta
        if isinstance(first.meta, Layout):
            out = out * first.meta.inner.size
        if first.extra is not None:
            out = out + first.extra.sum()
        if out.shape[0] > 4:  # a guard on the inner size
            out = out + 100
        out = pytree.tree_map_only(torch.Tensor, lambda inner: cls(inner, first.extra, first.meta), out)
        return return_and_correct_aliasing(func, args, kwargs, out)


class Lenient(Described):
    """Says itself when Dynamo may use one graph for two kinds of metadata."""

    @classmethod
    def __metadata_guard__(cls, compiled, given):
        return compiled <= given


@case()
def an_inner_tensor_that_may_be_missing(way):
    """With it and without it: two graphs, found again each by its own inputs."""
    compiled = way.compile(lambda x: x.sin())
    return [compiled(Described(numbers(), extra, 2)) for extra in (None, numbers(), None, numbers(2))]


@case()
def guards_on_an_inner_size(way):
    """What the class does depends on the size of the inner tensor: a variant on each side of its guard."""
    compiled = way.compile(lambda x: x.sin(), dynamic=True)
    return [compiled(Described(numbers(rows), None, 2)) for rows in (3, 2, 5, 7, 4)]


@case()
def metadata_of_sizes_and_names(way):
    """Sizes, devices, names and tuples in the metadata: each value is another key."""
    compiled, cpu = way.compile(lambda x: x.cos(), dynamic=False), torch.device("cpu")
    metas = [
        (torch.Size(size), cpu, (name, torch.float16, None)) for size, name in (((3,), "a"), ((4,), "a"), ((4,), "b"))
    ]
    return [compiled(Described(numbers(), None, meta)) for meta in metas]


@case()
def metadata_of_the_users_own_class(way):
    """Named tuples, dataclasses and enums of the user's: bare ones are made on a load, of the inputs' own classes."""
    compiled = way.compile(lambda x: x.cos(), dynamic=False)
    metas = [Layout(torch.Size([3]), torch.device("cpu"), Block(size, Kind.ROWS)) for size in (2, 3)]
    outs = [compiled(Described(numbers(), None, meta)) for meta in metas]
    return [(out.inner, str(out.meta), out.meta.inner.kind is Kind.ROWS) for out in outs]


@case(torch_wrong="the class lets Dynamo run code that was traced with other metadata", fields=("value",))
def metadata_that_the_class_compares(way):
    """`__metadata_guard__`: in one process a graph serves what the class allows; each process begins with its own."""
    compiled = way.compile(lambda x: x * x, dynamic=False)
    return [compiled(Lenient(numbers(), None, factor)).inner for factor in (2, 3, 1)]


@case()
def views_of_a_wrapper_as_inputs(way):
    """Narrowed, split, selected, expanded, turned: the input is a view, with static sizes and with dynamic ones."""
    x = TwoTensor(numbers(4), numbers(4) * 3)
    views = (x.narrow(1, 1, 2), x.unsqueeze(-1).expand(4, 4, 3), x.split(3, 1)[1], x.select(1, 2), x.t())
    found = []
    for dynamic, given in ((False, views), (True, views[:2])):
        for view in given:
            torch._dynamo.reset()
            found.append(way.compile(lambda x: x * 2, dynamic=dynamic)(view))
    return found


@case()
def channels_last_with_a_gradient(way):
    """A convolution of a wrapper in channels-last: the gradient's inner tensors have strides like eager's."""
    torch.manual_seed(1)
    layer = torch.nn.Conv2d(2, 3, 2).to(memory_format=torch.channels_last)
    image = torch.arange(32.0).reshape(1, 2, 4, 4).contiguous(memory_format=torch.channels_last)
    x = TwoTensor(image, image * 2).requires_grad_()
    out = way.compile(lambda x: layer(x))(x)
    out.sum().backward()
    return {"out": out, "x": x.grad.a, "weight": layer.weight.grad}
