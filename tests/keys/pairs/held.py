"""What the backward of an operator reads, or an operator that the walk comes to: objects of the user's own classes,
containers of Python's, numpy's arrays; and backwards that `torch.library.register_autograd` was given.
"""

from __future__ import annotations

import collections
import operator
import re
import types
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from harness import compiled, gradient, gradient_of_backward, pair, values

T = TypeVar("T")
HELD: dict[str, Any] = {}


def read(make, expression="held"):
    """The gradient through an operator whose backward multiplies by this expression of a global `held`."""
    space = {"held": make, "torch": torch}
    exec(f"def backward(ctx, g): return g * ({expression})", space)
    return gradient_of_backward(space["backward"])


class Settings:
    """As people write them: no dataclass."""

    def __init__(self, scale):
        self.scale, self.names, self.within = scale, ["a"], None

    def by(self):
        return self.scale * self.factor()

    def factor(self):
        return 2.0


class Slots(Generic[T]):
    __slots__ = ("empty", "scale")

    def __init__(self, scale):
        self.scale = scale


class Asked:
    def __init__(self, scale):
        self.held = scale

    def __getattr__(self, name):
        return vars(self)["held"]


@pair()
def an_attribute_of_an_object(v):
    return read(Settings(float(v)), "held.scale")


@pair()
def an_attribute_of_an_object_in_an_object(v):
    outer = Settings(1.0)
    outer.within, outer.itself = Settings(float(v)), outer
    return read(outer, "held.itself.within.scale")


@pair()
def a_method_of_an_object(v):
    Settings.factor = (lambda self: 2.0) if v == 1 else (lambda self: 3.0)
    return read(Settings(1.0), "held.by()")


@pair()
def an_attribute_of_the_class_of_an_object(v):
    Settings.shared = float(v)
    return read(Settings(1.0), "held.shared")


@pair()
def which_class_an_object_is_of(v):
    made = Settings(1.0)
    made.__class__ = type("Settings", (Settings,), {"factor": lambda self: 5.0}) if v == 1 else Settings
    return read(made, "held.by()")


@pair()
def a_slot_of_an_object(v):
    return read(Slots(float(v)), "held.scale")


@pair()
def the_order_of_attributes(v):
    made = Settings(1.0)
    del made.scale, made.names, made.within
    for name in ("two", "three") if v == 1 else ("three", "two"):
        setattr(made, name, len(name))
    return read(made, "[*vars(held).values()][0]")


@pair()
def what_an_object_answers_by_getattr(v):
    return read(Asked(float(v)), "held.anything")


class Hidden:
    @property
    def __dict__(self):
        return {}


@pair(bypass="no stable identity")
def what_an_object_does_not_tell(v):
    made = Hidden()
    made.scale = float(v)
    return read(made, "held.scale")


@runtime_checkable
class Scales(Protocol):
    def scale_it(self): ...


@runtime_checkable
class Scaled(Protocol):
    scale_of_it: int


class Plain:
    pass


@pair()
def what_an_object_is_after_a_protocol(v):
    if v == 1:
        Plain.scale_it = lambda self: None
    space = {"held": Plain(), "Scales": Scales}
    exec("def backward(ctx, g): return g * (2.0 if isinstance(held, Scales) else 3.0)", space)
    return gradient_of_backward(space["backward"])


@pair()
def what_an_object_is_after_a_protocol_of_annotations(v):
    if v == 1:
        Plain.scale_of_it = 1
    space = {"held": Plain(), "Scaled": Scaled}
    exec("def backward(ctx, g): return g * (2.0 if isinstance(held, Scaled) else 3.0)", space)
    return gradient_of_backward(space["backward"])


class Count:
    n = 0


@pair(bypass="sets attribute n")
def what_a_backward_counts(v):
    """Where an earlier graph is loaded, nobody counts."""
    count = Count()
    count.n = v

    def backward(ctx, g):
        count.n += 1
        return g * count.n

    return gradient_of_backward(backward)


@pair(bypass="calls append")
def what_a_backward_collects(v):
    made = Settings(1.0)
    made.names = ["a"] * v

    def backward(ctx, g):
        made.names.append("b")
        return g * len(made.names)

    return gradient_of_backward(backward)


@pair(bypass="sets items")
def what_a_backward_notes(v):
    made = Settings(1.0)
    made.within = {"n": v}

    def backward(ctx, g):
        made.within["n"] += 1
        return g * made.within["n"]

    return gradient_of_backward(backward)


@pair()
def whether_two_objects_are_one(v):
    first = Settings(1.0)
    return read((first, first if v == 1 else Settings(1.0)), "2 if held[0] is held[1] else 3")


@pair()
def the_factory_of_a_defaultdict(v):
    return read(collections.defaultdict(float if v == 1 else (lambda: 3.0), {"a": 1.0}), "1 + held['missing']")


@pair()
def an_item_of_a_defaultdict(v):
    return read(collections.defaultdict(float, {"a": float(v)}), "held['a']")


@pair()
def an_item_of_a_deque(v):
    return read(collections.deque([float(v), 5.0]), "held[0]")


@pair()
def how_long_a_deque_may_be(v):
    return read(collections.deque([1.0], maxlen=v + 1), "held.maxlen")


@pair()
def a_count(v):
    return read(collections.Counter({"a": v}), "held['a']")


@pair()
def an_item_behind_a_proxy(v):
    return read(types.MappingProxyType({"a": float(v)}), "held['a']")


@pair()
def what_lies_behind_a_proxy(v):
    return read(
        types.MappingProxyType(collections.defaultdict((lambda: 2.0) if v == 1 else (lambda: 3.0))), "held['a']"
    )


@pair()
def a_number_of_numpys(v):
    return read(np.float32(v), "float(held)")


@pair()
def the_type_of_a_number_of_numpys(v):
    return read(np.float32(1.1) if v == 1 else np.float64(np.float32(1.1)), "held.itemsize")


@pair()
def an_item_of_an_array(v):
    return read(np.array([1.0, float(v)]), "float(held[1])")


@pair()
def how_an_array_lies_in_memory(v):
    made = np.ones((2, 3))
    return read(made if v == 1 else np.asfortranarray(made), "held.strides[0]")


@pair()
def whether_two_arrays_share_memory(v):
    whole = np.ones(4)
    space = {"whole": whole, "part": whole[1:] if v == 1 else whole[1:].copy()}
    exec("def backward(ctx, g):\n    whole[1] = 3.0\n    return g * float(part[0])", space)
    return gradient_of_backward(space["backward"])


@pair()
def which_part_of_an_array(v):
    whole = np.arange(4.0)
    return read((whole, whole[v:][:2]), "float(held[1][0])")


@pair()
def the_limits_of_a_dtype(v):
    return read(torch.finfo(torch.float32 if v == 1 else torch.float16), "held.eps")


@pair()
def which_item_is_got(v):
    return read(operator.itemgetter(v - 1), "held([2.0, 3.0])")


@pair()
def an_expression_that_matches(v):
    return read(re.compile("a+" if v == 1 else "b+"), "2.0 if held.match('aa') else 3.0")


# -- operators of a Library


def of_library(backward, *, setup=None, schema="(Tensor x) -> Tensor", own=None):
    """Of `torch.library.Library`, as C++ registers them as well. own: a Library that takes the kernels."""
    library = HELD["library"] = torch.library.Library("pairs_library", "DEF")
    library.define(f"op{schema}")
    library.impl("op", lambda x: sum(x) if isinstance(x, list) else x.clone(), "CompositeExplicitAutograd")
    torch.library.register_fake(
        "pairs_library::op", lambda x: torch.empty_like(x[0] if isinstance(x, list) else x), lib=library
    )
    torch.library.register_autograd("pairs_library::op", backward, setup_context=setup, lib=own)
    return torch.ops.pairs_library.op


@pair()
def the_backward_of_an_operator_of_a_library(v):
    return gradient(of_library((lambda ctx, g: g * 2) if v == 1 else (lambda ctx, g: g * 3)))


@pair()
def what_the_backward_of_a_library_reads(v):
    held = Settings(float(v))
    return gradient(of_library(lambda ctx, g: g * held.scale))


@pair()
def what_the_context_of_a_library_keeps(v):
    def setup(ctx, inputs, output):
        ctx.by = float(v)

    return gradient(of_library(lambda ctx, g: g * ctx.by, setup=setup))


@pair()
def the_backward_of_a_library_with_lists(v):
    op = of_library(lambda ctx, g: [g * v, g], schema="(Tensor[] x) -> Tensor")
    x = values().requires_grad_()
    compiled(lambda x: op([x, x]).sum())(x).backward()
    return x.grad


@pair()
def the_backward_in_a_library_of_the_users(v):
    own = HELD["own"] = torch.library.Library("pairs_library", "FRAGMENT")
    return gradient(of_library(lambda ctx, g: g * v, own=own))


def own_kernel(call, v):
    """For Autograd, as a program writes it by itself."""

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return call(x)

        @staticmethod
        def backward(ctx, g):
            return g * v

    return Own.apply


@pair()
def a_kernel_for_autograd_of_the_users_own(v):
    op = of_library(lambda ctx, g: g * 7)
    own = HELD["own"] = torch.library.Library("pairs_library", "FRAGMENT")
    own.impl("op", own_kernel(lambda x: torch.ops.pairs_library.op(x), v), "Autograd", allow_override=True)
    return gradient(op)


@pair()
def a_kernel_for_autograd_where_another_is_gone(v):
    def define(name):
        library = torch.library.Library("pairs_library", "FRAGMENT")
        library.define("gone(Tensor x) -> Tensor")
        library.impl("gone", lambda x: x.clone(), "CompositeExplicitAutograd")
        torch.library.register_fake("pairs_library::gone", torch.empty_like, lib=library)
        HELD[name] = library

    define("old")
    torch.library.register_autograd("pairs_library::gone", lambda ctx, g: g * 7, lib=HELD["old"])
    HELD.pop("old")._destroy()
    vars(torch.ops.pairs_library).pop("gone", None)  # torch keeps what was asked for
    define("own")

    HELD["own"].impl("gone", own_kernel(lambda x: torch.ops.pairs_library.gone(x), v), "Autograd")
    return gradient(torch.ops.pairs_library.gone)
