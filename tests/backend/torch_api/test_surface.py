"""What is relied on in torch is looked at first, and replaced in a way that can be taken back."""

import inspect
import os
import threading

import pytest
from warmgraph.backend import frames_unsupported
from warmgraph.backend.torch_api import patches, surface

SNAPSHOT = """
from warmgraph.backend import frames_unsupported
import importlib, inspect, json, logging, sys
import torch, torch._inductor.cudagraph_trees, torch._inductor.scheduler, torch._inductor.triton_bundler
import torch._inductor.runtime.triton_heuristics, torch._inductor.compile_fx, torch._functorch.aot_autograd
said = []
handler = logging.Handler()
handler.emit = lambda record: said.append(record.getMessage())
logging.getLogger("warmgraph").addHandler(handler)

def held(patches):
    found = {}
    for name, patch in patches.PATCHES.items():
        if patch.needed_for == "restored frames" and frames_unsupported() is not None:
            continue
        if patch.elsewhere:
            owner, last = patches._place(patch)
        else:
            owner = importlib.import_module(patch.module)
            *parts, last = patch.path.split(".")
            for part in parts:
                owner = owner[part] if isinstance(owner, dict) else getattr(owner, part)
        if isinstance(owner, dict):
            entry = owner[last]
            found[name] = entry.env_value_force, entry.env_value_default
        elif patch.parameters is None:
            value = getattr(owner, last)
            methods = getattr(value, "__dict__", {}).items()
            found[name] = {n: v for n, v in methods if callable(v)} if isinstance(value, type) else value
        else:
            found[name] = inspect.getattr_static(owner, last)
    return found
"""

UNINSTALLED = (
    SNAPSHOT
    + """
from warmgraph.backend.torch_api import patches
torch.compile(lambda x: x + 1)(torch.ones(2))  # Dynamo wraps some functions of torch's itself
before = held(patches)
import warmgraph, warmgraph.backend
untouched = held(patches) == before and patches.installed() == []
warmgraph.backend.adopt(torch, lambda: None)

def step(x, w):
    return (x @ w).relu().sum()

x, w = torch.ones(3, 4), torch.ones(4, 5, requires_grad=True)
for _ in range(2):
    torch._dynamo.reset()
    warmgraph.flush()
    torch.compile(step, backend="warmgraph")(x, w).backward()
from warmgraph.backend.cudagraphs import autotune_choices, listening
from warmgraph.backend.verify import isolated
with isolated._unseen():
    pass
listening.hear_skips()
autotune_choices.hear_bundling()
installed = patches.installed()
patches.uninstall()
torch._dynamo.reset()
value = torch.compile(step)(x, w)
value.backward()
print(json.dumps({
    "untouched": untouched,
    "installed": installed,
    "changed": [name for name, was in held(patches).items() if was != before[name]],
    "left": patches.installed(),
    "value": value.item(),
    "stats": warmgraph.stats(),
}))
"""
)


def test_torch_is_as_it_was_after_uninstall(run_python):
    """Nothing is replaced on import; everything that was is the original again, and plain `torch.compile` works."""
    found = run_python(UNINSTALLED)
    assert found["untouched"]
    assert {"try_load", "save", "kernels", "post_compile", "sizes", "skips", "inductor by name", "seeds"} <= set(
        found["installed"]
    )
    assert found["changed"] == []
    assert found["left"] == []
    assert found["value"] == 60.0
    assert (found["stats"]["misses"], found["stats"]["hits"]) == (1, 1)


def test_this_torch_has_all_that_is_needed():
    assert differences() == []


def differences():
    """But for what frames need, where they are traced."""
    is_served = frames_unsupported() is None
    return [one for one in surface.differences(everything=True) if is_served or one[1] != "restored frames"]


# What is planted, and what the one line must name.
PLANTED = {
    "a function renamed": (
        "import torch._guards as g; g.StorageOverlap2 = vars(g).pop('StorageOverlap')",
        "StorageOverlap",
    ),
    "a method gone": (
        "from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache; del AOTAutogradCache.save",
        "AOTAutogradCache.save",
    ),
    "a signature changed": (
        "from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache\\n"
        "AOTAutogradCache.save = staticmethod(lambda entry, key, *, remote: None)",
        "AOTAutogradCache.save",
    ),
    "a field gone": (
        "from torch._inductor.output_code import CompiledFxGraph; del CompiledFxGraph.__annotations__['source_code']",
        "source_code",
    ),
    "a function that is a property": (
        "from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache\\n"
        "AOTAutogradCache.save = property(lambda self: None)",
        "AOTAutogradCache.save",
    ),
    "a function of C++ gone": ("del torch._C._get_sm_carveout_experimental", "_get_sm_carveout_experimental"),
}

ONE_LINE = (
    SNAPSHOT
    + """
import warmgraph.backend, warmgraph
if sys.argv[1] == "unknown":
    backend = warmgraph.backend.warmgraph
    calls = [lambda k=k: backend(gm, [torch.ones(2)], brand_new=k)(torch.ones(2))[0].tolist() for k in (1, 2)]
    gm = torch.fx.symbolic_trace(lambda x: (x * 2,))
else:
    del torch._C._get_sm_carveout_experimental
    names = "warmgraph", "warmgraph_cudagraphs"
    if sys.argv[1] == "run":
        warmgraph.backend.adopt(torch, lambda: None)
        names = "inductor", "cudagraphs"
    calls = [lambda name=name: torch.compile(lambda x: x * 2, backend=name)(torch.ones(2)).tolist() for name in names]
values = [call() for call in calls]
torch._dynamo.reset()
warmgraph.flush()
print(json.dumps({"said": said, "values": values, "stats": warmgraph.stats()}))
"""
)


@pytest.mark.parametrize("what", ["unknown", "both", "run"])
def test_whatever_has_moved_is_told_in_one_line_of_a_process(run_python, what):
    """An argument that only a newer torch passes; both backends; and those that `warmgraph run` takes over."""
    found = run_python(ONE_LINE, what)
    assert found["values"] == [[2.0, 2.0]] * 2
    assert len(found["said"]) == 1
    assert ("brand_new" if what == "unknown" else "_get_sm_carveout_experimental") in found["said"][0]
    assert found["stats"]["bypasses"] == 2  # the journal has each graph


MOVED = (
    SNAPSHOT
    + """
torch._functorch.config.enable_autograd_cache = False  # torch itself needs some of it for its own cache
exec(sys.argv[1])
values = [torch.compile(lambda x, k=k: x * 2 + k, backend="warmgraph")(torch.ones(2)).tolist() for k in (1, 2)]
print(json.dumps({"said": said, "values": values}))
"""
)


@pytest.mark.parametrize("what", PLANTED)
def test_a_torch_that_has_changed_compiles_as_plain_inductor(run_python, what):
    """The right results, one line that names what moved, and no exception in the user's call."""
    program, named = PLANTED[what]
    found = run_python(MOVED, program.replace("\\n", "\n"))
    assert found["values"] == [[3.0, 3.0], [4.0, 4.0]]
    (line,) = [said for said in found["said"] if "not cached" in said or "nothing is cached" in said]
    assert named in line


def test_something_optional_that_has_moved_turns_its_feature_off(monkeypatch):
    """It is told by the surface, and `install` replaces nothing."""

    def wrap(original):
        return original

    patch = patches.PATCHES["skips"]
    moved = patches.Patch(patch.module, "log_cudagraph_skip_2", patch.parameters, patch.needed_for)
    monkeypatch.setitem(patches.PATCHES, "skips", moved)
    monkeypatch.delitem(patches._undo, "skips", raising=False)
    assert [(what.split(" ")[0], why) for what, why in differences()] == [
        (f"{patch.module}.log_cudagraph_skip_2", patch.needed_for)
    ]
    with pytest.raises(patches.Moved, match="log_cudagraph_skip_2 is gone"):
        patches.install("skips", wrap)
    assert "skips" not in patches.installed()


def test_what_somebody_else_replaced_since_is_left_alone(monkeypatch):
    class Owner:
        def method(self):
            return 1

    monkeypatch.setattr(patches, "_undo", {})
    original = Owner.method
    patches.replace("debug", Owner, "method", lambda self: 2)
    theirs = Owner.method = lambda self: 3
    patches.uninstall()
    assert inspect.getattr_static(Owner, "method") is theirs
    Owner.method = original
    patches.replace("debug", Owner, "method", lambda self: 2)
    patches.uninstall()
    assert Owner.method is original


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_another_thread_installs_leaves_the_child_no_lock_that_is_held():
    held, go = threading.Event(), threading.Event()

    def hold():
        with patches._lock:
            held.set()
            go.wait(0.5)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if patches._lock.acquire(timeout=5) else 1)
    go.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
