"""Profiles between processes: what varied once is dynamic at the first call, and nobody's own settings are overruled.

`torch._dynamo.reset()` stands for a new process here: Dynamo and our profiles forget all, the store does not.
`tests/remote/test_profiles.py` has real ones.
"""

import itertools
import logging

import pytest
import torch
from torch._dynamo import pgo
from warmgraph.backend import engine
from warmgraph.backend.pgo import profiles
from warmgraph.backend.pgo.profiles import Form, _form, _joined, _parsed
from warmgraph.backend.reporting import fail_open as fallback
from warmgraph.backend.torch_api.frames.dynamic_sizes import auto_dynamic
from warmgraph.cache import DiskStore, profile_of, settings, store_root, today
from warmgraph.cache.profiles.profiles import profile_in

import warmgraph


def program():
    """A function of its own for each test, with the same code: as another process would have it."""

    def f(x, y):
        return x.sort().values, y.sort().values

    return f


@pytest.fixture(autouse=True)
def fresh():
    warmgraph.configure(strict=True)
    torch._dynamo.reset()
    yield
    assert warmgraph.flush(60)
    torch._dynamo.reset()


@pytest.fixture
def run():
    """Runs calls in a new process, so to speak: (hits, misses), each result checked against eager."""

    def calls(*sizes, function=None, mark=None, arguments=None, **options):
        function = function or program()
        arguments = arguments or tensors
        torch._dynamo.reset()
        compiled = torch.compile(function, **({"backend": "warmgraph"} | options))
        before = warmgraph.stats()
        for size in sizes:
            values = arguments(size)
            if mark is not None:
                mark(values[0])
            for got, wanted in zip(compiled(*values), function(*values), strict=True):
                assert torch.equal(got, wanted) if isinstance(got, torch.Tensor) else got == wanted
        assert warmgraph.flush(60)
        now = warmgraph.stats()
        assert now["failures"] == before["failures"] and now["bypasses"] == before["bypasses"]
        return now["hits"] - before["hits"], now["misses"] - before["misses"]

    return calls


def tensors(size):
    rows = size[0] if isinstance(size, tuple) else size
    columns = size[1] if isinstance(size, tuple) else 6
    return torch.arange(float(rows * columns)).reshape(rows, columns).flip(0), torch.arange(3.0)


def kept():
    """The lines of all profiles in the folder."""
    store = DiskStore(store_root(settings()), readonly=True)
    entries = [store.read_entry(file.key, file.variant)[0] for file in store.scan()]
    found = [profile_in(entry).lines for entry in entries if entry.facts.get("kind") == "profile"]
    return sorted({line.partition(" ")[2] for line in itertools.chain(*found)})


def test_what_varied_once_is_dynamic_at_the_first_call_elsewhere(run):
    """A, B, C here; B, then D there: one graph, and it is there already."""
    assert run(5, 9, 12) == (0, 2)
    assert kept() == ["[?,6] in L['x']"]
    assert run(9, 30) == (1, 0)
    assert run(30, 5) == (1, 0)


def test_without_profiles_the_first_call_is_static_again(run):
    """What the switch switches off."""
    warmgraph.configure(pgo=False)
    assert run(5, 9, 12) == (0, 2)
    assert kept() == []
    assert run(30, 9) == (1, 1)


def test_a_profile_is_for_inputs_whose_other_sizes_are_the_same(run):
    """Another width may be another program, which never varied: it stays static until it does."""
    run(5, 9)
    assert run((5, 7)) == (0, 1)
    assert kept() == ["[?,6] in L['x']"]
    assert run((8, 7)) == (0, 1), "static, for another size"


def test_what_did_not_vary_in_one_process_is_static_in_each(run):
    """Two jobs with a batch size each do not make each other dynamic."""
    for size in (5, 9):
        assert run(size) == (0, 1)
    assert kept() == []
    assert run(9) == (1, 0)


def test_a_profile_that_is_wider_grows_further(run):
    """What varies beyond what was known is noted, and both are known from then on."""
    run(5, 9)
    assert run(5, (5, 8), (7, 9)) == (1, 1)
    assert kept() == ["[?,6] in L['x']", "[?,?] in L['x']"]
    assert run((11, 13)) == (1, 0)


@pytest.mark.parametrize(
    "wish", [{"dynamic": False}, {"mark": lambda x: torch._dynamo.mark_static(x)}, {"config": True}]
)
def test_what_the_user_wants_static_stays_static(wish, run):
    """dynamic=False, mark_static, automatic_dynamic_shapes=False: each size is a graph."""
    run(5, 9)
    config = {"automatic_dynamic_shapes": False} if wish.pop("config", False) else {}
    with torch._dynamo.config.patch(config):
        assert run(20, 21, **wish) == (0, 2)


@pytest.mark.parametrize(
    "off",
    [
        torch._dynamo.config.patch(automatic_dynamic_local_pgo=False),
        torch._dynamo.config.patch(automatic_dynamic_remote_pgo=False),
    ],
)
def test_who_refuses_torchs_profiles_gets_none(off, run):
    """Neither read nor written."""
    run(5, 9)
    with off:
        assert run(20) == (0, 1)
        run((20, 8), (20, 9))
    assert kept() == ["[?,6] in L['x']"]


def test_a_job_id_keeps_a_jobs_profile_to_itself(run):
    """The user's own word on which runs belong together."""
    with torch.compiler.config.patch(job_id="one"), torch._dynamo.config.patch(automatic_dynamic_local_pgo=True):
        run(5, 9)
    assert run(20) == (0, 1)
    with torch.compiler.config.patch(job_id="one"):
        assert run(20)[1] == 0


def test_other_backends_frames_are_left_alone(run):
    """Neither learnt from, nor made dynamic."""
    run(5, 9, backend="eager")
    assert kept() == []
    run(5, 9)
    torch._dynamo.reset()
    torch.compile(program(), backend="eager")(*tensors(20))
    (state,) = pgo.get_code_state().values()
    assert state.automatic_dynamic["L['x']"].size == (20, 6)


@pytest.mark.parametrize(("mode", "first", "lines"), [("readonly", (1, 0), 1), ("refresh", (0, 1), 2)])
def test_profiles_follow_the_mode(mode, first, lines, run):
    """readonly: looked up, never written. refresh: never looked up, always written."""
    run(5, 9)
    warmgraph.configure(mode=mode)
    assert run(9) == first
    run((5, 20), (5, 21))
    assert len(kept()) == lines


def test_numbers_that_vary_are_known_by_their_kind(run):
    """An int that varies is a symbol at the first call, a float a tensor."""

    def scaled(x, n, scale):
        return (x * scale).sort().values, x[:n].sort().values

    def arguments(size):
        return torch.arange(10.0), size, size / 7

    assert run(4, 6, function=scaled, arguments=arguments) == (0, 2)
    assert kept() == ["float in L['scale']", "int in L['n']"]
    assert run(9, function=scaled, arguments=arguments) == (1, 0)


def test_what_follows_a_graph_break_has_a_profile_too(run):
    """Dynamo compiles the rest of a function as a function of its own."""

    def broken(x, y):
        z = x.sort().values
        torch._dynamo.graph_break()
        return z.flip(0).sort().values, y.sort().values

    assert run(5, 9, function=broken) == (0, 4)
    assert run(30, function=broken) == (2, 0)


def test_a_hostile_profile_costs_nothing_but_time(run):
    """Lines that are none, that fit nothing, or that say too much: results are right."""
    run(5, 9)
    store = DiskStore(store_root(settings()), readonly=True)
    key = next(file.key for file in store.scan() if file.variant.startswith("profile-"))
    code = "0" * 16
    good = next(line for line in _lines(store, key))
    hostile = [
        good.replace("[?,6]", "[?,?]"),
        good.replace("[?,6]", "[?,?,?]"),
        good.replace("[?,6]", "[5,6] [?,?]"),
        good.replace("[?,6]", "int"),
        good.replace("L['x']", "__import__('os').abort()"),
        f"{code} [{','.join('?' * 60)}] in L['x']",
        "nonsense",
        good.replace("[?,6]", f"[{'9' * 19},?]"),
    ]
    learning = warmgraph_backend()._engine_for(settings()).cache.learning
    assert learning.learn(key, profile_of(dict.fromkeys(hostile, today())), "f")
    assert warmgraph.flush(60)
    hits, misses = run((4, 3), (8, 3))
    assert hits + misses == 1


def _lines(store, key):
    for _, entry in ((file, store.read_entry(file.key, file.variant)[0]) for file in store.scan() if file.key == key):
        yield from profile_in(entry).lines


def warmgraph_backend():
    from warmgraph.backend import warmgraph as backend

    return backend


def test_a_fault_in_profiles_stops_no_compile(run, monkeypatch, caplog):
    """Dynamo goes on as it would without; strict raises."""

    def broken(*args):
        raise RuntimeError("no profiles today")

    monkeypatch.setattr(profiles, "frame_key", broken)
    monkeypatch.setattr(fallback, "_warned", set())
    with pytest.raises(Exception, match="no profiles today"):
        run(5)
    warmgraph.configure(strict=False)
    with caplog.at_level(logging.WARNING, "warmgraph"):
        assert run(5, 9, 12) == (0, 2)
    assert "profiles are not used" in caplog.text


def test_of_a_compile_that_failed_nothing_is_told(run, monkeypatch):
    """It may be the dynamic graph that does not compile; elsewhere each size may have been fine by itself."""

    def failing(*args, **named):
        raise RuntimeError("dynamic graphs do not compile")

    compiled = torch.compile(program(), backend="warmgraph")
    compiled(*tensors(5))
    with monkeypatch.context() as patch:
        patch.setattr(engine.Engine, "compile", failing)
        with pytest.raises(Exception, match="dynamic graphs do not compile"):
            compiled(*tensors(9))
    torch.compile(lambda x: x.sort().values, backend="warmgraph")(torch.ones(3))  # another frame, which succeeds
    assert warmgraph.flush(60)
    assert kept() == []


# -- forms, as Dynamo's own entries have them


def entry_of(size, stride):
    return pgo.FrameStateSizeEntry.make_tensor(tuple(size), tuple(stride))


def join(*entries):
    """What Dynamo knows when it has seen `entries`."""
    found = pgo.FrameStateSizeEntry()
    for entry in entries:
        found |= entry
    return found


STRIDE = pgo.InferStride(1)
CASES = {
    "[?,3]": [entry_of((2, 3), (STRIDE, 1)), entry_of((4, 3), (STRIDE, 1))],
    "[?,?]": [entry_of((2, 3), (STRIDE, 1)), entry_of((4, 5), (STRIDE, 1))],
    "[2,3] [?,1]": [entry_of((2, 3), (STRIDE, 1)), entry_of((2, 3), (9, 1))],
    "[?,?,?]": [entry_of((2, 3), (STRIDE, 1)), entry_of((4, 5, 6), (STRIDE, pgo.InferStride(2), 1))],
    "int": [pgo.FrameStateSizeEntry.make_scalar(3), pgo.FrameStateSizeEntry.make_scalar(4)],
    "float": [pgo.FrameStateSizeEntry.make_scalar(3.0), pgo.FrameStateSizeEntry.make_scalar(4.5)],
}


@pytest.mark.parametrize("text", CASES)
def test_a_form_makes_elsewhere_what_it_was_made_from(text):
    """The last of several calls, seen first elsewhere, is compiled as it was here."""
    last, known = CASES[text][-1], join(*CASES[text])
    form = _form(last, known)
    assert str(form) == text
    ((_, forms),) = _parsed([f"{'0' * 16} {form} in L['x']"]).items()
    assert forms == [form]
    expected = _joined(forms, last)
    assert expected.scalar is auto_dynamic
    if isinstance(last.size, tuple):
        dims = range(len(last.size))
        assert [expected.is_size_dynamic(dim) for dim in dims] == [known.is_size_dynamic(dim) for dim in dims]
        assert [expected.is_stride_dynamic(dim) for dim in dims] == [known.is_stride_dynamic(dim) for dim in dims]
    expected |= last
    assert not getattr(expected, "excluded_sizes", None), "nothing was compiled here that could be excluded"


def test_nothing_dynamic_has_no_form():
    """A static input, and one without dimensions."""
    static = entry_of((2, 3), (STRIDE, 1))
    assert _form(static, join(static, static)) is None
    assert _form(entry_of((), ()), join(entry_of((), ()))) is None
    assert _form(pgo.FrameStateSizeEntry.make_scalar(3), pgo.FrameStateSizeEntry.make_scalar(3)) is None


@pytest.mark.parametrize(
    ("form", "entry"),
    [
        (Form("tensor", ("?", "3")), entry_of((2, 4), (STRIDE, 1))),
        (Form("tensor", ("?",)), entry_of((2, 4), (STRIDE, 1))),
        (Form("tensor", ("2", "3"), ("?", "1")), entry_of((2, 3), (1, 2))),
        (Form("tensor", ("?", "3")), pgo.FrameStateSizeEntry.make_scalar(3)),
        (Form("int"), pgo.FrameStateSizeEntry.make_scalar(3.0)),
        (Form("float"), pgo.FrameStateSizeEntry.make_scalar(3)),
        (Form("int"), entry_of((2, 4), (STRIDE, 1))),
    ],
)
def test_a_form_fits_only_what_looks_like_it(form, entry):
    """Other widths, ranks, layouts and kinds."""
    assert _joined([form], entry) is None


def test_several_forms_are_joined():
    """Both varied somewhere: both vary here."""
    forms = [Form("tensor", ("?", "4")), Form("tensor", ("2", "?"))]
    joined = _joined(forms, entry_of((2, 4), (STRIDE, 1)))
    assert joined.size == (auto_dynamic, auto_dynamic)
    assert joined.stride == (STRIDE, 1)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "0" * 16 + " [] in L['x']",
        "0" * 16 + " [?,] in x",
        "0" * 16 + " [?;3] in x",
        "0" * 16 + " [?] [] in x",
        "0" * 16 + " bool in x",
        "0" * 16 + " [?]",
        "z" * 16 + " [?] in x",
        "0" * 16 + " [" + ",".join("?" * 65) + "] in x",
        "0" * 16 + " [\u0665] in x",
    ],
)
def test_what_is_no_line_is_passed_by(line):
    """Reading is total: it comes from outside."""
    assert _parsed([line]) == {}


def test_nothing_is_learnt_of_inputs_whose_geometry_the_graph_changes():
    """Dynamo may fail on guards of its own when such an input is dynamic from its first call on."""

    def f(x):
        torch.ops.aten.t_.default(x)
        return x * 2

    for _ in range(2):  # as two processes
        torch._dynamo.reset()
        compiled = torch.compile(f, backend="warmgraph")
        square = torch.arange(9.0).view(3, 3)
        for x in (square.clone(), square.clone().t()):
            wanted = x.t() * 2
            assert torch.equal(compiled(x), wanted)
        assert warmgraph.flush(60)
        assert kept() == []
