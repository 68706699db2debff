"""Group 6, side effects: objects, globals, cells and modules that the function changes, replayed after the graph.

PyTorch's own: test_misc.py (`test_nonlocal*`, `test_global_*`, `test_dataclass*`, `test_user_defined_*`,
`test_user_getattr*`), test_repros.py (`test_dataclass_in_module`), test_modules.py (`test_self_mutating1`),
test_ctx_manager.py, test_generator.py, test_reorder_logs.py, test_input_attr_tracking.py
(`test_tensor_property_*`, `test_const_property_*`, `test_guards_correctly_property_*`, `test_complex_attr_access_*`).
Cases only.
"""

import contextlib
import dataclasses
import types

import torch
from harness import case, outcome

WITHOUT_KERNELS = True  # what is changed and replayed counts here, not how it is computed

X = torch.arange(4.0)


class Holder:
    """An object with a property, a class attribute and `__setattr__` of its own."""

    total = 0

    def __init__(self):
        self.values = []
        self.best = None

    @property
    def newest(self):
        return self.values[-1]

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        super().__setattr__("touched", name)


@dataclasses.dataclass
class Record:
    """A plain dataclass."""

    loss: torch.Tensor
    steps: int = 0
    notes: list = dataclasses.field(default_factory=list)


@case()
def attributes_of_an_object(way):
    """Attributes set through `__setattr__`, appended to, read by a property; a class attribute counts up."""
    Holder.total = 0
    holder = Holder()

    def f(holder, x):
        holder.values.append(x + 1)
        holder.best = holder.newest * 2
        type(holder).total += 1
        holder.extra = 5
        return holder.best.sum()

    compiled = way.compile(f)
    outs = [compiled(holder, X), compiled(holder, X)]
    return {"outs": outs, "holder": vars(holder), "total": Holder.total}


@case()
def a_dataclass(way):
    """One is changed, one is made, one is replaced."""
    record = Record(X)

    def f(record, x):
        record.steps += 1
        record.notes.append("step")
        record.loss = record.loss + x
        return Record(x * 2), dataclasses.replace(record, steps=7)

    out = way.compile(f)(record, X)
    return {"out": [dataclasses.asdict(one) for one in out], "record": vars(record)}


_COUNT = 0


_SEEN: list = []


@case()
def globals_and_nonlocals(way):
    """A module's global, a list in it, a cell of the enclosing function and a default argument."""
    global _COUNT
    _COUNT, cell = 0, 0
    _SEEN.clear()

    def f(x, kept=[]):  # noqa: B006 - the point
        global _COUNT
        nonlocal cell
        _COUNT += 1
        cell += 2
        _SEEN.append(x + _COUNT)
        kept.append(x)
        return x * cell

    out = way.compile(f)(X)
    return {"out": out, "count": _COUNT, "cell": cell, "seen": list(_SEEN), "kept": list(f.__defaults__[0])}


@case()
def a_modules_attributes(way):
    """A module appends to its list, sets a buffer anew and remembers its last output."""

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.history, self.last = [], None

        def forward(self, x):
            self.mean = 0.5 * self.mean + x
            self.history.append(x.shape)
            self.last = x + self.mean
            return self.last * 2

    net = Net()
    compiled = way.compile(net)
    outs = [compiled(X), compiled(X)]
    return {"outs": outs, "mean": net.mean, "history": net.history, "last": net.last, "names": list(net._buffers)}


@case()
def a_generator_and_a_context_manager(way):
    """The graph runs inside both, and they are left in order."""
    log = []

    @contextlib.contextmanager
    def noted(name):
        log.append(f"enter {name}")
        yield name
        log.append(f"leave {name}")

    def numbers(x):
        for i in range(3):
            log.append(i)
            yield x + i

    def f(x):
        with noted("a"), torch.no_grad():
            return sum(numbers(x))

    return {"out": way.compile(f)(X), "log": log}


@case(uncompiled="Dynamo leaves a function that raises to Python")
def effects_before_an_error(way):
    """What was appended before the function raises stays appended; the error is the function's."""
    items = []

    def f(items, x):
        items.append(x + 1)
        raise KeyError("wanted")

    return {"error": outcome(way.compile(f), items, X), "items": items}


@case()
def printed_from_a_compiled_function(way):
    """`print` breaks the graph or is kept for later; the text comes once, in order."""

    def f(x):
        y = x + 1
        print("between", tuple(y.shape))
        return y * 2

    return {"out": way.compile(f)(X)}


@case(uncompiled="Dynamo cannot trace the attributes of a SimpleNamespace that are set")
def a_simple_namespace_and_a_slice(way):
    """Objects of the standard library as arguments."""
    bag = types.SimpleNamespace(x=X, n=2)

    def f(bag, where):
        bag.n += 1
        bag.y = bag.x[where] * bag.n
        return bag.y + 1

    return {"out": way.compile(f)(bag, slice(1, 3)), "bag": vars(bag)}


@case()
def attributes_of_tensors(way):
    """Read from inputs and set on them in the graph: a tensor, a number, then a tensor where a number was."""

    def function(x, y):
        before = x.mark if hasattr(x, "mark") else 1
        x.mark, x.more = y, y * 2
        return x * x.mark * before, x.more

    compiled, found = way.compile(function, dynamic=False), []
    for y in (4, torch.full((4,), 3.0), 5):
        x = torch.arange(4.0)
        x.mark = 7
        found += [compiled(x, y), x.mark, x.more, compiled(x, y)]
    return found


@case()
def attributes_of_tensors_around_a_graph_break(way):
    """Set before a break and read after it, over a list of tensors."""

    def function(tensors, y):
        for tensor in tensors:
            tensor.y = y
        torch._dynamo.graph_break()
        total = 1
        for tensor in tensors:
            total = tensor.y * total + tensor
        return total

    tensors = [torch.arange(4.0) + k for k in range(3)]
    return way.compile(function)(tensors, torch.full((4,), 2.0)), [tensor.y for tensor in tensors]
