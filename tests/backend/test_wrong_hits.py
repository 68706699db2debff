"""Pairs of programs that a careless key confuses: the second must not be served the first one's code.

Process A compiles with version 2 of the user's code, process B runs version 3 on the same store. Every
case gave a wrong result once, here or in torch's own cache.
"""

import pytest
from warmgraph.backend.torch_api import versions

PROGRAM = """
import json, os, sys, torch, types, warmgraph

V = int(sys.argv[1])
CASES = {}

def case(function):
    CASES[function.__name__] = function
    return function

def compiled(function, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="warmgraph", **options)

def helper(g):
    return g * V

def operator(name, backward):
    @torch.library.custom_op(f"wgtest::{name}", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        return x.clone()
    op.register_fake(lambda x: torch.empty_like(x))
    op.register_autograd(backward)
    return op

def gradient(op):
    x = torch.ones(4, requires_grad=True)
    compiled(lambda x: op(x).sum())(x).backward()
    return x.grad[0].item(), V

@case
def backward_calls_an_edited_helper():
    return gradient(operator("helper", lambda ctx, g: helper(g)))

@case
def backward_closes_over_an_edited_function():
    if V == 2:
        scale = lambda g: g + g
    else:
        scale = lambda g: g * 3
    return gradient(operator("closure", lambda ctx, g: scale(g)))

@case
def backward_has_an_edited_default():
    return gradient(operator("default", lambda ctx, g, by=V: g * by))

CONFIG = types.ModuleType("config")
CONFIG.scale = V

class Table:
    __scale__ = V

def scaled(g, config):
    return g * config.scale

@case
def backward_hands_a_module_to_a_function():
    return gradient(operator("handed", lambda ctx, g: scaled(g, CONFIG)))

@case
def backward_reads_a_member_with_two_underscores():
    return gradient(operator("dunder", lambda ctx, g: g * Table.__scale__))

@case
def backward_reads_the_environment():
    os.environ["SCALE_OF_THIS_RUN"] = str(V)
    return gradient(operator("environ", lambda ctx, g: g * int(os.environ["SCALE_OF_THIS_RUN"])))

LIB = torch.library.Library("wglib", "DEF")

@case
def a_composite_kernel_was_edited():
    LIB.define("comp(Tensor x) -> Tensor")
    LIB.impl("comp", (lambda x: x * 2) if V == 2 else (lambda x: x * 3), "CompositeImplicitAutograd")
    return compiled(lambda x: torch.ops.wglib.comp(x) + 0)(torch.ones(4))[0].item(), V

class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device=inner.device)
    def __init__(self, inner):
        self.inner = inner
    def __tensor_flatten__(self):
        return ["inner"], None
    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Scaled(inner["inner"])
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        args = torch.utils._pytree.tree_map_only(Scaled, lambda t: t.inner, args)
        return Scaled(func(*args, **(kwargs or {})) * V)

@case
def a_subclass_dispatches_otherwise():
    out = compiled(lambda x: x.sin())(Scaled(torch.ones(4)))
    return out.inner[0].item(), torch.sin(torch.ones(())).item() * V

@case
def a_float_decides_by_its_value():
    def f(x, s):
        return torch.nn.functional.leaky_relu(x, s) + x.clamp(min=s)
    g, x = compiled(f), torch.full((4,), -1.0)
    found = [g(x, s)[0].item() for s in (0.5, 0.75 if V == 2 else -0.25)]
    return found[-1], f(x, 0.75 if V == 2 else -0.25)[0].item()

@case
def inputs_lie_in_a_storage_of_another_size():
    def f(x, y):
        x.add_(1)
        return (x * y).sum()
    def run(function):
        base = torch.arange(64.0 * (V - 1))
        return function(base[0:8], base[4:12]).item()
    return run(compiled(f, dynamic=False)), run(f)

@case
def inputs_begin_to_overlap():
    def f(x, y):
        x.add_(1)
        return x * y.shape[0] + y.sum()
    def run(function, start):
        base = torch.arange(64.0)
        return function(base[0:8], base[start:start + 9]).sum().item()
    g = compiled(f, dynamic=True)
    return [run(g, s) for s in (20, 4)][-1], run(f, 4)

@case
def newer_precision_settings_can_be_used():
    torch.backends.mkldnn.matmul.fp32_precision = "ieee"
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    return compiled(lambda x: (x * V).sum())(torch.ones(4)).item(), 4.0 * V

@case
def a_cache_key_tag_was_set():
    with torch.compiler.config.patch(cache_key_tag=f"t{V}"):
        before = warmgraph.stats()["hits"]
        compiled(lambda x: x + 41)(torch.ones(4))
        return warmgraph.stats()["hits"] - before, 0

found = {}
for name, function in CASES.items():
    try:
        got, want = function()
        found[name] = abs(got - want) <= 1e-5 * max(1.0, abs(want)) or f"{got} instead of {want}"
    except Exception as error:
        found[name] = f"{type(error).__name__}: {str(error)[-300:]}"
warmgraph.flush()
print(json.dumps({"found": found, "stats": warmgraph.stats()}))
"""

NAMES = [
    before.split()[1].split("(")[0]
    for before, after in zip(PROGRAM.splitlines()[1:], PROGRAM.splitlines(), strict=False)
    if after == "@case"
]


@pytest.fixture(scope="module")
def results(tmp_path_factory, run_in, once):
    """What the two processes found, in turn, on one store."""
    return once("wrong-hits", lambda: run_both(tmp_path_factory.mktemp("wrong-hits"), run_in))


def run_both(folder, run_in):
    (folder / "program.py").write_text(PROGRAM)
    settings = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "WARMGRAPH_PGO": "0"}  # both programs are to be traced alike
    # What is bypassed is compiled as Inductor does, and torch's own caches get some of it wrong.
    settings |= {"TORCHINDUCTOR_FX_GRAPH_CACHE": "0", "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    return [run_in(folder, "program.py", version, **settings) for version in ("2", "3")]


@pytest.mark.parametrize("name", NAMES)
def test_another_meaning_is_never_served_the_first_ones_code(name, results):
    """Right in the process that compiled first, and right in the one that came after with other code."""
    found = [one["found"][name] for one in results]
    if name == "a_subclass_dispatches_otherwise" and versions.at_hand() == (2, 11) and "InternalTorch" in str(found[0]):
        pytest.xfail("Dynamo 2.11 fails in the constructor of a wrapper, before any backend is called")
    assert found == [True, True]


def test_something_was_shared_all_the_same(results):
    """The second process hits where the two programs agree; a key of everything would pass the others."""
    assert results[1]["stats"]["hits"] >= 2
