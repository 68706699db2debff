"""A graph that runs without CUDA graphs says why, in one event per reason, and the same cold and warm."""

import ast
import dataclasses
import inspect
import textwrap
import types

import pytest
import torch
from torch._inductor import cudagraph_trees, cudagraph_utils, output_code
from torch._inductor.scheduler import Scheduler
from warmgraph.backend.cudagraphs import listening
from warmgraph.backend.cudagraphs.skips import Unrecorded, in_words, unrecorded
from warmgraph.backend.cudagraphs.watching import CudagraphTracker, Placeholder
from warmgraph.backend.torch_api import cudagraph_trees as cudagraph_compat
from warmgraph.backend.torch_api import patches, versions
from warmgraph.cache import Reason

PROGRAM = """
import contextlib, io, json, os, torch
from torch._dynamo.decorators import override_cudagraphs
from warmgraph.cache import flush, journal_dir, read, settings
from warmgraph.scripts import main

def partitioned(x):
    return x.cos() + 1

def whole(x):
    return x.cos() + 2

@override_cudagraphs(fwd=False)
def told_not_to(x):
    return x.cos() * 3

def in_cpp(x):
    return x.cos() * 4

def not_asked_for(x):
    return x.cos() * 5

graphs, whole_graph = {"triton.cudagraphs": True}, {"graph_partition": False}
light = {"fallback_by_default": True}  # no kernels: g++ is not what is looked at
for function, options in (
    (partitioned, graphs | light),
    (whole, graphs | whole_graph | light),
    (told_not_to, graphs | light),
    (in_cpp, graphs | {"cpp_wrapper": True} | light),
    (not_asked_for, light),
):
    compiled = torch.compile(function, backend="warmgraph", options=options)
    x = torch.ones(4, requires_grad=function is whole)
    for _ in range(3):
        y = compiled(x)
        if y.requires_grad:
            y.sum().backward()
flush()
mine = (event for event in read(journal_dir(settings())) if event["pid"] == os.getpid())
events = sorted(mine, key=lambda event: event["time"])
told = [[e["outcome"], e["reason"], e["detail"], e["key"], e["line"], e["seconds"]] for e in events]
with contextlib.redirect_stdout(io.StringIO()) as said:
    main(["explain", "--json"])
print(json.dumps([told, json.loads(said.getvalue())["explained"]]))
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(versions.at_hand() < (2, 12), reason="2.11 has no override_cudagraphs")
def test_a_skip_is_told_once_with_its_reason_and_the_same_cold_and_warm(run_in, tmp_path):
    """Verdicts of the compile and of the load, for inference and training; a graph nobody wants recorded says none."""
    (tmp_path / "program.py").write_text(PROGRAM)  # a file, for torch shows no line of a text
    # Graphs of restored frames do not say it again: frames are restored only where there is no GPU to record on.
    program = tmp_path / "program.py", {"TORCHINDUCTOR_COMPILE_THREADS": "1", "WARMGRAPH_FRAMES": "0"}
    (cold, _), (warm, explained) = (run_in(tmp_path, program[0], **program[1]) for _ in range(2))
    skips = [[event for event in events if event[0] == "skipped"] for events in (cold, warm)]
    assert skips[0] == skips[1]
    assert [reason for _, reason, *_ in skips[0]] == ["skip-cpu", "skip-cpu", "skip-disabled", "skip-disabled"]
    details = [detail for _, _, detail, *_ in skips[0]]
    assert details[0].startswith(f"cpu device: aten.cos.default, at {program[0]}:")
    assert details[1].startswith(f"cpu device: input L['x'] (position 0), at {program[0]}:")
    assert "override_cudagraphs" in details[2]
    assert "graph_partition" in details[3]
    assert all(seconds == {} for *_, seconds in skips[0])  # they would be counted twice
    assert [event[0] for event in cold if event[0] != "skipped"] == ["miss"] * 5
    assert [event[0] for event in warm if event[0] != "skipped"] == ["hit"] * 5
    shown = {one["cause"]: one["advice"] for one in explained if one["outcome"] == "skipped"}
    assert len(shown) == 4  # `warmgraph explain` has them all, with words and advice
    for detail in details:
        (cause,) = (cause for cause in shown if detail in cause)
        assert cause.startswith("without CUDA graphs")
        assert shown[cause]


STACK = '  File "/job/model.py", line 7, in forward\n    y[mask] = 0\n    ^^^^^^^\n'
MESSAGES = [
    (
        f"skipping cudagraphs due to cpu device (arg1_1). Found from : \n {STACK}",
        "skip-cpu",
        "input L['x'] (position 1)",
    ),
    ("skipping cudagraphs due to cpu device (primals_2)", "skip-cpu", "cpu device: input L['x'] (position 1)"),
    ("skipping cudagraphs due to cpu device (device_put)", "skip-cpu", "cpu device: device_put"),
    (
        "skipping cudagraphs due to multiple devices: device(type='cuda', index=0), device(type='cuda', index=1)",
        "skip-devices",
        "index=1",
    ),
    (
        f"disabling cudagraphs due to incompatible op aten.index_put_.default Found from {STACK}",
        "skip-op",
        "index_put_",
    ),
    (f"control flow operator: torch.cond. Found from : \n {STACK}", "skip-op", "torch.cond, at /job/model.py:7"),
    (f"skipping cudagraphs due to mutated inputs (1 instances). Found from : \n {STACK}", "skip-mutation", "mutated"),
    (f"input storage mutation (1 instances). Found from:\n {STACK}", "skip-mutation", "forward: y[mask] = 0"),
    (
        "graph with symbolic shapes inputs and config.triton.cudagraph_skip_dynamic_graphs=True.\n",
        "skip-dynamic",
        "cudagraph_skip_dynamic_graphs",
    ),
    (
        "skipping cudagraph due to function 3 exceeding max re-recording limit (=128) on cudagraph node 1 due to x.",
        "skip-rerecorded",
        "(=128)",
    ),
    (
        "skipping cudagraph due to function 3 reaching the cudagraph-managed input re-recording threshold (=5) on "
        "cudagraph node 1 for input indices [0].",
        "skip-rerecorded",
        "input indices [0]",
    ),
    (
        "skipping cudagraphs due to ['mutated inputs', 'non-Tensor inputs']",
        "skip-mutation",
        "mutated inputs, non-Tensor",
    ),
    (
        "skipping cudagraphs due to cudagraph capture requires the caching allocator; current allocator is uncached",
        "skip-disabled",
        "allocator",
    ),
    ("skipping cudagraphs due to skipping cudagraphs due to incompatible op (add)", "skip-op", "incompatible op: add"),
    ("something that a later torch says", "skip-other", "something that a later torch says"),
    ("", "skip-other", ""),
]


@pytest.mark.parametrize(("message", "reason", "said"), MESSAGES, ids=[str(n) for n in range(len(MESSAGES))])
def test_what_torch_says_becomes_a_reason_and_one_line(message, reason, said):
    """With the input by the user's name, and the user's line where torch has one."""
    skip = in_words(message, ["L['model'].weight", "L['x']"])
    assert skip.reason.value == reason
    assert said in skip.detail
    assert "\n" not in skip.detail
    assert "cudagraphs due to" not in skip.detail
    assert ("at /job/model.py:7 in forward: y[mask] = 0" in skip.detail) == (STACK in message)


@pytest.mark.skipif(versions.at_hand() < (2, 13), reason="2.12 has other words for some: these are `skip-other`")
def test_each_message_that_torch_can_say_is_known():
    """The reasons in torch's own source, so that a new one is noticed: none ends as `other`."""
    source = inspect.getsource(output_code) + inspect.getsource(Scheduler.should_partition)
    texts = {node.value for node in ast.walk(ast.parse(source_of(Scheduler.should_partition)))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}  # fmt: skip
    said = [text for text in texts if text.endswith("ops") and text != " ops"]
    assert len(said) >= 5
    for text in [*said, "cuda:1 ops", "cpu ops"]:
        (skip,) = unrecorded([Unrecorded(text, "f", "")], partly=True)
        assert skip.reason is not Reason.SKIP_OTHER, text
    for text in ("input storage mutation", "mutated inputs", "force_disable_cudagraph_TESTING_ONLY"):
        assert f'"{text}"' in source
        assert in_words(text).reason is not Reason.SKIP_OTHER


def source_of(function):
    return textwrap.dedent(inspect.getsource(function))


def test_what_is_not_recorded_is_told_by_reason_with_the_first_of_its_operations():
    """A graph with one copy to the CPU still runs in CUDA graphs on both sides of it."""
    notes = [Unrecorded("DeviceCopy ops", f"op{n}", STACK) for n in range(5)] + [
        Unrecorded("Conditional ops", "if", "")
    ]
    copies, branch = unrecorded(notes, partly=True)
    assert copies.reason is Reason.SKIP_CPU
    assert copies.detail.startswith("in part only: DeviceCopy ops: op0, at /job/model.py:7")
    assert copies.detail.endswith("and 2 more")
    assert branch.reason is Reason.SKIP_OP


# -- at run time: torch's own manager of CUDA-graph trees, of which nothing here needs a device


@pytest.fixture
def told():
    return []


@pytest.fixture
def watch(told):
    gm = torch.fx.symbolic_trace(lambda x, y: x + y)
    with torch._inductor.config.patch({"triton.cudagraphs": True}):
        return CudagraphTracker(gm, lambda reason, detail: told.append((reason, detail)), strict=True)


def placeholders(watch, count=3):
    """As Inductor keeps them, carried by `watch`."""
    plain = [cudagraph_utils.PlaceholderInfo(f"arg{n}_1", None, [], STACK) for n in range(count)]
    return watch.carried(plain)


def manager(function):
    """torch's, without its constructor, which makes a CUDA graph. It stands at the root of its tree."""
    made = object.__new__(cudagraph_trees.CUDAGraphTreeManager)
    made.ids_to_funcs = {function.id: function}
    made.id_to_mode = {function.id: cudagraph_trees.CompilationMode.INFERENCE}
    made.current_node, made.path_state = None, cudagraph_trees.ExecutionState.NONE
    made.non_cudagraph_managed_mutation_hint = cudagraph_trees.defaultdict(dict)
    made.warned_mutation, made.warmed_up_functions = set(), {function.id}
    made.num_rerecord = cudagraph_trees.defaultdict(lambda: cudagraph_trees.defaultdict(int))
    # Since 2.14 and 2.15.
    made.skip_cudagraph = cudagraph_trees.defaultdict(dict)
    made.has_live_user_visible_output_cloning = False
    made.cudagraph_managed_input_rerecord, made.demoted_cudagraph_managed_idxs = {}, {}
    made.compile_id = None
    return made


def function_of(placeholders, mutated=(), static=()):
    given = (lambda inputs: ["ran"], static, cudagraph_utils.FunctionID(7), (), placeholders, mutated)
    required = {  # since 2.15
        "cudagraph_managed_input_rerecord_limit": 5,
        "cudagraph_managed_input_rerecord_action": "copy",
    }
    fields = {field.name for field in dataclasses.fields(cudagraph_utils.WrappedFunction)}
    return cudagraph_utils.WrappedFunction(*given, **{n: v for n, v in required.items() if n in fields})


@pytest.fixture(autouse=True)
def put_back(monkeypatch):
    """torch's functions are wrapped for the length of a test."""
    name = "log_cudagraph_skip_and_bump_counter"
    monkeypatch.setattr(cudagraph_trees, name, inspect.unwrap(getattr(cudagraph_trees, name)))
    others = {name: undo for name, undo in patches._undo.items() if name != "skips"}
    monkeypatch.setattr(patches, "_undo", others)


def test_a_mutation_found_at_run_time_names_the_input_and_is_told_once(watch, told):
    """Of three inputs two are written to; one of them is a parameter, and does not move."""
    listening.hear_skips()
    function = function_of(placeholders(watch), mutated=(0, 2), static=(0,))
    trees, inputs = manager(function), [torch.ones(1) for _ in range(3)]
    for _ in range(3):
        assert trees._run(inputs, function.id) == ["ran"]  # each time without a CUDA graph
    trees.non_cudagraph_managed_mutation_hint.clear()  # as on another node of the tree
    trees.warned_mutation.clear()
    trees._run(inputs, function.id)
    ((reason, detail),) = told
    assert reason is Reason.SKIP_MUTATION
    assert detail.startswith("mutated inputs: input arg2_1 (position 2), at /job/model.py:7 in forward")


def test_an_input_that_only_some_calls_may_write_to_is_told_of_when_it_is_found(watch, told):
    """The tree asks again before it records: what looked managed at first is caught."""
    listening.hear_skips()
    function = function_of(placeholders(watch), mutated=(1,))
    trees, inputs = manager(function), [torch.ones(1) for _ in range(3)]
    managed = {id(inputs[1])}
    trees._get_cuda_graph_recorded_tensor_checker = lambda: lambda tensor: id(tensor) in managed
    trees._update_non_cudagraph_managed_mutation(function.id, inputs)
    assert told == []
    managed.clear()
    trees._update_non_cudagraph_managed_mutation(function.id, inputs)
    assert [reason for reason, _ in told] == [Reason.SKIP_MUTATION]


@pytest.mark.skipif(versions.at_hand() < (2, 13), reason="2.12 goes on to record at a limit of 0")
def test_a_function_recorded_too_often_says_so(watch, told):
    """Its inputs from earlier recordings lie elsewhere at each call."""
    listening.hear_skips()
    function = function_of(placeholders(watch))
    trees = manager(function)
    moved = types.SimpleNamespace(
        check_invariants=lambda inputs: (
            cudagraph_trees.CheckInvariantStatus.CudagraphManagedIdxMismatch,
            lambda: "an input has moved",
        ),
        mismatched_cudagraph_managed_idxs=lambda inputs: [],  # since 2.15, which may copy them instead
    )
    trees.roots = {function.id: [moved]}
    with torch._inductor.config.patch({"triton.cudagraph_unexpected_rerecord_limit": 0}):
        for _ in range(3):
            assert trees._run([torch.ones(1)] * 3, function.id) == ["ran"]
    ((reason, detail),) = told
    assert reason is Reason.SKIP_RERECORDED
    assert "an input has moved" in detail


def test_a_function_of_nobody_is_left_to_torch(watch, told):
    """A graph that plain Inductor compiled in the same process."""
    listening.hear_skips()
    function = function_of([cudagraph_utils.PlaceholderInfo("arg0_1", None, [], None)], mutated=(0,))
    assert manager(function)._run([torch.ones(1)], function.id) == ["ran"]
    assert told == []


def test_what_carries_a_watch_is_still_a_placeholder_of_torch(watch):
    """Same fields, by the same names; and what is stored with an entry stays torch's own."""
    (carried,) = placeholders(watch, 1)
    assert isinstance(carried, Placeholder)
    for item in dataclasses.fields(cudagraph_utils.PlaceholderInfo):
        assert hasattr(carried, item.name)
    assert cudagraph_utils.get_mutating_use_stack_trace(carried) == STACK
    assert "watch" not in repr(carried)


def test_a_backward_that_is_skipped_may_be_compiled_before_the_forward_ran():
    """torch looks for the forward's trees while it compiles the backward, and fails where they do not exist yet."""
    handle = cudagraph_compat.late_generation(inspect.unwrap(output_code.maybe_handle_backward_generation))
    graph = types.SimpleNamespace(fx_kwargs={"is_backward": True}, current_callable=lambda inputs: ["ran", *inputs])
    with pytest.raises(AssertionError):
        inspect.unwrap(output_code.maybe_handle_backward_generation)(graph, cudagraph_utils.BoxedDeviceIndex(0))
    handle(graph, cudagraph_utils.BoxedDeviceIndex(0))
    assert graph.current_callable([1]) == ["ran", 1]
    told = []
    container = cudagraph_trees.get_container(0)
    container.tree_manager = types.SimpleNamespace(set_to_running_backward=lambda: told.append("backward"))
    try:
        assert graph.current_callable([2]) == ["ran", 2]
    finally:
        container.tree_manager = None
    assert told == ["backward"]


def test_torch_still_says_which_function_it_is_about():
    """The names that are read from the frame of the caller, and the places that call it."""
    for method in ("_run", "_update_non_cudagraph_managed_mutation"):
        body = inspect.getsource(getattr(cudagraph_trees.CUDAGraphTreeManager, method))
        assert "log_cudagraph_skip_and_bump_counter(" in body
        assert "function_id" in inspect.signature(getattr(cudagraph_trees.CUDAGraphTreeManager, method)).parameters
    assert inspect.getsource(cudagraph_trees).count("log_cudagraph_skip_and_bump_counter(") == (
        3 if versions.at_hand() >= (2, 15) else 2
    )
    assert "fn, out = cudagraphify(" in inspect.getsource(cudagraph_trees.cudagraphify_impl)
    assert "return partitions, signatures" in inspect.getsource(Scheduler.graph_partition)
