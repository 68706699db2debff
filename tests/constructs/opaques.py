"""Group 15: objects that custom operators take and nothing looks into. Cases only.

PyTorch's own: test_opaque_obj_v2.py (`test_compile*`, `test_value_type*`, `test_hoist*`), dynamo/test_aot_autograd_
cache.py (`test_opaque_*`).
"""

import torch
from harness import case
from torch._library.opaque_object import get_opaque_type_name, register_opaque_type

try:  # since 2.14
    from torch._custom_class_base import CustomClassBase as OpaqueBase
except ImportError:
    from torch._opaque_base import OpaqueBase

WITHOUT_KERNELS = True


class Name(OpaqueBase):
    """A value: a constant of the graph, written into generated code."""

    def __init__(self, text):
        self.text = text

    def __eq__(self, other):
        return isinstance(other, Name) and self.text == other.text

    def __hash__(self):
        return hash(self.text)

    def __fx_repr__(self):
        return f"Name({self.text!r})", {"Name": Name}


class LayerName(Name):
    """A value that is lifted out of the graph, as vLLM's names of layers are: one graph for all of them."""

    def __fx_repr__(self):
        return f"LayerName({self.text!r})", {"LayerName": LayerName}


class Counter(OpaqueBase):
    """A reference: an input of the graph."""

    def __init__(self, count):
        self.count = count


register_opaque_type(Name, typ="value")
register_opaque_type(LayerName, typ="value", hoist=True)
register_opaque_type(Counter, typ="reference")


def _library():
    library = torch.library.Library("constructs_opaque", "DEF")
    for name, kind in (("scaled", Name), ("layered", LayerName), ("counted", Counter)):
        library.define(f"{name}(Tensor x, {get_opaque_type_name(kind)} what) -> Tensor")
        torch.library.register_fake(f"constructs_opaque::{name}", lambda x, what: torch.empty_like(x), lib=library)
    library.impl("scaled", lambda x, what: x * len(what.text), "CompositeExplicitAutograd")
    library.impl("layered", lambda x, what: x + len(what.text), "CompositeExplicitAutograd")
    library.impl("counted", _counted, "CompositeExplicitAutograd")
    return library


def _counted(x, counter):
    counter.count += 1
    return x + counter.count


LIBRARY = _library()
ops = torch.ops.constructs_opaque


def numbers():
    return torch.arange(6.0) / 7


@case()
def values_in_the_graph(way):
    """Another value is another graph."""
    found = []
    for text in ("a", "bcd"):
        what = Name(text)
        found.append(way.compile(lambda x, what=what: ops.scaled(x.sin(), what) + 1)(numbers()))
    return found


@case()
def two_values_in_one_graph(way):
    """As arguments of the compiled function, one of them twice."""
    compiled = way.compile(lambda x, a, b: ops.scaled(ops.scaled(x, a), b) * ops.scaled(x, a))
    return compiled(numbers(), Name("ab"), Name("cde"))


@case()
def values_that_are_lifted_out(way):
    """One graph for all layers; the operator gets the name of the one that is run."""
    compiled = way.compile(lambda x, what: ops.layered(x.sin(), what) * 2)
    return [compiled(numbers(), LayerName(text)) for text in ("layers.0", "layers.11")]


@case()
def a_reference_as_an_input(way):
    """Changed by the operator at each call, and seen by the caller."""
    counter = Counter(2)
    compiled = way.compile(lambda x, counter: ops.counted(x * 2, counter).cos())
    return [compiled(numbers(), counter), compiled(numbers(), counter), torch.tensor(counter.count)]
