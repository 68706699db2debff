"""Kernels that Python gave an operator (`torch.library.Library.impl`, `torch.library.impl`): code that a trace runs."""

from __future__ import annotations

import functools
from typing import Any

import torch
from harness import compiled, gradient, pair, values
from harness import operator as custom_operator

HELD: dict[str, Any] = {}
FACTOR = {"by": 2.0}


def operator(schema="(Tensor x) -> Tensor", **kernels):
    """One of a Library's, with a kernel for each dispatch key."""
    library = HELD["library"] = torch.library.Library("pairs_kernels", "DEF")
    library.define(f"op{schema}")
    for key, kernel in kernels.items():
        library.impl("op", kernel, key)
    return torch.ops.pairs_kernels.op


def over(name, kernel, key):
    library = HELD["over"] = torch.library.Library("aten", "IMPL")
    library.impl(name, kernel, key)


@pair()
def what_is_traced_through(v):
    op = operator(CompositeImplicitAutograd=(lambda x: x * 2) if v == 1 else (lambda x: x * 3))
    return compiled(lambda x: op(x) + 1)(values())


@pair()
def what_a_kernel_closes_over(v):
    def make(by):
        return lambda x: x * by

    make(5.0 - v)  # of the same code, and gone
    other, op = make(7.0), operator(CompositeImplicitAutograd=make(float(v)))
    assert other
    return compiled(lambda x: op(x) + 1)(values())


@pair()
def the_default_of_a_kernel(v):
    def make(by):
        def kernel(x, *, factor=by):
            return x * factor

        return kernel

    twins = [make(1.0), make(2.0)]
    op = operator(CompositeImplicitAutograd=twins[v - 1])
    return compiled(lambda x: op(x) + 1)(values())


@pair()
def a_default_that_the_schema_has_as_well(v):
    """The dispatcher leaves out what is as the schema's default, so the function's own counts."""

    def make(by):
        def kernel(x, factor=by):
            return x * factor

        return kernel

    twins = [make(1), make(2)]
    op = operator("(Tensor x, int factor=9) -> Tensor", CompositeImplicitAutograd=twins[v - 1])
    return compiled(lambda x: op(x) + 1)(values())


@pair()
def what_a_kernel_reads(v):
    FACTOR["by"] = float(v)
    op = operator(CompositeImplicitAutograd=lambda x: x * FACTOR["by"])
    return compiled(lambda x: op(x) + 1)(values())


@pair()
def the_shape_for_meta_tensors(v):
    def meta(x):
        return x.new_empty(x.shape[0] * v)

    op = operator(Meta=meta, CPU=lambda x: x.repeat(v))
    return compiled(lambda x: torch.ones_like(op(x)))(values())


@pair()
def a_kernel_behind_a_decorator(v):
    def scaled(by):
        def around(function):
            @functools.wraps(function)
            def inner(*given):
                return function(*given) * by

            return inner

        return around

    op = operator(CompositeImplicitAutograd=scaled(v)(lambda x: x + 1))
    return compiled(lambda x: op(x) + 1)(values())


@pair(bypass="that torch does not hand out")
def a_kernel_with_an_argument_bound(v):
    op = operator(CompositeImplicitAutograd=functools.partial(lambda x, by: x * by, by=v))
    return compiled(lambda x: op(x) + 1)(values())


class Kernel:
    def __init__(self, by):
        self.by = by

    def __call__(self, x):
        return x * self.by


@pair()
def an_object_as_a_kernel(v):
    op = operator(CompositeImplicitAutograd=Kernel(v))
    return compiled(lambda x: op(x) + 1)(values())


@pair()
def a_kernel_that_took_anothers_place(v):
    op = operator(CompositeImplicitAutograd=lambda x: x * 5)
    HELD["again"] = again = torch.library.Library("pairs_kernels", "IMPL")
    again.impl(
        "op", (lambda x: x * 2) if v == 1 else (lambda x: x * 3), "CompositeImplicitAutograd", allow_override=True
    )
    return compiled(lambda x: op(x) + 1)(values())


@pair(bypass="that torch does not hand out")
def a_kernel_that_came_back(v):
    """A Library that is gone leaves the kernel that it replaced; but under a mode torch runs the one that is gone."""
    op = operator(CompositeImplicitAutograd=(lambda x: x * 2) if v == 1 else (lambda x: x * 3))
    again = torch.library.Library("pairs_kernels", "IMPL")
    again.impl("op", lambda x: x * 5 * v, "CompositeImplicitAutograd", allow_override=True)
    again._destroy()
    return compiled(lambda x: op(x) + 1)(values())


def differentiated(v):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return torch.ops.pairs_kernels.op(x)

        @staticmethod
        def backward(ctx, g):
            return g * v

    return Own


@pair()
def a_kernel_for_autograd(v):
    own = differentiated(v)
    return gradient(operator(CPU=torch.clone, Meta=lambda x: torch.empty_like(x), Autograd=lambda x: own.apply(x)))


@pair()
def a_kernel_on_a_device_for_an_operator_of_torchs(v):
    """Inductor computes a constant with it."""
    over("erfinv", (lambda x: x * 2) if v == 1 else (lambda x: x * 3), "CPU")
    return compiled(lambda x: x + torch.erfinv(torch.full((8,), 0.5)))(values())


@pair()
def a_kernel_for_autograd_for_an_operator_of_torchs(v):
    over("erfinv", (lambda x: x * 2) if v == 1 else (lambda x: x * 3), "AutogradCPU")
    return compiled(torch.erfinv)(values() / 8)


@pair()
def a_kernel_by_register_kernel(v):
    torch.library.register_kernel("aten::erfinv", "cpu", (lambda x: x * 2) if v == 1 else (lambda x: x * 3))
    return compiled(lambda x: x + torch.erfinv(torch.full((8,), 0.5)))(values())


@pair()
def a_kernel_over_one_of_a_custom_operator(v):
    op = custom_operator("custom")
    library = HELD["custom"] = torch.library.Library("pairs", "FRAGMENT")
    library.impl("custom", (lambda x: x * 2) if v == 1 else (lambda x: x * 3), "Autograd", allow_override=True)
    return compiled(lambda x: op(x) + 1)(values())


@pair()
def the_class_whose_apply_is_a_kernel(v):
    kernels = {"CPU": torch.clone, "Meta": lambda x: torch.empty_like(x), "Autograd": differentiated(v).apply}
    return gradient(operator(**kernels))


@pair()
def a_fake_that_is_a_function_of_torchs(v):
    op = operator(CPU=(lambda x: x.clone()) if v == 1 else (lambda x: x.t().clone()))
    torch.library.register_fake("pairs_kernels::op", torch.clone if v == 1 else torch.t, lib=HELD["library"])
    return compiled(lambda x: torch.ones_like(op(x)))(values(4, 2))


@pair()
def a_fake_of_a_custom_operator_that_is_a_function_of_torchs(v):
    def forward(x: torch.Tensor) -> torch.Tensor:
        return x.clone() if v == 1 else x.t().clone()

    op = custom_operator("faked", forward=forward, fake=torch.clone if v == 1 else torch.t)
    return compiled(lambda x: torch.ones_like(op(x)))(values(4, 2))


@pair()
def a_fake_with_something_bound(v):
    op = operator(CPU=lambda x: x.repeat(v))
    torch.library.register_fake(
        "pairs_kernels::op", functools.partial(torch.Tensor.repeat, repeats=(v,)), lib=HELD["library"]
    )
    return compiled(lambda x: torch.ones_like(op(x)))(values())


@pair(bypass="replaces torch's own")
def a_library_with_a_kernel_for_what_is_not_there(v):
    library = HELD["over"] = torch.library.Library("aten", "IMPL")
    library.impl("a_no_such_operator", lambda x: x, "CPU")
    library.impl("erfinv", (lambda x: x * 2) if v == 1 else (lambda x: x * 3), "AutogradCPU")
    return compiled(torch.erfinv)(values() / 8)


@pair()
def a_kernel_where_another_went_before(v):
    from warmgraph.backend.torch_api.changes import tables

    other = torch.library.Library("pairs_kernels", "DEF")
    other.define("gone(Tensor x) -> Tensor")
    other.impl("gone", lambda x: x, "CPU")
    assert tables.kernels() == set()
    other._destroy()
    over("erfinv", (lambda x: x * 2) if v == 1 else (lambda x: x * 3), "AutogradCPU")
    return compiled(torch.erfinv)(values() / 8)


@pair()
def a_kernel_of_an_overload_with_a_dtype(v):
    op = operator("(Tensor x, ScalarType dtype) -> Tensor", CompositeImplicitAutograd=lambda x, dtype: x.to(dtype) * v)
    return compiled(lambda x: op(x, torch.float64) + 1)(values())


@pair()
def a_kernel_of_an_operator_that_is_computed_on_constants(v):
    library = HELD["library"] = torch.library.Library("pairs_kernels", "DEF")
    library.define("op(Tensor x) -> Tensor", tags=(torch.Tag.pointwise,))
    library.impl("op", (lambda x: x * 2) if v == 1 else (lambda x: x * 3), "CompositeExplicitAutograd")
    torch.library.register_fake("pairs_kernels::op", torch.empty_like, lib=library)
    return compiled(lambda x: x + torch.ops.pairs_kernels.op(torch.full((8,), 0.5)))(values())


@pair(bypass="that torch does not hand out")
def a_kernel_behind_a_cache(v):
    op = operator(CompositeImplicitAutograd=functools.cache((lambda x: x * 2) if v == 1 else (lambda x: x * 3)))
    return compiled(lambda x: op(x) + 1)(values())


@pair()
def a_kernel_over_a_custom_operator_by_a_library_of_torchs(v):
    """torch notes a file of its own for what `torch.library.impl` registers."""
    op = custom_operator("owned")
    with torch.library._scoped_library("pairs", "FRAGMENT") as library:
        library.impl("owned", (lambda x: x * 2) if v == 1 else (lambda x: x * 3), "Autograd", allow_override=True)
        return compiled(lambda x: op(x) + 1)(values())
