"""Keys of real Dynamo graphs: what must change them does, what must not does not."""

import threading

import pytest
import torch
from warmgraph.backend.key.context import key_context
from warmgraph.backend.torch_api import versions
from warmgraph.hashing import PART_NAMES, Cause, Key, KeyContext, Uncacheable, key_of


def keys_of(function, *args, **compile_options):
    """The keys of every graph that Dynamo makes of one call."""
    torch._dynamo.reset()
    found: list[Key] = []

    def backend(gm, inputs):
        found.append(key_of(gm, inputs, key_context(gm, inputs, "warmgraph")))
        return gm.forward

    torch.compile(function, backend=backend, **compile_options)(*args)
    return found


def key(function, *args, **options) -> Key:
    (only,) = keys_of(function, *args, **options)
    return only


def changed(a: Key, b: Key) -> set[str]:
    """The parts in which two keys differ; empty if and only if the keys are equal."""
    names = {x.name for x, y in zip(a.parts, b.parts, strict=True) if x.digest != y.digest}
    assert bool(names) == (a.id != b.id)
    return names


X = torch.arange(12.0).reshape(3, 4)
Y = torch.arange(12.0).reshape(3, 4) + 1


def sub(x, y):
    return torch.sub(x, y)


def test_the_parts_are_the_ones_the_design_names():
    """Nine parts, in order."""
    assert tuple(part.name for part in key(sub, X, Y).parts) == PART_NAMES


def relu_sub(x, y):
    return torch.sub(torch.relu(x), y)


# `sub(a, b)`, `sub(b, a)` and `sub(a, b, alpha=3)` share their targets, and nothing else. (Dynamo orders
# inputs by first use, so the order has to be pinned by something before.)
GRAPH_CHANGES = [
    lambda x, y: torch.sub(y, torch.relu(x)),
    lambda x, y: torch.sub(torch.relu(x), y, alpha=3),
    sub,
    lambda x, y: torch.sub(x, y, alpha=3),
    lambda x, y: torch.sub(x, y, alpha=3.0),
    lambda x, y: torch.add(x, y),
    lambda x, y: torch.sub(x, x) + y,
    lambda x, y: (torch.sub(x, y), torch.relu(x)),
    lambda x, y: torch.sub(x, y).to(torch.float16),
    lambda x, y: torch.sub(x, y).to(torch.bfloat16),
    lambda x, y: torch.sub(x, y)[:, 1:3],
    lambda x, y: torch.sub(x, y)[:, 1:4],
    lambda x, y: x.sub_(y),
]


def test_every_change_of_the_graph_changes_the_key():
    """An engine that keys on target names alone confuses several of these."""
    found = [key(relu_sub, X, Y)] + [key(change, X.clone(), Y) for change in GRAPH_CHANGES]
    assert len({k.id for k in found}) == len(found)
    # Only the graph differs between these (no settings, no inputs).
    for other in found[1:]:
        assert changed(found[0], other) == {"graph"}


INPUT_CHANGES = {
    "dtype": (X.double(), Y.double()),
    "shape": (X.reshape(4, 3), Y.reshape(4, 3)),
    "stride": (X.t().contiguous().t(), Y),
    "requires_grad": (X.clone().requires_grad_(), Y),
    "parameter": (torch.nn.Parameter(X.clone()), Y),
    "offset": (torch.arange(24.0)[6:18].reshape(3, 4), Y),
}


@pytest.mark.parametrize("name", INPUT_CHANGES)
def test_every_change_of_an_input_changes_the_key(name):
    """Metadata that generated code relies on."""
    assert "inputs" in changed(key(sub, X, Y), key(sub, *INPUT_CHANGES[name]))


def test_which_inputs_share_a_storage_is_part_of_the_key():
    """Mutation of one changes the other."""
    base = torch.arange(24.0)

    def mutate(x, y):
        return x.add_(1) + y

    apart = key(mutate, base[:12].clone(), base[12:].clone())
    together = key(mutate, base[:12], base[12:])
    assert "inputs" in changed(apart, together)


def test_a_shared_storages_size_counts_though_another_input_is_dynamic():
    """AOTAutograd bakes the common base of overlapping static inputs in, whatever else is dynamic."""

    def mutate(x, y, z):
        return x.add_(1) * y + z.sum()

    def keyed(size):
        base, z = torch.arange(float(size)), torch.ones(5)
        torch._dynamo.mark_dynamic(z, 0)
        return key(mutate, base[0:8], base[4:12], z)

    assert changed(keyed(64), keyed(64)) == set()
    assert changed(keyed(64), keyed(128)) == {"inputs"}


def test_mitigation_flags_of_the_kernel_are_not(tmp_path):
    """Two hosts with other kernels and the same CPU share keys."""
    from warmgraph.hashing.parts.machine import cpu_flags

    first, second = tmp_path / "a", tmp_path / "b"
    first.write_text("processor : 0\nflags\t\t: fpu sse2 avx2 ibrs ibpb stibp constant_tsc\n")
    second.write_text("processor : 0\nflags\t\t: avx2 fpu sse2 hypervisor md_clear\n")
    assert cpu_flags(first) == cpu_flags(second) == ["avx2", "fpu", "sse2"]


def test_names_do_not_matter():
    """Parameters, locals and nodes may be called anything."""

    def other(first, second):
        difference = torch.sub(first, second)
        return (difference,)[0]

    assert changed(key(sub, X, Y), key(other, X, Y)) == set()


def test_values_and_instances_do_not_matter():
    """Weights are inputs: another model of the same shape has the same key."""
    a, b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    assert changed(key(a, X), key(b, X)) == set()
    assert changed(key(sub, X, Y), key(sub, X + 1, Y * 5)) == set()


def test_a_captured_constant_is_keyed_by_content():
    """A tensor that is baked into the graph decides results."""

    def with_constant(values):
        def f(x):
            return x + torch.tensor(values)

        return f

    a, b = key(with_constant([1.0, 2.0, 3.0, 4.0]), X), key(with_constant([1.0, 2.0, 3.0, 5.0]), X)
    assert "graph" in changed(a, b)


def test_dynamic_sizes_are_keyed_by_slot_and_not_by_value():
    """Two sizes, one key: what differs is left to the entry's guards."""
    a = key(sub, torch.ones(5, 4), torch.ones(5, 4), dynamic=True)
    b = key(sub, torch.ones(7, 4), torch.ones(7, 4), dynamic=True)
    assert changed(a, b) == set()
    assert a.parts[2].text
    static = key(sub, torch.ones(5, 4), torch.ones(5, 4), dynamic=False)
    assert {"inputs", "symbols"} <= changed(a, static)


def test_an_input_whose_metadata_changes_in_the_graph_is_described_as_it_was():
    """Dynamo's example_value is the input at the end of the trace; two beginnings must not share a key."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["example_value"] = torch.ones(3)
    graph.output((graph.call_method("t_", (x,)),))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    asked = []

    def fresh(node, real):
        asked.append(node.name)
        return real

    first = key_of(gm, [torch.ones(6)], KeyContext(compiler={}, fresh=fresh))
    second = key_of(gm, [torch.ones(7)], KeyContext(compiler={}, fresh=fresh))
    assert asked == ["x", "x"]
    assert changed(first, second) == {"inputs"}


def test_a_storages_size_counts_where_the_graph_replaces_storages():
    """Also when it is the operator's overload that is called, and not otherwise."""

    def f(x):
        torch.ops.aten.resize_.default(x, [2])
        return x + 1

    def g(x):
        return torch.ops.aten.add.Tensor(x, 1)

    for function, counts in ((f, {"inputs"}), (g, set())):
        assert changed(key(function, torch.arange(4.0)), key(function, torch.arange(16.0).resize_(4))) == counts


def test_a_function_of_torchs_own_extension_modules_has_a_name():
    """`x.data` calls one that is bound to a record of pybind11's."""

    def f(x):
        return x.data + 1

    assert not changed(key(f, X), key(f, Y))


@pytest.mark.skipif(versions.at_hand() >= (2, 14), reason="torch 2.14 has an operator for `x.data = y`: it is cached")
def test_data_that_is_replaced_is_told_apart():
    """`x.data = y` is an operator since 2.14, and the input is described as it was before."""

    def f(x, y):
        x.data = y
        return x + 1

    first = key(f, torch.ones(3), torch.ones(4))
    assert changed(first, key(f, torch.ones(5), torch.ones(4)))
    assert changed(first, key(f, torch.ones(3), torch.ones(5)))
    assert "size [3]" in first.texts()["inputs"]


def test_a_function_from_outside_torch_that_nothing_describes_is_refused_by_name():
    """allow_in_graph puts a user's function into the graph; what it holds may be anything."""
    holder = type("Holder", (threading.local,), {"by": 2})()

    def outside(x):
        return x + holder.by

    torch._dynamo.allow_in_graph(outside)
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="outside") as refusal:
        key(lambda x: outside(x) * 2, X)
    assert isinstance(refusal.value.inner_exception, Uncacheable)
    assert " at 0x" not in str(refusal.value), "reasons are counted and compared between processes"


def test_a_constant_that_is_too_large_is_refused(monkeypatch):
    """With a reason of its own."""
    monkeypatch.setattr("warmgraph.hashing.parts.tensors.MAX_CONSTANT_BYTES", 8)
    from warmgraph.hashing.parts.tensors import constant

    with pytest.raises(Uncacheable) as refusal:
        constant(torch.ones(100), "here")
    assert refusal.value.cause is Cause.CONSTANT_TOO_LARGE


def test_tensors_inside_a_subclass_that_are_one_are_not_two():
    """A mutation of one is then a mutation of both; torch's own key takes no notice."""
    from torch.testing._internal.two_tensor import TwoTensor

    def key(a, b):
        found = []

        def note(gm, inputs):
            found.append(key_of(gm, inputs, key_context(gm, inputs, "warmgraph")))
            return gm

        torch._dynamo.reset()
        torch.compile(lambda x: x.mul_(2), backend=note)(TwoTensor(a, b))
        return found[0].digests()["inputs"]

    one = torch.ones(3)
    assert key(one, torch.ones(3)) == key(torch.ones(3), one) != key(one, one)
