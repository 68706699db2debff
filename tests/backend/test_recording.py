"""The recording plan: what is told of sizes that were recorded, who reads it, and how little may go wrong with it."""

import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from warmgraph.backend.cudagraphs import record_ahead as ahead
from warmgraph.backend.cudagraphs import recording_plan as recording
from warmgraph.backend.cudagraphs.record_ahead import Ahead, sizes_ahead, take_option, why_not
from warmgraph.backend.cudagraphs.recording_plan import PlanWriter, line_of, parsed, plan_key, plan_of
from warmgraph.backend.cudagraphs.watching import ForwardInfo, Recording
from warmgraph.backend.reporting.report import Place, Report
from warmgraph.cache import (
    Reason,
    flush,
    journal_dir,
    open_cache,
    profile_of,
    read,
    reset_settings,
    settings,
    today,
)

KEY = "wg1" + "ab" * 32
ON_A_GPU = ForwardInfo(device=0, inference=True, inputs=2, mutated=(), static=())

positions = st.integers(0, 999)
recordings = st.builds(
    Recording,
    backward=st.booleans(),
    sizes=st.dictionaries(positions, st.integers(0, 2**40), max_size=5),
    static=st.sets(positions, max_size=5).map(lambda found: tuple(sorted(found))),
)


@given(st.lists(recordings, max_size=5))
def test_a_plan_is_read_as_it_was_told(told):
    """Every size and position; in an order that does not depend on who told it first."""
    lines = [line_of(one) for one in told]
    assert parsed(lines) == parsed(reversed(lines))
    found = parsed(lines).recorded
    assert {line_of(one) for one in found} == set(lines)
    assert all(one in told for one in found)


@given(st.lists(st.text(max_size=80) | st.from_regex(recording._SKIPPED), max_size=5))
def test_lines_that_are_none_are_passed_by(lines):
    """A plan is a help; what stands in it was written by others."""
    found = parsed([*lines, "forward recorded 0=8"])
    assert Recording(False, {0: 8}, ()) in found.recorded
    assert {line_of(one) for one in found.recorded} <= {*lines, "forward recorded 0=8"}


@pytest.mark.parametrize(
    "line",
    [
        "forward recorded 0=8;rm",
        "forward recorded 0=-8",
        "forward recorded 0=" + "9" * 40,
        "forward recorded 0=8,",
        "sideways recorded 0=8",
        "forward recorded 0=٣",
        "forward skipped <script>",
        "forward recorded 0=8\n",
    ],
)
def test_a_line_is_all_of_the_form_or_nothing(line):
    """No sign, no other digits, nothing behind it."""
    assert parsed([line]) == recording.Plan()


# -- told through a store


@pytest.fixture
def learning():
    return open_cache(settings()).learning


def writer(learning, key=KEY):
    report = Report(None, Place("f", "f.py", 1), "warmgraph")
    report._key = dataclasses.make_dataclass("Key", ["id"])(key)
    return PlanWriter(learning, report)


def test_what_several_processes_recorded_is_one_plan(learning):
    """And what one of them ran without; each told once."""
    first, second = writer(learning), writer(learning)
    for size in (8, 16, 8):
        first.recorded(Recording(False, {0: size}, (1,)))
    second.recorded(Recording(False, {0: 32}, (1,)))
    second.skipped(True, Reason.SKIP_MUTATION)
    assert flush(60)
    plan = plan_of(open_cache(settings()).learning, KEY)  # another process's
    assert [one.sizes for one in plan.recorded] == [{0: 16}, {0: 32}, {0: 8}]
    assert plan.skipped == {(True, "skip-mutation")}
    assert plan_of(learning, "wg1" + "cd" * 32) == recording.Plan()


def test_sizes_without_bound_are_told_within_one(learning):
    """A process that records every length there is does not fill the store."""
    told = writer(learning)
    for size in range(recording.MAX_TOLD + 100):
        told.recorded(Recording(False, {0: size}, ()))
    assert flush(60)
    assert len(plan_of(learning, KEY).recorded) == recording.MAX_TOLD


def test_a_graph_without_a_key_has_no_plan(learning):
    """A bypassed one: nobody would find it."""
    report = Report(None, Place("f", "f.py", 1), "warmgraph")
    PlanWriter(learning, report).recorded(Recording(False, {0: 8}, ()))
    assert flush(60)
    assert not list(open_cache(settings()).learning.profile(plan_key(KEY)).lines)


# -- read by who records ahead


def traced(function, *args, dynamic=True):
    """The graph and inputs that Dynamo hands over."""
    handed = []

    def backend(gm, inputs):
        handed.append((gm, list(inputs)))
        return gm

    torch._dynamo.reset()
    torch.compile(function, backend=backend, dynamic=dynamic)(*args)
    (found,) = handed
    return found


def scaled(x, weight):
    return (x @ weight).softmax(-1)


@pytest.fixture
def graph():
    weight = torch.nn.Parameter(torch.eye(3))
    torch._dynamo.mark_static(weight)
    return traced(scaled, torch.arange(15.0).view(5, 3) + 1, weight)


def tell(learning, *lines):
    learning.learn(plan_key(KEY), profile_of(dict.fromkeys(lines, today())), "a test")
    assert flush(60)


def test_sizes_are_taken_from_the_plan_as_far_as_the_guards_admit(learning, graph):
    """Not those of a backward, nor those that leave an input open, nor what this graph was not compiled for."""
    _, inputs = graph
    place = next(at for at, one in enumerate(inputs) if isinstance(one, torch.SymInt))
    tell(learning, *[f"forward recorded {place}={size}" for size in (4, 9, 40, 1)])
    tell(learning, "backward recorded 7=6", "forward recorded", f"forward recorded {place}=6,77=6")
    assert sizes_ahead(learning, KEY, inputs, "L['t0'] <= 12") == [{place: 4}, {place: 9}]
    assert {place: 1} not in sizes_ahead(learning, KEY, inputs, None)  # below what a dynamic size may be
    tell(learning, "forward skipped skip-rerecorded")
    assert sizes_ahead(learning, KEY, inputs, None) == []


def test_no_more_than_a_few_sizes_are_recorded_ahead(learning, graph):
    """The others are recorded when they come."""
    _, inputs = graph
    place = next(at for at, one in enumerate(inputs) if isinstance(one, torch.SymInt))
    tell(learning, *[f"forward recorded {place}={size}" for size in range(2, 60)])
    assert len(sizes_ahead(learning, KEY, inputs, None)) == ahead.MAX_SIZES


def test_scratch_inputs_have_the_sizes_asked_for_and_values_of_this_call(graph):
    """What does not move is the call's own; whole numbers are zero, since they may be indices."""
    gm, inputs = graph
    place = next(at for at, one in enumerate(inputs) if isinstance(one, torch.SymInt))
    static = next(at for at, one in enumerate(inputs) if isinstance(one, torch.nn.Parameter))
    moving = ({0, 1, 2} - {place, static}).pop()
    made = dataclasses.replace(ON_A_GPU, static=(static,), inputs=3)
    given = [5 if at == place else value for at, value in enumerate(inputs)]
    scratch = Ahead(gm, gm, inputs, made, []).scratch({place: 7}, given)
    assert scratch[place] == 7
    assert scratch[static] is given[static]
    assert scratch[moving].shape == (7, 3)
    assert scratch[moving].stride() == (3, 1)
    assert torch.equal(scratch[moving][:5], given[moving])
    assert torch.equal(scratch[moving][5:], given[moving][:2])
    (result,) = gm(*scratch)
    assert result.shape == (7, 3)
    assert not ahead._like(torch.full((2,), 9), (4,), (1,)).any()
    assert ahead._like(torch.tensor([True]), (3,), (1,)).all()
    assert ahead._like(torch.ones(0), (3,), (1,)).shape == (3,)


def test_what_fails_ahead_of_a_call_does_not_reach_it(graph):
    """There is no GPU here, so that recording fails; the call goes through, and the next does not try again."""
    gm, inputs = graph
    place = next(at for at, one in enumerate(inputs) if isinstance(one, torch.SymInt))
    calls = []

    def run(*given):
        calls.append(given)
        return gm(*given)

    loaded = Ahead(run, gm, inputs, dataclasses.replace(ON_A_GPU, inputs=3), [{place: 7}])
    given = [5 if at == place else value for at, value in enumerate(inputs)]
    for _ in range(2):
        assert loaded(*given)[0].shape == (5, 3)
    assert all(one[place] == 5 for one in calls)
    assert len(calls) == 2


def adds(x, y):
    return x + y


def asserts(x, y):
    torch._assert_async((x > 0).all())
    return x + y


def draws(x, y):
    return torch.multinomial(x, 1) + y


@pytest.mark.parametrize(
    ("function", "made", "why"),
    [
        (adds, ON_A_GPU, None),
        (adds, None, "CUDA graphs"),
        (adds, dataclasses.replace(ON_A_GPU, device=None), "CUDA graphs"),
        (adds, dataclasses.replace(ON_A_GPU, inference=False), "backward"),
        (adds, dataclasses.replace(ON_A_GPU, mutated=(1,)), "writes to its inputs"),
        (adds, dataclasses.replace(ON_A_GPU, inputs=3), "other inputs"),
        (draws, ON_A_GPU, "made-up values"),
        (asserts, ON_A_GPU, "made-up values"),
    ],
)
def test_only_graphs_that_nothing_can_happen_to_are_run_before_their_time(function, made, why):
    """For inference, on one GPU, without writing to an input, and without a value that must be as it is."""
    gm, inputs = traced(function, torch.ones(4), torch.ones(4), dynamic=False)
    found = why_not(gm, inputs, made)
    assert (found is None) if why is None else (why in found)


# -- the option


def test_the_option_is_ours_and_all_others_are_inductors():
    """Taken out before Inductor sees it, which refuses what it does not know."""
    assert take_option(None) == (False, None)
    assert take_option({"max_autotune": True}) == (False, {"max_autotune": True})
    assert take_option({"record_ahead": True}) == (True, None)
    assert take_option({"record_ahead": False, "max_autotune": True}) == (False, {"max_autotune": True})
    with pytest.raises(TypeError, match=r"record_ahead.*expected True or False"):
        take_option({"record_ahead": "yes"})


def test_on_a_cpu_the_option_does_nothing_and_leaves_the_key_alone(monkeypatch):
    """One entry for both; the skip says why nothing is recorded, ahead or otherwise."""
    monkeypatch.setenv("WARMGRAPH_STRICT", "1")
    reset_settings()
    options = {"triton.cudagraphs": True, "fallback_by_default": True}
    for extra in ({}, {"record_ahead": True}):
        torch._dynamo.reset()
        compiled = torch.compile(adds, backend="warmgraph", options=options | extra)
        assert torch.equal(compiled(torch.ones(4), torch.ones(4)), torch.full((4,), 2.0))
    assert flush(60)
    events = sorted(read(journal_dir(settings())), key=lambda event: event["time"])
    assert [event["outcome"] for event in events] == ["skipped", "miss", "skipped", "hit"]
    assert {event["reason"] for event in events if event["outcome"] == "skipped"} == {"skip-cpu"}
    assert len({event["key"] for event in events}) == 1
    torch._dynamo.reset()
    with pytest.raises(RuntimeError, match="Unexpected optimization option no_such_thing"):
        torch.compile(adds, backend="inductor", options={"no_such_thing": True})
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="Unexpected optimization option no_such_thing"):
        torch.compile(adds, backend="warmgraph", options={"record_ahead": True, "no_such_thing": True})(
            torch.ones(4), torch.ones(4)
        )
