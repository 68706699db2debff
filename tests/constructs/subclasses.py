"""Group 4: tensor subclasses, taken apart by AOTAutograd and put together again on a load. Cases only.

PyTorch's own: test_aotdispatch.py (`TestAOTDispatch.test_aot_dispatch_*`), dynamo/test_subclasses.py
(`test_wrapper_subclass_*`, `test_subclass_TwoTensor_*`, `TestNestedTensor`, `test_torch_function_*`),
test_nestedtensor.py (`test_compile_*`), distributed/tensor/test_dtensor_compile.py (`test_dtensor_basic`, `_dynamic`).
"""

import contextlib
import tempfile

import torch
import torch._inductor.config
from harness import case, raised
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing
from two_tensors import kernels, numbers, two

WITHOUT_KERNELS = True


@case()
def a_two_tensor_goes_through(way):
    """Input and output are wrappers; the input is what it was."""
    x = two()
    return {"out": way.compile(lambda x: (x * 2).sin() + 1)(x), "x": x}


@case()
def a_two_tensor_has_a_gradient(way):
    """The gradient of a wrapper is a wrapper, also when the tangent is one."""
    x, y = two(requires_grad=True), two(requires_grad=True)
    double = way.compile(lambda x: (x * 2).sin() + 1)
    out = double(x)
    out.sum().backward()
    double(y).backward(two())
    return {"out": out, "x": x, "y": y}


@case()
def a_two_tensor_with_dynamic_sizes(way):
    """One dynamic compile serves several outer and inner sizes."""
    grow = way.compile(lambda x: (x * 2).sin() + x.shape[0], dynamic=True)
    return [grow(two(rows)) for rows in (3, 5, 4)]


@case()
def a_transposed_two_tensor(way):
    """Outer and inner strides survive; its views alias it, its copies do not."""
    x = TwoTensor(numbers().t(), numbers().t() * 3)
    transposed, copied, more = way.compile(lambda x: (x.t(), x.contiguous(), x + 1))(x)
    return {"transposed": transposed, "copied": copied, "more": more, "x": x}


@case()
def a_two_tensor_is_mutated(way):
    """Both inner tensors of the caller's wrapper hold the new values."""
    x = two()

    def double(x):
        x.mul_(2)
        return x.sum(0)

    with kernels():
        return {"out": way.compile(double)(x), "x": x}


@case()
def a_view_of_a_two_tensor_is_returned(way):
    """Writing through the view that came out writes to the input."""
    x = two()
    view = way.compile(lambda x: x.view(-1))(x)
    view.add_(1)
    return {"view": view, "x": x}


@case()
def a_two_tensor_of_two_tensors(way):
    """Wrappers in wrappers are taken apart to the bottom."""
    x = TwoTensor(two(), two())
    return way.compile(lambda x: x.cos() + 2)(x)


@case()
def inner_tensors_are_read_in_the_graph(way):
    """A plain result of a wrapper's inner tensors, of an input's and of an intermediate's."""
    return way.compile(lambda x: (x.a + x.b, x.sin().a))(two())


@case()
def a_two_tensor_as_parameter(way):
    """A parameter that is a wrapper, with a plain input beside it."""
    weight = torch.nn.Parameter(two())
    out = way.compile(lambda weight, x: (weight * x).sum())(weight, numbers())
    out.backward()
    return {"out": out, "weight": weight}


@case(bypass="TwoTensor")
def a_two_tensor_is_made_in_the_graph(way):
    """torch caches no graph that calls a user's class; neither do we."""
    return way.compile(lambda a, b: TwoTensor(a + 1, b * 2) * 3)(numbers(), numbers())


class Stacked(torch.Tensor):
    """Pretends to have `times` as many rows as its inner tensor, and scales its values: metadata of two kinds."""

    @staticmethod
    def __new__(cls, inner, scale, times):
        size = (inner.shape[0] * times, *inner.shape[1:])
        return torch.Tensor._make_wrapper_subclass(
            cls, size, dtype=inner.dtype, device=inner.device, requires_grad=inner.requires_grad
        )

    def __init__(self, inner, scale, times):
        self.inner, self.scale, self.times = inner, scale, times

    def __tensor_flatten__(self):
        return ["inner"], (self.scale, self.times)

    @staticmethod
    def __tensor_unflatten__(tensors, context, size, stride):
        return Stacked(tensors["inner"], *context)

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        kwargs = kwargs or {}
        first = next(leaf for leaf in pytree.tree_leaves(args) if isinstance(leaf, cls))
        args_, kwargs_ = pytree.tree_map_only(cls, lambda x: x.inner * x.scale, (args, kwargs))
        out = pytree.tree_map_only(
            torch.Tensor, lambda inner: cls(inner, first.scale, first.times), func(*args_, **kwargs_)
        )
        return return_and_correct_aliasing(func, args, kwargs, out)


@case()
def outer_sizes_differ_from_inner_ones(way):
    """Both are symbols; another scale in the metadata is another graph, never the same code."""
    wave = way.compile(lambda x: x.sin() + 1, dynamic=True)
    shapes = ((3, 2.0, 2), (5, 2.0, 2), (4, 3.0, 2), (4, 3.0, 3))
    return [wave(Stacked(numbers(rows), scale, times)) for rows, scale, times in shapes]


@torch.library.custom_op("constructs_subclass::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


scaled.register_fake(lambda x, by: torch.empty_like(x))


class Quantized(torch.Tensor):
    """As libraries of quantized tensors have it: whole numbers, and an operator of the library's that scales them."""

    @staticmethod
    def __new__(cls, data, by):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32, device=data.device)

    def __init__(self, data, by):
        self.data_, self.by = data, by

    def __tensor_flatten__(self):
        return ["data_"], [self.by]

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Quantized(inner["data_"], context[0])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def plain(x):
            return torch.ops.constructs_subclass.scaled(x.data_.float(), x.by)

        args, kwargs = pytree.tree_map_only(Quantized, plain, (args, kwargs or {}))
        return func(*args, **kwargs)


@case()
def a_subclass_whose_dispatch_calls_an_operator(way):
    """What the operator is made of is part of the key, as where a graph calls it."""
    weight = Quantized(torch.arange(-8, 8, dtype=torch.int8).reshape(4, 4), 0.25)
    return way.compile(lambda x: torch.nn.functional.linear(x, weight) + 1)(numbers())


def jagged(lengths=(2, 3, 1), requires_grad=False):
    values = (torch.arange(sum(lengths) * 4.0).reshape(-1, 4) / 9).requires_grad_(requires_grad)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    return values, torch.nested.nested_tensor_from_jagged(
        values, offsets, min_seqlen=min(lengths), max_seqlen=max(lengths)
    )


@case()
def a_jagged_tensor_goes_through(way):
    """Input and output have the same ragged size, so that they can be added. torch does not cache it."""
    _, x = jagged()
    out = way.compile(lambda x: x.sin() * 2 + x)(x)
    return {
        "values": out.values(),
        "offsets": out.offsets(),
        "same": out.shape[1] == x.shape[1],
        "sum": (out + x).values(),
    }


@case()
def a_jagged_tensor_has_a_gradient(way):
    """Through a layer, to its weight and to the values."""
    values, x = jagged(requires_grad=True)
    layer = torch.nn.Linear(4, 3)
    out = way.compile(lambda x: layer(x).values().sin())(x)
    out.sum().backward()
    return {"out": out, "values": values.grad.clone(), "weight": layer.weight.grad.clone()}


@case()
def jagged_tensors_of_several_lengths(way):
    """Other numbers of rows, other lengths: as many compiles as torch needs, each right."""
    wave = way.compile(lambda x: x.cos() + x.shape[0])
    return [wave(jagged(lengths)[1]).values() for lengths in ((2, 3, 1), (4, 2), (1, 1, 5, 2))]


@case()
def jagged_tensors_of_one_raggedness_and_of_two(way):
    """Two that share their offsets can be added, and have one size for both; those that do not are another graph."""
    (_, x), (_, y) = jagged(), jagged((1, 4, 2))
    shared = way.compile(lambda x, y: (x * y).values() + x.sum())(x, x * 3)
    apart = way.compile(lambda x, y: (x.values().sum(), (y * 2).values() + 0))
    return shared, apart(x, y), apart(x, x * 3), raised(lambda: x + y)


@case()
def jagged_tensors_with_what_belongs_to_them(way):
    """With lengths beside offsets (holes), ragged in another dimension, and without the cached extremes."""
    values, offsets = numbers(7), torch.tensor([0, 3, 7])
    holed = torch.nested.nested_tensor_from_jagged(values, offsets, lengths=torch.tensor([2, 4]))
    bare = torch.nested.nested_tensor_from_jagged(values, offsets)
    wave = way.compile(lambda x: (x.sin() * 3, x.size(0)))
    return [[out.values(), out.offsets(), size] for out, size in map(wave, (holed, bare, bare.transpose(1, 2)))]


@case(bypass="NestedTensor")
def a_jagged_tensor_is_made_in_the_graph(way):
    """A wrapper without a wrapper among the inputs: what is needed to rebuild it may not be unpickled."""
    offsets = torch.tensor([0, 1, 3])

    def wrap(values, offsets):
        return torch.nested.nested_tensor_from_jagged(values, offsets).sin()

    out = way.compile(wrap)(numbers(), offsets)
    return {"values": out.values(), "offsets": out.offsets()}


@contextlib.contextmanager
def mesh_of_one():
    from torch import distributed
    from torch.distributed.device_mesh import init_device_mesh

    with tempfile.TemporaryDirectory() as folder:
        distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
        try:
            yield init_device_mesh("cpu", (1,))
        finally:
            distributed.destroy_process_group()


@case()
def a_dtensor_on_a_mesh_of_one(way):
    """Local parts, placements and gradients of distributed tensors."""
    with mesh_of_one() as mesh:
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor

        x = distribute_tensor(numbers(), mesh, [Shard(0)]).requires_grad_()
        y = distribute_tensor(numbers(), mesh, [Replicate()])
        out = way.compile(lambda x, y: (x * 2).sin() + y)(x, y)
        out.sum().backward()
        return {"out": out.to_local(), "placed": str(out.placements), "grad": x.grad.to_local()}
