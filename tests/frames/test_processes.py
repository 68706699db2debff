"""Frames between processes that differ in what none can change of itself: hash seed, devices, where a file lies."""

import time

import pytest

HEAD = """
import gc, json, sys, traceback, types, weakref
import torch, warmgraph
torch._inductor.config.fallback_by_default = True
warmgraph.configure(frames=True)
"""

# Code that iterates over the set to which it is bound, as a method that Python wrote.
ORDER = (
    HEAD
    + """
def contains(self, item):
    return [float(ord(text)) for text in self].index(float(ord(item))) + 1.0
contains.__name__ = "__contains__"
has = types.MethodType(contains, frozenset("abcde"))
def f(x):
    return x * has("c")
got = torch.compile(f, backend="warmgraph")(torch.ones(2)).tolist()
print(json.dumps([got, f(torch.ones(2)).tolist(), warmgraph.stats()["restored"]]))
"""
)


def test_a_set_that_code_iterates_over_counts_in_its_order(run_python):
    """Whatever the method is called through which it is reached."""
    for seed in (2, 5, 11):
        got, wanted, _ = run_python(ORDER, PYTHONHASHSEED=seed)
        assert got == wanted, seed


SEED = (
    HEAD
    + """
def f(x):
    return x * ("abc".__hash__() % 1000), str({"a", "b", "c"})
got, wanted = torch.compile(f, backend="warmgraph")(torch.ones(2)), f(torch.ones(2))
print(json.dumps([got[0].tolist(), got[1], wanted[0].tolist(), wanted[1]]))
"""
)


def test_hashes_and_texts_of_sets_are_those_of_this_process(run_python):
    """Both differ from seed to seed."""
    for seed in (2, 5, 11):
        *got, number, text = run_python(SEED, PYTHONHASHSEED=seed)
        assert got == [number, text], seed


AVAILABLE = (
    HEAD
    + """
if sys.argv[1] == "there":
    torch.cuda.device_count = lambda: 1  # what NVML says; a build for CPUs cannot pretend more
def f(x):
    return x * 2 if torch.cuda.is_available() else x * 3
got = torch.compile(f, backend="warmgraph")(torch.ones(2)).tolist()
print(json.dumps([got, f(torch.ones(2)).tolist(), warmgraph.stats()["restored"]]))
"""
)


def test_a_frame_recorded_without_a_gpu_is_not_restored_beside_one(run_python):
    """Dynamo folds in whether one is there, under no guard."""
    for way, restored in (("none", 0), ("none", 1), ("there", 0)):
        got, wanted, found = run_python(AVAILABLE, way, WARMGRAPH_STRICT="0")
        assert (got, found) == (wanted, restored), way


KEPT = (
    HEAD
    + """
def f(x):
    return x * 2 + 1
gc.disable()
x = torch.ones(3)
gone = weakref.ref(x)
torch.compile(f, backend="warmgraph")(x)
del x
print(json.dumps([gone() is None, warmgraph.stats()["traced"]]))
"""
)


def test_who_records_keeps_no_input_alive(run_python):
    """Not until the next pass of the garbage collector, either: inputs are large."""
    assert run_python(KEPT) == [True, 1]


LEFT = (
    HEAD
    + """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
    def forward(self, x):
        return torch.relu(self.linear(x))
model, x = Model(), torch.ones(3, 4)
compiled = torch.compile(model, backend="warmgraph")
with torch.no_grad():
    compiled(x)
gone = [weakref.ref(x), weakref.ref(model)]
del x
gc.collect()
without_input = gone[0]() is None
del compiled, model
torch._dynamo.reset()
gc.collect()
print(json.dumps([without_input, gone[1]() is None, warmgraph.stats()["restored"]]))
"""
)


def test_who_restores_keeps_no_input_and_no_model_alive(run_python):
    """torch keeps what builds guards for as long as a class that is guarded by identity."""
    for restored in (0, 1):
        assert run_python(LEFT) == [True, True, restored]


RAISES = """
import torch
def f(x):
    y = x * 2
    torch._dynamo.graph_break()
    raise ValueError(float(y.sum()))
"""

PLACE = (
    HEAD
    + """
sys.path.insert(0, sys.argv[1])
import mine
try:
    torch.compile(mine.f, backend="warmgraph")(torch.ones(2))
except ValueError as error:
    last = traceback.extract_tb(error.__traceback__)[-1]
    print(json.dumps([last.filename, last.lineno, last.line, warmgraph.stats()["restored"]]))
"""
)


def test_a_traceback_names_the_file_and_the_line_of_this_process(run_python, tmp_path):
    """Whoever recorded the frame had its file elsewhere."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(RAISES)
    run_python(PLACE, tmp_path / "one")
    file, line, text, restored = run_python(PLACE, tmp_path / "other")
    assert (file, line, text) == (str(tmp_path / "other" / "mine.py"), 6, "raise ValueError(float(y.sum()))")
    assert restored > 0


LOGS = (
    HEAD
    + """
torch.compile(lambda x: x * 2, backend="warmgraph")(torch.ones(2))
print(json.dumps([warmgraph.stats()["restored"], torch._dynamo.utils.counters["stats"]["calls_captured"]]))
"""
)


def test_who_asks_torch_to_log_what_it_traces_gets_a_trace(run_python):
    """A restored frame has nothing to log."""
    assert [run_python(LOGS), run_python(LOGS), run_python(LOGS, TORCH_LOGS="graph_code")] == [[0, 1], [1, 0], [0, 1]]
    assert run_python(LOGS, TORCH_LOGS="recompiles") == [1, 0]  # of guards, which a restored frame has
    assert run_python(LOGS, TORCH_LOGS="recompiles,graph_breaks") == [0, 1]


REFUSED = (
    HEAD
    + """
from warmgraph.backend.frames import frames as room
listened, watching = [], room.watching
def counted(seen):
    if seen is not None:
        listened.append(seen)
    return watching(seen)
room.watching = counted
def decorated(function):
    def wrapper(x):
        return function(x)
    return wrapper
def constant(x): return x * (3 + hash("a") % 1)
def doubles(x): return x * 2
for function in {"both": (constant, doubles), "one": (constant,)}[sys.argv[1]]:
    torch.compile(decorated(function), backend="warmgraph")(torch.ones(2))
found = warmgraph.stats()
print(json.dumps([len(listened), found["traced"], found["restored"]]))
"""
)


def test_a_frame_that_was_refused_is_not_listened_to_again(run_python):
    """On Python 3.11 a trace that is listened to takes nearly twice as long. Once may be of the moment."""
    assert [run_python(REFUSED, "one") for _ in range(3)] == [[1, 1, 0], [1, 1, 0], [0, 1, 0]]


def test_nobody_listens_where_nothing_is_written(run_python):
    """A host that only reads; it restores what others recorded."""
    assert run_python(REFUSED, "one", WARMGRAPH_MODE="readonly") == [0, 1, 0]
    assert run_python(REFUSED, "both")[1:] == [2, 0]
    assert run_python(REFUSED, "both", WARMGRAPH_MODE="readonly")[2] == 1


def test_a_refusal_says_nothing_of_other_functions_with_the_same_decorator(run_python):
    """One code for both: one asks for a hash, which differs in each process, and the other does not."""
    assert [run_python(REFUSED, "both")[1:] for _ in range(3)] == [[2, 0], [1, 1], [1, 1]]


WITHIN = (
    HEAD
    + """
import pathlib
pathlib.Path("pkg").mkdir(exist_ok=True)
pathlib.Path("pkg/__init__.py").write_text("")
pathlib.Path("pkg/sub.py").write_text("import sys, torch; scale = float(sys.argv[1]); T = torch.full((2,), scale)")
sys.path.insert(0, "")
import pkg.sub
def text(x): return x * float("{0.sub.scale}".format(pkg))
def tensor(x): return x * pkg.sub.T
got = [torch.compile(f, backend="warmgraph")(torch.ones(2)).tolist() for f in (text, tensor)]
print(json.dumps([got, warmgraph.stats()["restored"]]))
"""
)


def test_a_value_in_a_module_of_a_package(run_python):
    """Dynamo formats at once what it reads there; a tensor is an input of the graph."""
    for scale, restored in ((2.0, 0), (2.0, 2), (3.0, 1)):
        assert run_python(WITHIN, scale) == [[[scale, scale]] * 2, restored]


LAZY = (
    HEAD
    + """
class Lazy:
    def __getattr__(self, name):
        raise RuntimeError(name)
table = {Lazy(): 1.0, "a": 2.0}
def f(x): return x * table["a"]
print(json.dumps(torch.compile(f, backend="warmgraph")(torch.ones(2)).tolist()))
"""
)


def test_no_code_of_the_users_runs_for_what_it_is_not_asked(run_python):
    """An object that connects to a database when its attributes are read, say."""
    assert [run_python(LAZY, WARMGRAPH_STRICT="1") for _ in range(2)] == [[2.0, 2.0]] * 2


LIBRARY = (
    HEAD
    + """
from torch._dynamo import trace_rules
sys.path.insert(0, sys.argv[1])
import wglibrary
trace_rules.add_module_init_func("wglibrary", lambda: wglibrary.doubled(torch.empty(1)))
def f(x): return wglibrary.doubled(x) + 1
print(json.dumps([torch.compile(f, backend="warmgraph")(torch.ones(2)).tolist(), warmgraph.stats()["restored"]]))
"""
)


def test_a_library_that_dynamo_calls_when_it_meets_it(run_python, tmp_path):
    """As einops from 0.8.2 on: what the call leaves is there before frames are compared, and its code is no frame's."""
    library = "KINDS = {}\ndef doubled(x):\n    KINDS[type(x).__name__] = 2\n    return x * KINDS['Tensor']\n"
    (tmp_path / "wglibrary.py").write_text(library)
    for restored in (0, 1):
        assert run_python(LIBRARY, tmp_path, WARMGRAPH_STRICT="1") == [[3.0, 3.0], restored]


COUNTED = (
    HEAD
    + """
import collections.abc
if sys.argv[1] == "jinja2":
    import jinja2
if sys.argv[1] == "late":
    late = collections.abc.Mapping.register(type("Late", (), {}))
def f(x, table): return x * (2 if isinstance(table, collections.abc.Mapping) else 3)
print(json.dumps([torch.compile(f, backend="warmgraph")(torch.ones(2), {}).tolist(), warmgraph.stats()["restored"]]))
"""
)


def test_what_torch_imports_to_compile_counts_as_nothing(run_python):
    """A process that compiles has jinja2, which registers mappings of its own; one that loads has not."""
    for way, restored in (("jinja2", 0), ("plain", 1), ("late", 0)):
        assert run_python(COUNTED, way) == [[2.0, 2.0], restored], way


WRAPPING = """
def wrapped(function):
    def wrapper(x): return function(x)
    return wrapper
"""
ASSUMED = (
    HEAD
    + """
sys.path.append(sys.argv[1])
from wgwrapping import wrapped
@torch._dynamo.assume_constant_result
def wgflag(): return True
def one(x): return x + 1 if wgflag() else x
def two(x): return x * 3 if wgflag() else x
inner = wrapped(two)
def outer(x): return inner(x) - 1
found = [torch.compile(f, backend="warmgraph")(torch.ones(2)).tolist() for f in (wrapped(one), outer)]
print(json.dumps([found, warmgraph.stats()["restored"]]))
"""
)


def test_what_an_assumed_constant_leaves_in_a_module_counts_as_nothing(run_python, tmp_path):
    """Dynamo puts it among the globals of the frame; who restores that frame does not, and others reach the module."""
    (tmp_path / "wgwrapping.py").write_text(WRAPPING)
    for restored in (0, 2):
        assert run_python(ASSUMED, tmp_path) == [[[2.0, 2.0], [2.0, 2.0]], restored]


MAPPINGS = """
from collections.abc import Mapping
class Always: pass
Mapping.register(Always)
@Mapping.register
class Decorated: pass
class Sometimes: pass
def later():
    Mapping.register(Sometimes)
"""
WITH_PACKAGE = (
    HEAD
    + """
import collections.abc
sys.path.append(sys.argv[1])
if sys.argv[2] != "plain":
    import wgmappings
if sys.argv[2] == "later":
    wgmappings.later()
def f(x, table): return x * (2 if isinstance(table, collections.abc.Mapping) else 3)
print(json.dumps([torch.compile(f, backend="warmgraph")(torch.ones(2), {}).tolist(), warmgraph.stats()["restored"]]))
"""
)


def test_a_package_that_registers_a_class_where_it_makes_it_counts_as_nothing(run_python, tmp_path):
    """No process has the class and another answer; what it registers later is told from that."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    (packages / "wgmappings.py").write_text(MAPPINGS)
    for way, restored in (("loaded", 0), ("plain", 1), ("later", 0)):
        assert run_python(WITH_PACKAGE, packages, way) == [[2.0, 2.0], restored], way


REGISTERED = (
    HEAD
    + """
import abc, collections.abc, jinja2, networkx
class Routed(abc.ABC): pass
if sys.argv[1] == "registered":
    Routed.register(networkx.DiGraph)
    collections.abc.Sequence.register(networkx.DiGraph)
def own(x, graph): return x.t() if isinstance(graph, Routed) else x.view(-1)
def known(x, graph): return x.t() if isinstance(graph, collections.abc.Sequence) else x.view(-1)
graph, x = networkx.DiGraph(), torch.ones(2, 3)
got = [list(torch.compile(f, backend="warmgraph")(x, graph).shape) for f in (own, known)]
print(json.dumps([got, [list(f(x, graph).shape) for f in (own, known)], warmgraph.stats()["restored"]]))
"""
)


def test_what_a_user_registers_of_such_a_library_counts(run_python):
    for way, found in (("plain", 0), ("plain", 2), ("registered", 0)):
        got, wanted, restored = run_python(REGISTERED, way)
        assert (got, restored) == (wanted, found), way


NEAREST = (
    HEAD
    + """
from warmgraph.cache import journal_dir, read, settings
import os
def scaled(x, kind, factor): return x * {"a": 2.0, "b": 3.0}[kind] * len(factor)
torch.compile(scaled, backend="warmgraph")(torch.ones(2), *sys.argv[1:])
warmgraph.flush()
events = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
print(json.dumps([event["detail"] for event in events if event["outcome"] == "traced"]))
"""
)


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_of_several_records_the_nearest_is_told(run_python, order):
    """Whichever is tried first: one of the same kind and another factor, not one of another kind."""
    for kind in order:
        run_python(NEAREST, kind, {"a": "one", "b": "three"}[kind])
    [told] = run_python(NEAREST, "a", "seventy")
    assert "factor" in told
    assert "kind" not in told


HOOKING = """
import collections.abc
held = {"name": %r}
def hook(cls, kind):
    return True if cls is collections.abc.MutableMapping and kind.__name__ == held["name"] else NotImplemented
def install(): collections.abc.MutableMapping.__subclasshook__ = classmethod(hook)
install()
"""
WITH_HOOK = (
    HEAD
    + """
import collections.abc
sys.path.append(sys.argv[1])
if sys.argv[2] != "plain":
    import frozendict
class Odd: pass
def f(x, one): return x * (2 if isinstance(one, collections.abc.MutableMapping) else 3)
print(json.dumps([torch.compile(f, backend="warmgraph")(torch.ones(2), Odd()).tolist(), warmgraph.stats()["restored"]]))
"""
)


def test_what_a_package_makes_abstract_classes_answer_is_compared(run_python, tmp_path):
    """frozendict, which einx imports, answers for each mapping."""
    packages = tmp_path / "site-packages"
    (folder := packages / "frozendict").mkdir(parents=True)
    (installed := packages / "frozendict-1.0.dist-info").mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: frozendict\nVersion: 1.0\n")
    file = folder / "__init__.py"
    file.write_text(HOOKING % "Odd")
    time.sleep(1.5)  # a process says nothing of files that are as young as it is
    for way, found in (("hooked", [[2.0, 2.0], 0]), ("hooked", [[2.0, 2.0], 1]), ("plain", [[3.0, 3.0], 0])):
        assert run_python(WITH_HOOK, packages, way) == found
    file.write_text(HOOKING % "Even")
    time.sleep(1.5)
    assert run_python(WITH_HOOK, packages, "hooked") == [[3.0, 3.0], 0]


NUMBERED = (
    HEAD
    + """
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1
    @staticmethod
    def backward(ctx, g):
        return g * 2
def broken(x):
    with torch.no_grad():
        y = x.sin()
        torch._dynamo.graph_break()
        return y + x.cos()
def applied(x):
    return Doubled.apply(x) + 1
def generated(x):
    return traced(x) - 1
traced = torch.fx.symbolic_trace(torch.nn.Linear(2, 2).requires_grad_(False))
x = torch.ones(2, requires_grad=True)
got = [torch.compile(f, backend="warmgraph")(x).tolist() for f in (broken, applied)]
got.append(torch.compile(generated, backend="warmgraph")(x).shape)
counts = warmgraph.stats()
print(json.dumps([got, counts["restored"], counts["traced"]]))
"""
)


def test_what_torch_numbers_in_each_process_is_no_difference(run_python, tmp_path):
    """Variables of resume functions, generated code, functions of one's own: also where a restore moved the numbers."""
    cold = run_python(NUMBERED)
    again = run_python(NUMBERED, WARMGRAPH_VERIFY="1")
    warm = run_python(NUMBERED)
    assert again[0] == warm[0] == cold[0]
    told = "".join(path.read_text() for path in (tmp_path / "store" / "journal").iterdir())
    assert '"outcome":"verified"' in told
    assert '"reason":"differs"' not in told, told
    assert (warm[1], warm[2]) == (cold[2], 0), warm


BACKWARD_WITHIN = (
    HEAD
    + """
m = torch.nn.Linear(8, 4)
for parameter in m.parameters():
    torch.nn.init.ones_(parameter)
x, y = torch.ones(6, 8), torch.arange(6) % 4
@torch.compile(backend="warmgraph")
def step(x, y):
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="warmgraph")):  # the graph breaks here
        loss = torch.nn.functional.cross_entropy(m(x), y)
        loss.backward()
        return loss
step(x, y)
print(json.dumps([m.weight.grad.tolist(), warmgraph.stats()["restored"]]))
"""
)


def test_compiled_autograd_within_a_restored_frame(run_python):
    """torch imports, for the first symbol of a process, what it cannot import while a compiled function runs."""
    gradients, none = run_python(BACKWARD_WITHIN)
    assert none == 0
    again, restored = run_python(BACKWARD_WITHIN)
    assert restored > 0
    assert again == gradients
