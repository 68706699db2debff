"""Group 8: user-registered pytree nodes going in and out, registered twice, and from several threads. Cases only.

PyTorch's own: test_pytree.py (`test_register_*`, `test_pytree_serialize_*`), dynamo/test_misc.py (`test_pytree_*`,
`test_user_defined_pytree*`), dynamo/test_decorators.py (`test_nonstrict_trace_*`,
`test_pytree_register_constant_with_side_effect`), testing/_internal/dynamo_pytree_test_utils.py.
"""

import collections
import dataclasses
import threading
from typing import NamedTuple

import torch
from harness import case, raised
from torch.utils import _pytree as pytree

WITHOUT_KERNELS = True


def numbers():
    return torch.arange(4.0)


class Pair:
    """Two tensors, and a number that is not a leaf."""

    def __init__(self, left, right, scale):
        self.left, self.right, self.scale = left, right, scale


pytree.register_pytree_node(
    Pair,
    lambda pair: ([pair.left, pair.right], pair.scale),
    lambda children, scale: Pair(*children, scale),
    serialized_type_name="constructs.Pair",
)


@dataclasses.dataclass
class Point:
    x: torch.Tensor
    y: torch.Tensor
    label: str = "here"


pytree.register_dataclass(Point, field_names=["x", "y"], drop_field_names=["label"])


@dataclasses.dataclass(frozen=True)
class Setting:
    """Registered as a constant: its value is part of the tree's structure."""

    factor: int


pytree.register_constant(Setting)


class Named(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


def shown(pair):
    return {"kind": type(pair).__name__, "left": pair.left, "right": pair.right, "scale": pair.scale}


@case()
def a_registered_node_goes_in_and_out(way):
    """Its tensors are inputs, its context a constant of the key; what comes out is of its class."""

    def function(pair):
        return Pair(pair.left * pair.scale, pair.right.sin(), pair.scale + 1)

    compiled = way.compile(function, dynamic=False)
    return [shown(compiled(Pair(numbers(), numbers() + 1, scale))) for scale in (2, 3, 2)]


@case()
def trees_are_mapped_in_the_graph(way):
    """`tree_map`, `tree_flatten` and `tree_unflatten` over registered and builtin nodes, inside the function."""

    def function(tree):
        doubled = pytree.tree_map(lambda x: x * 2, tree)
        leaves, spec = pytree.tree_flatten(doubled)
        return pytree.tree_unflatten([leaf + number for number, leaf in enumerate(leaves)], spec), len(leaves)

    tree = {"pair": Pair(numbers(), numbers() + 1, 2), "more": [numbers(), (numbers() * 3,)]}
    out, leaves = way.compile(function)(tree)
    return {"pair": shown(out["pair"]), "more": out["more"], "leaves": leaves}


@case()
def a_dataclass_is_a_node(way):
    """A registered dataclass, with a field that is dropped."""
    out = way.compile(lambda point: Point(point.x + point.y, point.x * 2, "there"))(Point(numbers(), numbers() + 1))
    return {"x": out.x, "y": out.y, "label": out.label}


@case()
def a_constant_node_is_in_the_key(way):
    """An object registered as a constant: another value is another graph, an equal one the same."""
    compiled = way.compile(lambda x, setting: x * setting.factor + 1)
    return [compiled(numbers(), Setting(factor)) for factor in (2, 3, 2)]


@case()
def builtin_nodes(way):
    """Named tuples, ordered and default dictionaries, deques: the class, the order and the default survive."""

    def function(named, ordered):
        counts = collections.defaultdict(list)
        counts["a"].append(named.first * 2)
        again = collections.OrderedDict((key, value + 1) for key, value in reversed(ordered.items()))
        return Named(named.second, named.first + 1), again, counts, collections.deque([named.first * 3], maxlen=2)

    ordered = collections.OrderedDict(b=numbers(), a=numbers() + 1)
    named, again, counts, queue = way.compile(function)(Named(numbers(), numbers() * 2), ordered)
    kind = type(counts).__name__, getattr(counts.default_factory, "__name__", None)
    return {"named": named, "again": list(again.items()), "counts": dict(counts), "kind": kind, "queue": list(queue)}


@case()
def registering_twice(way):
    """The second registration is refused, in and out of compiled functions, and what was compiled goes on."""

    def again():
        pytree.register_pytree_node(Pair, lambda pair: ([pair.right], None), lambda children, _: Pair(*children, 0, 0))

    compiled = way.compile(lambda pair: Pair(pair.right * 2, pair.left + 3, pair.scale))
    before = compiled(Pair(numbers(), numbers() + 1, 2))
    pytree.register_constant(Setting)  # the same again is no harm
    refused = raised(again)
    after = compiled(Pair(numbers(), numbers() + 1, 2))
    return {"before": shown(before), "refused": refused, "after": shown(after)}


@case()
def registering_from_threads(way):
    """Eight threads each register a class of their own and compile a function over it, all at once."""
    kinds = [type(f"Node{number}", (), {"__init__": lambda self, x: setattr(self, "x", x)}) for number in range(8)]

    def build():
        def function(tree):
            return pytree.tree_map(lambda x: x * 2, tree)

        return way.compile(function, dynamic=False)

    compiled = [build() for _ in kinds]
    start = threading.Barrier(len(kinds))
    found = [None] * len(kinds)

    def work(number):
        kind = kinds[number]
        start.wait()
        pytree.register_pytree_node(kind, lambda node: ([node.x], None), lambda children, _: kind(*children))
        out = compiled[number]([kind(numbers()), numbers() + number])
        found[number] = [type(out[0]).__name__, out[0].x, out[1]]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(kinds))]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    return found


@case()
def a_node_into_a_function_that_is_not_traced_strictly(way):
    """`nonstrict_trace`: the flattened node goes into a call of the function, whose code is in the key."""

    @torch._dynamo.nonstrict_trace
    def add(pair):
        return pair.left * pair.scale + pair.right

    return way.compile(lambda x: add(Pair(x, x + 1, 2)).sin())(numbers())


@case()
def what_is_not_traced_strictly_gives_a_tree(way):
    """`nonstrict_trace`: keywords go in, and a dict with a list in it comes out; its backward is traced with it."""

    @torch._dynamo.nonstrict_trace
    def parts(x, *, by):
        return {"scaled": x * by, "more": [x.sin(), (x + 1, x)]}

    def function(x):
        found = parts(x, by=3)
        return found["scaled"] * found["more"][0] - found["more"][1][0]

    x = numbers().requires_grad_()
    out = way.compile(function)(x)
    out.sum().backward()
    return out, x.grad * 1


@case(bypass="a module among the arguments")
def a_module_into_a_function_that_is_not_traced_strictly(way):
    """`nonstrict_trace`: torch finds the module by its number in this process."""
    model = torch.nn.Linear(4, 4)

    @torch._dynamo.nonstrict_trace
    def run(model, x):
        return model(x)

    return way.compile(lambda x: run(model, x).sin())(numbers())


def beside_transformers():
    """Its output classes are in torch's trees, and their code imports when it is called."""
    from transformers.modeling_outputs import BaseModelOutput

    return BaseModelOutput


class Held(torch.Tensor):
    """Around another tensor, by torch's trees."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, requires_grad=inner.requires_grad)

    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Held(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args, kwargs=None):
        args, kwargs = pytree.tree_map_only(Held, lambda x: x.inner, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, Held, func(*args, **kwargs))


@case()
def trees_in_a_dispatch_beside_transformers(way):
    """Registered for classes that the subclass has nothing to do with: they are no part of what it does."""
    beside_transformers()
    x = Held(numbers()).requires_grad_()
    out = way.compile(lambda x: (x.sin() * 3).sum())(x)
    out.backward()
    return out.inner, x.grad.inner


@torch.library.custom_op("constructs_trees::cubed", mutates_args=())
def cubed(x: torch.Tensor) -> torch.Tensor:
    return x**3


def cubed_backward(ctx, grad):
    kept = pytree.tree_map(lambda x: x * 3, {"squares": [ctx.saved_tensors[0] ** 2]})
    return pytree.tree_leaves(kept)[0] * grad


cubed.register_fake(torch.empty_like)
cubed.register_autograd(cubed_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


@case()
def trees_in_a_backward_beside_transformers(way):
    """The same of a custom operator's backward."""
    beside_transformers()
    x = numbers().requires_grad_()
    out = way.compile(lambda x: cubed(x) + 1)(x)
    out.sum().backward()
    return out, x


@case()
def an_output_of_transformers_class(way):
    """A compiled function that is given one of these classes and returns one, beside a subclass that uses trees."""
    output = beside_transformers()

    def step(given, x):
        return output(last_hidden_state=given.last_hidden_state * 2), x * 2

    given, held = way.compile(step)(output(last_hidden_state=numbers()), Held(numbers()))
    return type(given).__name__, given.last_hidden_state, held.inner
