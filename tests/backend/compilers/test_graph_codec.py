"""Graphs as data: what is read back is the same program; what is no graph of ours is refused, and never run."""

import builtins
import math

import msgpack
import pytest
import torch
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from warmgraph.backend.compilers.graph_codec import BadGraph, dump_graph, load_graph
from warmgraph.backend.compilers.targets import HIGHER_ORDER, Unknown, name_of, target_of
from warmgraph.backend.compilers.tensor_codec import NoData, tensor_data, tensor_of
from warmgraph.backend.typing import NotSerialisable


def traced(function, *inputs):
    return make_fx(function)(*inputs)


def again(gm, traces=(), places=None):
    loaded, _ = load_graph(dump_graph(gm, {}, places or {}), traces)
    return loaded


def many_kinds_of_arguments(x):
    y = torch.ops.aten._to_copy.default(x, dtype=torch.float64, layout=torch.strided, device=torch.device("cpu"))
    y = y.clone(memory_format=torch.contiguous_format) * float("inf") + 2**40
    low, rest = torch.ops.aten.split_with_sizes.default(y, [1, 2])
    parts = torch.ops.aten._foreach_add.List([low, rest], [low, rest], alpha=2)
    return parts[0], None, torch.ops.aten.mul.Tensor(x.to(torch.complex64), 1 + 2j), x[:, ::2], -0.0 * x


def test_a_graph_is_read_back_as_the_same_code():
    """Every kind of argument that operators take; the code that torch.fx writes for both is the same."""
    x = torch.arange(1.0, 13.0).reshape(3, 4)
    gm = traced(many_kinds_of_arguments, x)
    loaded = again(gm)
    gm.graph.set_codegen(type(loaded.graph._codegen)())
    gm.recompile()
    assert loaded.code == gm.code
    given = [x]
    for ours, theirs in zip(loaded.forward(given), many_kinds_of_arguments(x), strict=True):
        assert (ours is theirs is None) or torch.equal(ours, theirs)
    assert given == []  # takes its inputs as one list, and lets go of them


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        torch.zeros(0, 4),
        torch.arange(6, dtype=torch.int16).reshape(2, 3).t(),
        torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        torch.tensor([True, False]),
        torch.randn(5).to(torch.bfloat16),
        torch.randn(4).to(torch.float8_e4m3fn),
        torch.randn(3, dtype=torch.complex64),
        torch.tensor([math.nan, -0.0, math.inf]),
        torch.nn.Parameter(torch.ones(2)),
    ],
    ids=lambda tensor: f"{tensor.dtype} {tuple(tensor.shape)}",
)
def test_a_constant_keeps_every_bit_and_its_strides(tensor):
    """Also those that compare unequal to themselves."""
    made = tensor_of(msgpack.unpackb(msgpack.packb(tensor_data(tensor))))
    assert (made.dtype, made.shape, made.stride(), made.device) == (
        tensor.dtype,
        tensor.shape,
        tensor.stride(),
        tensor.device,
    )
    assert made.requires_grad == tensor.requires_grad
    assert tensor_data(made) == tensor_data(tensor)


@pytest.mark.parametrize(
    "tensor",
    [torch.ones(3).expand(2, 3), torch.eye(2).to_sparse(), torch.randn(2, dtype=torch.complex64).conj()],
    ids=["expanded", "sparse", "conjugate"],
)
def test_a_constant_that_is_more_than_its_bytes_is_not_kept(tensor):
    """The node is named."""
    graph = Graph()
    graph.output((graph.get_attr("held"),))
    with pytest.raises(NotSerialisable, match=r"node held .*constant"):
        dump_graph(GraphModule({"held": tensor}, graph), {}, {})


def test_constants_that_share_memory_are_not_kept():
    """Apart they would no longer."""
    graph = Graph()
    graph.output((graph.get_attr("one"), graph.get_attr("other")))
    whole = torch.arange(4.0)
    with pytest.raises(NotSerialisable, match="share their memory"):
        dump_graph(GraphModule({"one": whole[:2], "other": whole[2:]}, graph), {}, {})


def chain(*regions):
    """One region after the other; each is an attribute, the same as often as it comes."""
    graph, held = Graph(), {f"region{regions.index(region)}": region for region in regions}
    value = graph.placeholder("x")
    nodes = {name: graph.get_attr(name) for name in held}
    for region in regions:
        name = f"region{regions.index(region)}"
        out = graph.call_function(torch.ops.higher_order.invoke_subgraph, (nodes[name], name, value))
        value = graph.call_function(getitem, (out, 0))
    graph.output((value,))
    return GraphModule(held, graph)


def nested():
    inner = traced(lambda x: (x.sin() * 2,), torch.ones(3))
    return chain(inner, inner)


getitem = __import__("operator").getitem


def test_a_nested_graph_is_read_back_once():
    """Two calls of one region stay calls of one."""
    loaded = again(nested())
    assert len([m for m in loaded.modules() if isinstance(m, GraphModule)]) == 2
    x = torch.arange(3.0)
    assert torch.equal(loaded.forward([x])[0], (x.sin() * 2).sin() * 2)


def test_a_region_may_be_called_by_a_graph_and_by_another_region():
    """In either order: the inner one is read once, by whoever comes first."""
    inner = traced(lambda x: (x.sin() * 2,), torch.ones(3))
    middle, x = chain(inner), torch.arange(3.0)
    for regions in ((inner, middle), (middle, inner)):
        loaded = again(chain(*regions))
        assert len([m for m in loaded.modules() if isinstance(m, GraphModule)]) == 3
        assert torch.equal(loaded.forward([x])[0], (x.sin() * 2).sin() * 2)


def test_lines_are_those_of_the_process_that_loads():
    """A node says which node of Dynamo's graph it comes from, and that has a line here, which may be another."""
    gm = traced(lambda x: (x.sin(),), torch.ones(2))
    for node in gm.graph.nodes:
        node.meta["stack_trace"] = f"there: {node.op}"
    loaded = again(gm, ["here"], {"there: call_function": 0})
    assert [node.meta.get("stack_trace") for node in loaded.graph.nodes] == [None, "here", None]


@pytest.mark.parametrize("target", [print, eval, torch.load, torch.relu, torch.ops.aten.add, "method", builtins.open])
def test_no_other_target_can_be_named(target):
    """Plain Python, torch's own functions, operators without an overload: none is kept."""
    with pytest.raises(Unknown):
        name_of(target)


@pytest.mark.parametrize(
    "name",
    [
        ["function", "builtins.eval"],
        ["function", "os.system"],
        ["op", "aten::add", "Tensor", "aten::add.Tensor(Tensor self) -> Tensor"],
        ["op", "aten::no_such_operator", "default", ""],
        ["op", "load_library::add", "Tensor", ""],
        ["op", "aten::add.__class__", "Tensor", ""],
        ["op", "aten::add", "__init__", ""],
        ["higher order", "triton_kernel_wrapper_mutation"],
        ["higher order", "__class__"],
        ["op", "aten::add"],
        "aten::add",
        None,
    ],
    ids=str,
)
def test_no_other_name_leads_to_a_target(name):
    """An operator whose schema is another one here is refused as well."""
    with pytest.raises(Unknown):
        target_of(name)


def test_every_higher_order_operator_of_the_list_exists():
    """On the torch that is installed."""
    import torch._higher_order_ops

    missing = {name for name in HIGHER_ORDER if not hasattr(torch.ops.higher_order, name)}
    assert not missing


def plain():
    return msgpack.unpackb(dump_graph(traced(lambda x: (x.sin() + 1,), torch.ones(2)), {"devices": {}}, {}))


BOOM = "x); __import__('os')._exit(3"


def node(data, number):
    return data["graphs"][0][0][number]


HOSTILE = {
    "a name that is code": lambda data: node(data, 1).__setitem__(1, BOOM),
    "an argument's name that is code": lambda data: node(data, 0).__setitem__(2, BOOM),
    "a keyword that is code": lambda data: node(data, 1).__setitem__(4, [[BOOM, 1]]),
    "an attribute that is code": lambda data: node(data, 1).__setitem__(slice(0, 3), ["get_attr", "a", BOOM]),
    "an attribute that is not there": lambda data: node(data, 1).__setitem__(slice(0, 3), ["get_attr", "a", "forward"]),
    "a method": lambda data: node(data, 1).__setitem__(slice(0, 3), ["call_method", "a", "__reduce__"]),
    "a module": lambda data: node(data, 1).__setitem__(slice(0, 3), ["call_module", "a", "region"]),
    "a plain function": lambda data: node(data, 1).__setitem__(2, ["function", "builtins.exec"]),
    "a Python keyword": lambda data: node(data, 1).__setitem__(1, "lambda"),
    "a name twice": lambda data: node(data, 2).__setitem__(1, node(data, 1)[1]),
    "a node that is yet to come": lambda data: node(data, 1).__setitem__(3, ["tuple", [["node", 2]]]),
    "a node below all": lambda data: node(data, 1).__setitem__(3, ["tuple", [["node", -1]]]),
    "a value of no kind": lambda data: node(data, 1).__setitem__(3, ["tuple", [["pickle", b"cos\nsystem\n"]]]),
    "a dtype that is none": lambda data: node(data, 1).__setitem__(3, ["tuple", [["dtype", "torch.load"]]]),
    "a graph that nests itself": lambda data: data["graphs"][0][1].update(region=["graph", 0]),
    "a tensor without its bytes": lambda data: data["graphs"][0][1].update(
        held=["tensor", ["torch.float32", [2**30], [1], ["cpu", None], False, b""]]
    ),
    "a tensor of many strides": lambda data: data["graphs"][0][1].update(
        held=["tensor", ["torch.float32", [2], [2**40], ["cpu", None], False, b"\0" * 8]]
    ),
    "no output": lambda data: data["graphs"][0][0].pop(),
    "two outputs": lambda data: data["graphs"][0][0].append(node(data, 3)),
    "no graph": lambda data: data.update(graphs=[]),
    "another version": lambda data: data.update(version=2),
    "a deep value": lambda data: node(data, 1).__setitem__(3, deep(400)),
}


def deep(levels):
    value = ["tuple", []]
    for _ in range(levels):
        value = ["tuple", [value]]
    return value


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_graph_is_refused(name):
    """Each is one change of a good graph, which itself loads; nothing of it is run, or the test would end here."""
    data = plain()
    load_graph(msgpack.packb(data))
    HOSTILE[name](data)
    with pytest.raises(BadGraph):
        load_graph(msgpack.packb(data))


def test_damaged_bytes_are_refused_or_still_a_graph():
    """Bytes changed in turn, lengths cut: a BadGraph, or a graph that torch.fx accepts; no other error."""
    good = dump_graph(nested(), {}, {})
    refused = 0
    for place in range(0, len(good), 5):
        for bad in (good[:place], good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1 :]):
            try:
                load_graph(bad)
            except BadGraph:
                refused += 1
    assert refused > len(good) // 5


def test_tensors_that_are_not_data_are_refused():
    """Total, as all decoding."""
    for data in (None, [], ["torch.float32"], ["os", [1], [1], ["cpu", None], False, b""]):
        with pytest.raises(NoData):
            tensor_of(data)
