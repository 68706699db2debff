"""What goes into CUDA graphs and what does not, decided on graphs of tensors that pretend to be on a GPU.

And all that the CUDA-graph trees are told: a stand-in for torch's entry to them takes it down and runs the graph.
"""

import pytest
import torch
from torch._functorch import config as functorch_config
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from warmgraph.backend.compilers.aot_cudagraphs import CudaGraphs, _Sides
from warmgraph.backend.compilers.graph_codec import dump_graph, load_graph
from warmgraph.backend.cudagraphs import trees
from warmgraph.backend.cudagraphs.input_mutation import mutated_inputs, mutates_constants
from warmgraph.backend.cudagraphs.recordable import Facts, facts_of, verdict
from warmgraph.backend.torch_api import cudagraph_trees as cudagraph_compat
from warmgraph.cache import Reason

aten = torch.ops.aten


@torch.library.custom_op("recordable::waits", mutates_args=(), tags=(torch.Tag.cudagraph_unsafe,))
def waits(x: torch.Tensor) -> torch.Tensor:
    """An operator whose author says that it cannot be recorded."""
    return x.clone()


@waits.register_fake
def _(x):
    return torch.empty_like(x)


def traced(function, *devices):
    """The graph of `function` on float vectors on these devices, with values that are fake."""
    with FakeTensorMode(shape_env=ShapeEnv()):
        inputs = [torch.empty(4, device=device) for device in devices]
    return make_fx(function)(*inputs)


def skip_of(function, *devices, names=()):
    gm = traced(function, *devices)
    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.meta["stack_trace"] = f'  File "/home/user/model.py", line 7, in forward\n    {node.name}\n'
    facts = facts_of(gm, "inference")
    found = verdict(gm, facts, names)
    loaded, data = load_graph(dump_graph(gm, facts.data(), {}))
    for ours, theirs in zip(gm.graph.nodes, loaded.graph.nodes, strict=True):
        if "stack_trace" in ours.meta:
            theirs.meta["stack_trace"] = ours.meta["stack_trace"]
    assert verdict(loaded, Facts.of(data, loaded), names) == found, "a load decides otherwise"
    return found


def test_a_graph_on_one_gpu_is_recorded():
    """Nothing stands against it."""
    assert skip_of(lambda x, y: (x @ y, x + y), "cuda:0", "cuda:0") is None


@pytest.mark.parametrize(
    ("function", "devices", "reason", "words"),
    [
        (lambda arg0: arg0 + 1, ["cpu"], Reason.SKIP_CPU, "input L['x']"),
        (lambda arg0, arg1: (arg0 + 1, arg1 + 1), ["cuda:0", "cpu"], Reason.SKIP_CPU, "input L['y']"),
        (lambda arg0: (arg0.cpu(), arg0 + 1), ["cuda:0"], Reason.SKIP_CPU, "_to_copy"),
        (lambda arg0, arg1: (arg0 + 1, arg1 + 1), ["cuda:0", "cuda:1"], Reason.SKIP_DEVICES, "cuda:1"),
        (lambda arg0: waits(arg0), ["cuda:0"], Reason.SKIP_OP, "recordable.waits"),
        (lambda arg0: aten._foreach_add_.Scalar([arg0], 1), ["cuda:0"], Reason.SKIP_MUTATION, "input L['x']"),
        (lambda arg0: aten.view.default(arg0, [2, 2]).add_(1), ["cuda:0"], Reason.SKIP_MUTATION, "input L['x']"),
    ],
    ids=["cpu", "a cpu input", "a cpu output", "two gpus", "an operator that waits", "a list written to", "a view"],
)
def test_a_skip_names_the_op_or_input_and_the_users_line(function, devices, reason, words):
    """The same after a compile and after a load."""
    skip = skip_of(function, *devices, names=["L['x']", "L['y']"])
    assert skip.reason is reason
    assert words in skip.detail
    assert "/home/user/model.py:7" in skip.detail


def test_control_flow_cannot_be_recorded():
    """torch's `cudagraphs` lets a `cond` through, and reads its predicate while recording."""

    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    skip = verdict(gm := traced(f, "cuda:0"), facts_of(gm, "inference"), ())
    assert skip.reason is Reason.SKIP_OP
    assert "cond" in skip.detail


def test_symbolic_sizes_are_left_out_by_a_setting_only():
    """`cudagraph_skip_dynamic_graphs`, as for Inductor."""
    facts = Facts({"cuda:0": "x_1"}, None, [], [], "x_1")
    gm = traced(lambda x: x + 1, "cuda:0")
    assert verdict(gm, facts, ()) is None
    with torch._inductor.config.patch({"triton.cudagraph_skip_dynamic_graphs": True}):
        assert verdict(gm, facts, ()).reason is Reason.SKIP_DYNAMIC


def test_mutation_is_left_to_the_trees_by_a_setting_only():
    """`cudagraph_backend_support_input_mutation`: they see at run time whose memory it is."""
    with torch._dynamo.config.patch(cudagraph_backend_support_input_mutation=True):
        assert skip_of(lambda x: x.add_(1), "cuda:0") is None


def test_parameters_and_buffers_may_be_mutated():
    """What stays where it is can be written to in a recording."""
    gm = traced(lambda x: x.add_(1), "cuda:0")
    assert verdict(gm, Facts({"cuda:0": "x_1"}, None, [0], [0], None), ()) is None


def adam(*tensors):
    lists = [[tensor] for tensor in tensors]
    aten._fused_adam_.default(
        *lists, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False
    )
    return tensors[1] + 1


@pytest.mark.parametrize(
    ("function", "count", "written"),
    [
        (lambda x, y: x + y, 2, []),
        (lambda x, y: x.add_(y), 2, [0]),
        (lambda x, y: (aten._foreach_add_.List([y, x], [x, y]), y)[1] + 1, 2, [0, 1]),
        (lambda x, y: aten._foreach_copy_.default([y.view(2, 2)], [x.view(2, 2)]), 2, [1]),
        (lambda x, y: torch.add(x, 1, out=y), 2, [1]),
        (adam, 6, [0, 1, 2, 3, 4]),
    ],
    ids=["none", "in place", "lists", "a list of views", "out", "fused adam"],
)
def test_every_mutated_input_is_found(function, count, written):
    """Also where the schema says so of a list, which torch's own rule does not look into."""
    gm = traced(function, *["cuda:0"] * count)
    assert mutated_inputs(gm) == written


def test_torchs_own_rule_does_not_look_into_lists():
    """The fault that is mended here; when this fails, torch has mended it, too."""
    from torch._dynamo.backends.cudagraphs import find_input_mutations

    with pytest.raises(AttributeError):
        find_input_mutations(traced(lambda x: aten._foreach_add_.Scalar([x], 1), "cuda:0").graph)


def test_a_mutated_constant_is_found():
    """It is no constant, and would begin anew in each process."""
    held = torch.zeros(3)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    gm = make_fx(lambda x: (held.add_(1), x + 1)[1])(torch.ones(3))
    for node in gm.graph.find_nodes(op="get_attr"):
        node.meta.setdefault("val", mode.from_tensor(held))
    assert (mutates_constants(gm) is None) == all(
        "val" not in node.meta for node in gm.graph.nodes if node.target is aten.add_.Tensor
    )


def test_facts_that_are_no_facts_are_refused():
    """They come out of a store."""
    gm = traced(lambda x: x + 1, "cuda:0")
    good = Facts({"cuda:0": "x_1"}, None, [0], [], None)
    assert Facts.of(good.data(), gm) == good
    for change in ({"unsafe": "no_such_node"}, {"mutated": [1]}, {"static": [True]}, {"devices": []}, {"more": 1}):
        with pytest.raises(ValueError, match="no facts"):
            Facts.of(good.data() | change, gm)


# --- what the trees are told --------------------------------------------------------------------------


class Trees:
    """In the place of `torch._inductor.cudagraph_trees`: takes down what it is told, runs what it is given."""

    def __init__(self):
        self.told, self.generations, self.exists = [], 0, True

    def cudagraphify_impl(self, model, inputs, static, **options):
        self.told.append({"inputs": len(inputs), "static": static, **options})
        return model

    def get_manager(self, device, create_if_none_exists):
        assert (device, create_if_none_exists) == (0, False)
        return self if self.exists else None

    def set_to_running_backward(self):
        self.generations += 1


@pytest.fixture
def in_trees(monkeypatch):
    made = Trees()
    monkeypatch.setattr(cudagraph_compat, "trees", lambda: made)
    monkeypatch.setattr("warmgraph.backend.compilers.aot_cudagraphs.hear_skips", lambda: None)
    return made


def on_gpu(aot, facts):
    """The same graph, as if on a GPU; its values stay where they are."""
    return Facts({"cuda:0": next(iter(facts.devices.values()))}, facts.unsafe, facts.mutated, facts.static, None)


@pytest.fixture
def pretending(in_trees, monkeypatch):
    """Graphs of this CPU pass for graphs of a GPU."""
    import warmgraph.backend.compilers.aot_cudagraphs as module

    real = module.facts_of
    monkeypatch.setattr(module, "facts_of", lambda gm, side: on_gpu(gm, real(gm, side)))
    return in_trees


def compiled(function, told):
    torch._dynamo.reset()

    def backend(gm, inputs):
        return CudaGraphs().compile(gm, inputs, {}, lambda reason, detail: told.append((reason, detail)))

    return torch.compile(function, backend=backend)


def test_the_trees_are_told_what_inductor_tells_them(pretending):
    """Forward and backward: static inputs, placeholders, lines, at the first call and once."""
    model, told = torch.nn.Linear(4, 2), []
    step = compiled(lambda x: model(x).relu(), told)
    for _ in range(2):
        step(torch.ones(3, 4)).sum().backward()
    assert told == []
    forward, backward = pretending.told
    assert (forward["is_backward"], forward["is_inference"], forward["device_index"]) == (False, False, 0)
    assert forward["inputs"] == len(forward["placeholders"]) == 3
    assert forward["static"] == (0, 1)  # weight and bias: they do not move
    assert any("relu" in (trace or "") for trace in forward["stack_traces"])
    assert (backward["is_backward"], backward["is_inference"]) == (True, False)
    assert backward["static"] == tuple(range(backward["inputs"] - 1))  # all but the tangent
    assert forward["mutated_input_idxs"] == backward["mutated_input_idxs"] == ()


def test_inference_is_told_as_such(pretending):
    """Its outputs may be overwritten by the next run."""
    with torch.no_grad():
        compiled(lambda x: x + 1, [])(torch.ones(3))
    (only,) = pretending.told
    assert (only["is_backward"], only["is_inference"]) == (False, True)


def test_a_backward_without_cuda_graphs_still_tells_that_it_runs(pretending, monkeypatch):
    """Else the trees would free what the forward saved; also when it was compiled before the trees were there."""
    import warmgraph.backend.compilers.aot_cudagraphs as module

    real, told = module.facts_of, []

    def unsafe_backward(gm, side):
        facts = real(gm, side)
        call = gm.graph.find_nodes(op="call_function", target=aten.mul.Tensor)
        return Facts(facts.devices, call[0].name, [], [], None) if side == "backward" else facts

    monkeypatch.setattr(module, "facts_of", unsafe_backward)
    step = compiled(lambda x: x.sin(), told)
    x = torch.ones(3, requires_grad=True)
    with functorch_config.patch(force_non_lazy_backward_lowering=True):
        out = step(x)
    pretending.exists = False
    out.sum().backward()
    pretending.exists = True
    step(x).sum().backward()
    assert pretending.generations == 1
    assert torch.equal(x.grad, 2 * torch.ones(3).cos())
    ((reason, detail),) = told
    assert reason is Reason.SKIP_OP
    assert "the backward" in detail
    assert "aten.mul.Tensor" in detail


def test_without_cuda_graphs_nothing_is_recorded_or_told(pretending):
    """What a verified hit is compared by."""
    told = []
    with CudaGraphs().without_cudagraphs():
        compiled(lambda x: x + 1, told)(torch.ones(3))
    assert pretending.told == told == []


def test_an_annotation_switches_them_off(pretending):
    """`override_cudagraphs(fwd=False)`: said, and counted."""
    gm = make_fx(lambda x: (x + 1,))(torch.ones(3))
    gm.meta["cudagraph_annotation"] = type("Annotation", (), {"fwd": False, "bwd": None})()
    told = []
    sides = _Sides(gm, lambda *skip: told.append(skip), {})
    run = sides.run(gm, Facts({"cuda:0": next(iter(gm.graph.nodes)).name}, None, [], [], None), "inference")
    assert run._boxed_call
    assert [reason for reason, _ in told] == [Reason.SKIP_DISABLED]


def test_a_recording_is_made_by_thread(in_trees):
    """As Inductor's: trees belong to a thread."""
    import threading

    gm = make_fx(lambda x: (x + 1,))(torch.ones(3))
    gm.graph.set_codegen(cudagraph_compat._BoxedCodeGen())
    gm.recompile()
    run = trees.recorded(gm, Facts({"cuda:0": "x_1"}, None, [], [], None), "inference", ())
    for _ in range(2):
        run([torch.ones(3)])
    thread = threading.Thread(target=run, args=([torch.ones(3)],))
    thread.start()
    thread.join()
    assert len(in_trees.told) == 2
    assert in_trees.told[0]["constants"] == ()


@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_a_tensor_without_strides_has_facts_as_well():
    """A sparse matrix, also one in compressed rows, has no storage to be asked for; the graph is run all the same."""
    graph = torch.fx.Graph()
    nodes = [graph.placeholder(name) for name in ("rows", "pairs", "x")]
    dense = torch.eye(2)
    for node, value in zip(nodes, (dense.to_sparse_csr(), dense.to_sparse(), dense), strict=True):
        node.meta["val"] = value
    graph.output((graph.call_function(aten.add_.Tensor, (nodes[2], 1)),))
    facts = facts_of(torch.fx.GraphModule({}, graph), "inference")
    assert (facts.mutated, facts.symbolic) == ([2], None)
