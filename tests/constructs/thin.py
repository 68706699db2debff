"""Group 16: tensor subclasses that hold nothing of their own, as vLLM's parameters are. Cases only.

PyTorch's own: dynamo/test_subclasses.py (`test_torch_function_*`, `test_tensor_subclass_*`, `test_user_overridden_*`).
"""

import torch
from harness import case
from torch._C import DisableTorchFunctionSubclass
from two_tensors import numbers


class Tagged(torch.Tensor):
    """Adds nothing but a name."""


class Shouting(torch.Tensor):
    """Changes what `add` means, before the dispatcher sees it."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        out = super().__torch_function__(func, types, args, kwargs or {})
        return out * 10 if func is torch.Tensor.add else out


class Loaded(torch.nn.Parameter):
    """A parameter with the function that loads it, and a `__torch_function__` that passes on."""

    def __new__(cls, data, **attributes):
        return super().__new__(cls, data=data, requires_grad=attributes.get("requires_grad", False))

    def __init__(self, data, loader, requires_grad=False):
        import json  # what is needed to make one is not needed to trace one

        self.loader, self.told = loader, json.dumps({"dim": data.dim()})

    @property
    def weight_loader(self):
        return self.loader

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if kwargs is None:
            kwargs = {}
        return super().__torch_function__(func, types, args, kwargs)


class LoadedByRow(Loaded):
    """Another one, with a dimension."""

    input_dim = 1


class Quantized(torch.nn.Parameter):
    """As bitsandbytes' are: moved by itself, with a scale that is split where torch splits the data."""

    def __new__(cls, data, scale):
        made = torch.Tensor._make_subclass(cls, data, False)
        made.scale = scale
        return made

    def to(self, *args, **kwargs):
        return Quantized(super().to(*args, **kwargs), self.scale)

    def __getstate__(self):
        return {**self.__dict__, "data": self.data}

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        return tuple(cls(part.data, args[0].scale) for part in found) if func is torch.chunk else found


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = Quantized(numbers().to(torch.bfloat16), 3.0)
        self.bias = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.bias.data = self.bias.data.to(x.dtype)
        return torch.nn.functional.linear(x, self.weight.to(x.dtype) * self.weight.scale).sum(-1) + self.bias.sum()


class Image(torch.Tensor):
    """torchvision's: properties that ask the tensor itself, and results that are plain tensors."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with DisableTorchFunctionSubclass():
            found = func(*args, **kwargs or {})
        return found.as_subclass(torch.Tensor) if isinstance(found, cls) else found

    @property
    def shape(self):
        with DisableTorchFunctionSubclass():
            return super().shape

    @property
    def device(self, *args, **kwargs):
        with DisableTorchFunctionSubclass():
            return super().device


class Layer(torch.nn.Module):
    def __init__(self, kind, requires_grad=False):
        super().__init__()
        self.weight = kind(numbers(), loader=open, requires_grad=requires_grad)

    def forward(self, x):
        return (x * self.weight).sin() + self.weight.sum()


@case()
def a_subclass_without_flatten(way):
    """Nothing but a name: a plain tensor is traced in its place."""
    return way.compile(lambda x: x.sin() + 1)(numbers().as_subclass(Tagged))


@case(
    torch_wrong="the compiled result of `__torch_function__` has lost its class",
    fields=("type", "base"),
)
def a_subclass_with_torch_function(way):
    """Its `__torch_function__` is traced into the graph."""
    return way.compile(lambda x: torch.Tensor.add(x, 1).cos())(numbers().as_subclass(Shouting))


@case()
def an_image_of_torchvisions(way):
    """Its size, and what is made of it; at two sizes."""
    compiled = way.compile(lambda x: (x * x.shape[0]).sin() + torch.ones(x.shape, device=x.device))
    return [compiled(numbers(rows).as_subclass(Image)) for rows in (3, 5)]


@case()
def a_parameter_with_a_loader(way):
    """vLLM's: what loads it is of no concern to the code."""
    return [way.compile(Layer(kind))(numbers()) for kind in (Loaded, LoadedByRow)]


@case()
def a_quantized_parameter_that_is_moved(way):
    """bitsandbytes': `x.data = y` of a bias, and a parameter that moves and splits itself, at two sizes."""
    compiled = way.compile(Linear())
    return [compiled(numbers(rows)) for rows in (3, 5)]


@case()
def a_quantized_parameter_that_is_split(way):
    """A scale for each part, beside the data."""

    def parts(weight, x):
        return [part * x[:2] for part in torch.chunk(weight, 2)]

    return way.compile(parts)(Quantized(numbers(4), 3.0), numbers())


@case()
def a_parameter_with_a_loader_and_a_gradient(way):
    """Of the weight, and of what went in."""
    layer, x = Layer(Loaded, requires_grad=True), numbers().requires_grad_()
    out = way.compile(layer)(x)
    out.sum().backward()
    return out, x, layer.weight.grad


@case()
def a_parameter_with_a_loader_that_is_written(way):
    """In place, and a view of it comes out."""
    weight = Loaded(numbers(), loader=open)

    def step(weight, x):
        weight.mul_(x)
        return weight.view(-1), weight.t() + 1

    return way.compile(step)(weight, numbers()), weight.detach()


@case()
def a_parameter_with_a_loader_and_dynamic_sizes(way):
    """One graph for several numbers of rows."""
    compiled = way.compile(lambda weight, x: x * weight.sin() + weight.shape[0], dynamic=True)
    return [compiled(Loaded(numbers(rows), loader=open), numbers(rows)) for rows in (3, 5)]


class Longer(torch.Tensor):
    """Answers for itself what torch asks."""

    def dim(self):
        return super().dim()


@case(bypass="answers dim in torch's place")
def a_subclass_with_a_method_of_torchs(way):
    """What torch would be told of it while it compiles, no key can hold."""
    return way.compile(lambda x: x.sin() + 1)(numbers().as_subclass(Longer))
