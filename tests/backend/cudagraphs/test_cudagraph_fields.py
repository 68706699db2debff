"""What CUDA graphs are made from is the same after a load as after the compile; so what they decide is, too.

There is no device here. torch is told that there is, up to the point where a CUDA graph would be made; what it is given
at that point, cold and warm, is compared. What it decides with it is torch's own: which inputs are written to, which of
them do not move, and where in the user's program that is.
"""

import dataclasses

import pytest
import torch
from torch._inductor import cudagraph_utils, output_code
from torch._inductor.scheduler import Scheduler
from warmgraph.cache import flush, stats

FIELDS = (
    "mutated_inputs mutated_input_idxs device_types device_idxs partition_maps inputs_to_check output_strides "
    "disabled_cudagraphs_reason cudagraph_info _defers_input_alignment _warmgraph_unrecorded "
    "kernel_free_cudagraph"
).split()
KEYWORDS = ("static_input_idxs", "is_backward", "is_inference")


class Stateful(torch.nn.Module):
    """Reads a parameter, writes to a buffer."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        self.seen.add_(x.detach().sum(0))
        return x * self.weight + self.seen


def reads(x, y):
    return x + y.cos()


def writes(x, y):
    y.mul_(2)
    return x + y


def writes_both(x, y):
    x.add_(y)
    y.copy_(x.cos())
    return x.sum()


def sorts(x, y):
    z = (x + y).sort().values
    return z.cos() + y, z


def module(x, y):
    return MODULE(x) + y


MODULE = Stateful()
CASES = [
    (reads, {}),
    (writes, {}),
    (writes_both, {}),
    (sorts, {}),
    (module, {"grad": True}),
    (reads, {"dynamic": True}),
    (writes, {"dynamic": True}),
    (reads, {"grad": True}),
]


def snapshot(graph, constants):
    plain = {name: getattr(graph, name, None) for name in FIELDS}
    info = plain["cudagraph_info"]
    plain["cudagraph_info"] = info if info is None else _torch_part(info)
    plain["constants"] = {name: value.tolist() for name, value in constants.items()}
    return plain | {name: graph.fx_kwargs[name] for name in KEYWORDS} | {"code": graph.source_code}


def _torch_part(info):
    """Without what warmgraph lets its placeholders carry."""
    names = [item.name for item in dataclasses.fields(cudagraph_utils.PlaceholderInfo)]
    return (
        [[getattr(one, name) for name in names] for one in info.placeholders],
        info.stack_traces,
        [*info.cudagraph_fail_reasons],
    )


@pytest.fixture
def given(monkeypatch):
    """What CUDA graphs would be made from, in order."""
    given = []

    def take(inputs, graph, cudagraphs, constants, device):
        given.append(snapshot(graph, constants))

    monkeypatch.setenv("WARMGRAPH_STRICT", "1")
    monkeypatch.setattr(cudagraph_utils, "check_lowering_disable_cudagraph", lambda devices: None)
    monkeypatch.setattr(output_code, "cudagraph_post_compile", take)
    monkeypatch.setattr(output_code, "cudagraph_partition_post_compile", take)
    torch._dynamo.reset()
    yield given
    torch._dynamo.reset()


def call(function, options, *, grad=False, dynamic=None):
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="warmgraph", options=options, dynamic=dynamic)
    x, y = torch.ones(5, 3), torch.ones(5, 3)
    with torch.set_grad_enabled(grad):
        compiled(x.requires_grad_(grad), y)
    assert flush(60)


@pytest.mark.parametrize("parted", [False, True], ids=["whole", "parted"])
@pytest.mark.parametrize(("function", "how"), CASES, ids=[f"{f.__name__}{'-'.join(['', *h])}" for f, h in CASES])
def test_a_loaded_graph_is_given_to_cuda_graphs_as_the_compiled_one_was(given, monkeypatch, function, how, parted):
    """Mutated and static inputs, placeholders with their stacks, pieces; forward and backward."""
    if parted:  # all is recorded but the sort
        monkeypatch.setattr(Scheduler, "should_partition", lambda self, node: "a sort" if is_sort(node) else None)
    options = {"triton.cudagraphs": True, "graph_partition": parted, "fallback_by_default": True}
    before = stats()
    call(function, options, **how)
    cold = given.copy()
    given.clear()
    call(function, options, **how)
    assert stats()["hits"] == before["hits"] + 1
    assert stats()["misses"] == before["misses"] + 1
    assert len(cold) == (2 if how.get("grad") else 1)
    assert given == cold
    assert all(one["cudagraph_info"] is not None for one in cold)
    assert bool(cold[0]["partition_maps"]) == parted


def is_sort(node):
    return any("sort" in str(origin.target) for origin in node.node.get_origins())


def test_the_four_kinds_are_told_apart_by_what_is_compared(given):
    """Which inputs are written to, less those that do not move; the rest is decided when they are seen."""
    options = {"triton.cudagraphs": True, "graph_partition": False, "fallback_by_default": True}
    found = {}
    for function, grad in ((reads, False), (writes, False), (writes_both, False), (module, True)):
        given.clear()
        call(function, options, grad=grad)
        forward = given[0]
        moving = [place for place in forward["mutated_input_idxs"] if place not in (forward["static_input_idxs"] or ())]
        found[function.__name__] = (len(forward["mutated_input_idxs"]), len(moving))
    assert found == {"reads": (0, 0), "writes": (1, 1), "writes_both": (2, 2), "module": (1, 0)}
    stacks = given[0]["cudagraph_info"][0]
    assert any("self.seen.add_" in str(placeholder) for placeholder in stacks)


def test_what_cuda_graphs_are_made_from_is_all_compared():
    """Every field of a result that torch reads on the way into CUDA graphs."""
    import ast
    import inspect

    used = set()
    for function in (
        output_code.cudagraph_post_compile,
        output_code.cudagraph_partition_post_compile,
        output_code.prepare_cudagraph_post_compile,
        output_code.CompiledFxGraph.post_compile,
    ):
        for node in ast.walk(ast.parse(inspect.cleandoc(inspect.getsource(inspect.unwrap(function))))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used |= {node.attr} if node.value.id in ("self", "compiled_graph") else set()
    made_on_load = {"current_callable", "recursively_apply_fns", "compiled_fn_runner", "fx_kwargs"}
    regions = {"_original_gm", "_serialized_original_gm", "_wrap_compiled_regions", "compile_region_name"}
    assert used - made_on_load - regions <= set(FIELDS)
