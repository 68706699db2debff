"""Objects in which code that a graph reaches keeps what it needs: enumerations, wrappers, classes, subclasses."""

from __future__ import annotations

import abc
import dataclasses
import enum
import functools
import logging
import types
import typing

import torch
from harness import Wrapped, compiled, gradient_of_backward, operator, pair, values
from torch.utils._mode_utils import no_dispatch


def scaled_by(read):
    """The gradient through an operator whose backward multiplies by `read()`."""
    return gradient_of_backward(lambda ctx, g: g * read())


# --- enumerations ---------------------------------------------------------------------------------------


@pair()
def what_a_second_name_in_an_enum_stands_for(v):
    """The members are the same, and a default is one or the other."""
    mode = enum.Enum("Mode", {"TWO": 2, "THREE": 3, "DEFAULT": v + 1})
    return scaled_by(lambda: mode.DEFAULT.value)


@pair()
def a_private_method_of_an_enum(v):
    """What an enumeration makes of a value that it does not know."""
    mode = enum.Enum("Mode", {"TWO": 2, "THREE": 3})
    mode._missing_ = classmethod((lambda cls, value: cls.TWO) if v == 1 else (lambda cls, value: cls.THREE))
    return scaled_by(lambda: mode("other").value)


@pair()
def an_attribute_of_an_enums_member(v):
    """A member is an object, and more can be hung on it."""
    width = enum.Enum("Width", {"NARROW": "narrow"})
    width.NARROW.bits = v
    return scaled_by(lambda: width.NARROW.bits)


@pair()
def the_value_of_a_member_that_is_a_key(v):
    """A table by members, of which the code uses the values."""
    kind = globals()["Kind"] = enum.Enum("Kind", {"ONLY": v}, module=__name__)
    table = {kind.ONLY: 1}
    return scaled_by(lambda: sum(key.value * item for key, item in table.items()))


class Step(enum.Enum):
    """Torch asks it which number it is, where one is an argument of an operator."""

    NARROW = 1

    def __index__(self):
        return STEPS[self.name]


STEPS = {"NARROW": 1}


@pair()
def which_number_a_member_in_a_graph_stands_for(v):
    """Dynamo leaves the member where it is."""
    STEPS["NARROW"] = v
    return compiled(lambda x: x[: Step.NARROW].sum() + x)(values())


@pair()
def how_a_member_in_a_graph_says_which_number_it_is(v):
    """The same, by its class's code."""
    if v == 2:
        Step.__index__ = lambda self: 2
    return compiled(lambda x: x.narrow(0, 0, Step.NARROW).sum() + x)(values())


# --- containers -----------------------------------------------------------------------------------------


class Layer:
    scale = 1


@pair()
def an_attribute_of_a_class_that_is_a_key(v):
    """A table by classes, of which the code uses an attribute."""
    Layer.scale, table = v, {Layer: 1}
    return scaled_by(lambda: sum(key.scale * item for key, item in table.items()))


@pair()
def the_order_of_a_set(v):
    """Two numbers that share a place in the table lie there in the order of their coming."""
    known = {8, 16} if v == 1 else {16, 8}
    return scaled_by(lambda: next(iter(known)))


@pair()
def whether_two_lists_are_one(v):
    """Equal lists, or one list under two names."""
    first = [2.0]
    second = first if v == 1 else [2.0]
    return scaled_by(lambda: 2 if first is second else 3)


# --- wrappers around functions --------------------------------------------------------------------------


def twice(x):
    return 2 * x


@pair()
def an_attribute_of_a_partial(v):
    """A partial is an object, and more can be hung on it."""
    call = functools.partial(twice, 1)
    call.scale = v
    return scaled_by(lambda: call() * call.scale)


class Scaled(functools.partial):
    scale = 1

    def __call__(self, *args):
        return super().__call__(*args) * self.scale


@pair(bypass="no stable identity")
def the_class_of_a_partial(v):
    """A partial of a class of the user's, which does something else when it is called."""
    Scaled.scale, call = v, Scaled(twice, 1)
    return scaled_by(lambda: call())


class Resolved(property):
    """Like a setting of a framework: what it gives is kept on the property."""

    def __get__(self, owner, kind=None):
        return self.given


@pair(bypass="no stable identity")
def what_a_property_of_a_users_class_keeps(v):
    """A class of settings, whose properties know their values."""
    made = Resolved()
    made.given = v
    settings = dataclasses.make_dataclass("Settings", [], namespace={"scale": made})()
    return scaled_by(lambda: settings.scale)


# --- classes --------------------------------------------------------------------------------------------


@pair()
def the_metadata_of_a_dataclass(v):
    """What a field says of itself."""
    field = ("bits", int, dataclasses.field(default=8, metadata={"scale": v}))
    settings = dataclasses.make_dataclass("Settings", [field])()
    return scaled_by(lambda: dataclasses.fields(settings)[0].metadata["scale"])


@pair()
def the_annotations_of_a_class(v):
    """Settings in annotations, as pydantic has them."""

    class Settings:
        bits: int

    Settings.__annotations__ = {"bits": typing.Annotated[int, v]}
    return scaled_by(lambda: typing.get_type_hints(Settings, include_extras=True)["bits"].__metadata__[0])


T = typing.TypeVar("T")


class Base(typing.Generic[T]):
    @classmethod
    def scale(cls):
        return len(typing.get_args(cls.__orig_bases__[0])[0].__args__)


@pair()
def the_argument_of_a_generic_base(v):
    """A generic class looks at what it was made for."""
    layer = types.new_class("Layer", (Base[tuple[(int,) * v]],))
    return scaled_by(lambda: layer.scale())


class Interface(abc.ABC):  # noqa: B024 - classes are registered with it
    pass


@pair()
def whether_a_class_was_registered_with_an_interface(v):
    """A class is said to be of a kind, and knows nothing of it."""
    if v == 2:
        Interface.register(Layer)
    return scaled_by(lambda: 3 if issubclass(Layer, Interface) else 2)


class Plugin:
    scale = 1


@pair(bypass="__subclasses__")
def the_subclasses_of_a_class(v):
    """A class counts who derives from it."""
    kept = [type("One", (Plugin,), {"scale": 2 + index}) for index in range(v)]
    assert kept
    return scaled_by(lambda: sum(one.scale for one in Plugin.__subclasses__()))


@pair()
def the_order_of_a_classs_members(v):
    """A registry of which the first entry counts."""
    made = type("Registry", (), {"a": 2, "b": 3} if v == 1 else {"b": 3, "a": 2})
    return scaled_by(lambda: next(value for name, value in vars(made).items() if len(name) == 1))


@dataclasses.dataclass(slots=True)
class Slots:
    low: int = 2
    high: int = 3


@pair()
def which_slot_a_second_name_stands_for(v):
    """A class has another name for one of its slots."""
    Slots.chosen = Slots.low if v == 1 else Slots.high
    return scaled_by(lambda: Slots().chosen)


class Logger(logging.Logger):
    def scale(self):
        return self.factor


@pair(bypass="no stable identity")
def what_a_logger_of_a_users_class_keeps(v):
    """A logger that counts, say."""
    log = Logger("pairs")
    log.factor = v
    return scaled_by(lambda: log.scale())


# --- objects that come with data ------------------------------------------------------------------------


@pair(bypass="no stable identity")
def a_tensor_in_the_closure_of_a_backward(v):
    """Weights that no input of the graph holds."""
    weight = values() * v

    def read():
        with no_dispatch():
            return weight.tolist()[7]

    return scaled_by(read)


@pair(bypass="no stable identity")
def an_operator_found_by_its_name(v):
    """The backward of one operator asks torch for another, whose backward is traced as well."""
    scale = v
    inner = operator("inner", backward=lambda ctx, g: g * scale)
    assert inner is not None

    def backward(ctx, g):
        call = torch._C._get_operation_overload("pairs::inner", "")[0]
        with torch.enable_grad():
            x = g.detach().requires_grad_()
            return torch.autograd.grad(call(x), x, g)[0]

    return gradient_of_backward(backward)


# --- tensor subclasses ----------------------------------------------------------------------------------

RULES, METHODS = {}, types.ModuleType("pairs_methods")


class Held(Wrapped):
    """A subclass with a table of rules, as quantised tensors have them."""

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return cls.rule(func)(func, *(arg.inner if isinstance(arg, Held) else arg for arg in args))

    @classmethod
    def rule(cls, func):
        return RULES[func]


@pair()
def the_rules_of_a_subclass(v):
    """A table of functions by operator, as decorators fill it."""
    scale = v
    RULES[torch.ops.aten.sin.default] = lambda func, x: Held(func(x) * scale)
    return compiled(lambda x: x.sin())(Held(values())).inner


class Named(Held):
    @classmethod
    def rule(cls, func):
        return getattr(METHODS, func._opname)


@pair()
def the_rules_of_a_subclass_in_a_module(v):
    """A module of functions, called like the operators they are for."""
    scale = v
    METHODS.sin = lambda func, x: Named(func(x) * scale)
    return compiled(lambda x: x.sin())(Named(values())).inner


class Seeded(Held):
    @classmethod
    def __tensor_unflatten__(cls, inner, context, size, stride):
        return cls(inner["inner"] + torch.initial_seed())

    @classmethod
    def rule(cls, func):
        return lambda func, x: Seeded(func(x))


@pair(bypass="initial_seed")
def the_seed_from_which_a_subclass_is_put_together(v):
    """Tracing puts an input together from its parts, and the seed of torch is added on the way."""
    torch.manual_seed(v)
    return compiled(lambda x: x.sin())(Seeded(values())).inner
