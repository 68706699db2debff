"""Results are unpickled by name lists: a hostile pickle runs nothing, and no real one is refused."""

import builtins
import collections
import copyreg
import enum
import functools
import importlib
import importlib.util
import inspect
import io
import json
import marshal
import operator
import os
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import sympy
import torch
from msgspec.structs import replace
from torch._dynamo.source import GlobalSource, TensorProperty
from torch._functorch._aot_autograd.schemas import OutputType
from torch._guards import CompileId
from torch._inductor.output_code import CompiledFxGraph
from torch._inductor.runtime import triton_heuristics
from torch._inductor.runtime.autotune_cache import AutotuneCache
from torch._inductor.runtime.hints import AutotuneHint, DeviceProperties, HeuristicType
from torch._inductor.runtime.static_triton_launcher import StaticallyLaunchedCudaKernel
from torch._inductor.triton_bundler import StaticallyLaunchedAutotuner
from torch.fx.graph_module import reduce_graph_module
from warmgraph.backend.artifact.records import read
from warmgraph.backend.artifact.unpickle import NotAllowed, realise, unpickle
from warmgraph.backend.torch_api.allowed import DATA, LENT, METHODS
from warmgraph.backend.torch_api.generated_code.wrapper_module import Payload
from warmgraph.cache import DiskStore, Role
from warmgraph.cache.format.packed import pack


class Call:
    """Pickles to a call of `function`."""

    def __init__(self, function, *args):
        self.reduced = function, args

    def __reduce__(self):
        return self.reduced


def named(module, name, *args):
    """A call of `module.name`, whether or not it exists here."""
    spell = b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name)) + b"\x93"
    return b"\x80\x05" + spell + pickle.dumps(args, protocol=5)[2:-1] + b"R."


def written_to(thing, state):
    """BUILD on `thing` itself."""
    return b"\x80\x05" + pickle.dumps(thing, protocol=5)[2:-1] + pickle.dumps(state, protocol=5)[2:-1] + b"b."


TRAP = "trap-was-sprung"
CODE = f"__import__('os').system('touch {TRAP}')"


def touch(protocol=5):
    return pickle.dumps(Call(os.system, f"touch {TRAP}"), protocol)


def inner_storage():
    buffer = io.BytesIO()
    torch.save(Call(os.system, f"touch {TRAP}"), buffer)
    return buffer.getvalue()


BODY = {"_code": "def forward(self): return ()", "_modules": {}}

HOSTILE = {
    "os.system": touch(),
    "subprocess": pickle.dumps(Call(subprocess.check_call, ["touch", TRAP])),
    "eval": pickle.dumps(Call(builtins.eval, CODE)),
    "exec": pickle.dumps(Call(builtins.exec, CODE)),
    "__import__": pickle.dumps(Call(builtins.__import__, "antigravity")),
    "open": pickle.dumps(Call(open, TRAP, "w")),
    "getattr": pickle.dumps(Call(getattr, torch.Size(), "count")),
    "getattr of a class": pickle.dumps(Call(getattr, torch.Tensor, "__reduce_ex__")),
    "getattr of an enum": pickle.dumps(Call(getattr, HeuristicType, "mro")),
    "getattr of a member": pickle.dumps(Call(getattr, HeuristicType.POINTWISE, "value")),
    "import_module": pickle.dumps(Call(importlib.import_module, "this")),
    "partial": pickle.dumps(functools.partial(os.system, f"touch {TRAP}")),
    "a default factory": pickle.dumps(Call(collections.defaultdict, os.system)),
    "a harmless default factory": named("collections", "defaultdict", len),
    "attrgetter": pickle.dumps(operator.attrgetter("system")),
    "methodcaller": pickle.dumps(operator.methodcaller("system", CODE)),
    "copyreg": pickle.dumps(Call(copyreg._reconstructor, dict, object, None)),
    "add_extension": pickle.dumps(Call(copyreg.add_extension, "os", "system", 240)),
    "an unknown extension code": b"\x80\x05\x82\xf0.",
    "a persistent id": b"\x80\x05\x8c\x01aQ.",
    "marshal": pickle.dumps(Call(marshal.loads, marshal.dumps(compile(CODE, "x", "exec")))),
    "FunctionType": named("types", "FunctionType", None, {}),
    "CodeType": named("types", "CodeType", 0),
    "pickle.loads": pickle.dumps(Call(pickle.loads, touch())),
    "torch.load": pickle.dumps(Call(torch.load, TRAP)),
    "a pickle in a storage": pickle.dumps(Call(torch.storage._load_from_bytes, inner_storage())),
    "a bare pickle in a storage": pickle.dumps(Call(torch.storage._load_from_bytes, touch(2))),
    "_rebuild_from_type_v2": pickle.dumps(Call(torch._tensor._rebuild_from_type_v2, os.system, int, ("true",), {})),
    "_rebuild_parameter": pickle.dumps(Call(torch._utils._rebuild_parameter, None, True, {})),
    "_rebuild_wrapper_subclass": pickle.dumps(Call(torch._utils._rebuild_wrapper_subclass, int)),
    "a tensor of no storage": pickle.dumps(Call(torch._utils._rebuild_tensor_v2, "s", 0, (1,), (1,), False, {})),
    "torch.hub": pickle.dumps(Call(torch.hub.load, "a/b", "c")),
    "sympify": pickle.dumps(Call(sympy.sympify, CODE)),
    "parse_expr": named("sympy.parsing.sympy_parser", "parse_expr", CODE),
    "lambdify": named("sympy.utilities.lambdify", "lambdify", [], CODE),
    "a library loaded": named("torch._inductor.output_code", "CompiledAOTI", "x.so", "cpu"),
    "torch.ops.load_library": named("torch._ops", "_Ops.load_library", "x.so"),
    "ctypes": named("ctypes", "CDLL", "x.so"),
    "a dotted way out": named("torch._inductor.output_code", "os.system", f"touch {TRAP}"),
    "a module's own import": named("torch._inductor.triton_bundler", "shutil", "x"),
    "a user's class": named("__main__", "Anything"),
    "an unimported module": named("antigravity", "fly"),
    "a graph module's source": pickle.dumps(Call(reduce_graph_module, BODY, CODE)),
    "a change to a class": written_to(CompiledFxGraph, (None, {"post_compile": 1})),
    "a change to a lent class": written_to(torch.SymInt, (None, {"node": 1})),
    "a change to an enum member": written_to(OutputType.non_alias, {"_value_": 7}),
    "a change to a function": written_to(reduce_graph_module, (None, {"__defaults__": (1,)})),
    "a change to a tensor class": written_to(torch.Tensor, (None, {"add": 1})),
    "a change to builtins": written_to(int, (None, {"real": 1})),
    "an allowed class alone": pickle.dumps(torch.Size([1])),
    "a payload of nothing": pickle.dumps(Payload(None, [], {})),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_is_refused_before_anything_runs(name, tmp_path, monkeypatch):
    """Refused by an exception; no file, no import, and no class is another afterwards."""
    monkeypatch.chdir(tmp_path)
    imported, node = set(sys.modules), torch.SymInt.__dict__.get("node")
    with pytest.raises((NotAllowed, pickle.UnpicklingError, ValueError, TypeError)):
        unpickle(HOSTILE[name])
    assert not list(tmp_path.iterdir())
    assert not {"this", "antigravity"} & (set(sys.modules) - imported)
    assert torch.SymInt.__dict__.get("node") is node
    assert (OutputType.non_alias.value, OutputType(1)) == (1, OutputType.non_alias)
    assert inspect.isfunction(CompiledFxGraph.post_compile)
    assert callable(torch.Tensor.add)


def test_the_refusal_says_what_was_asked_for():
    """The name, so that a real result that needs one more is repaired in a minute."""
    with pytest.raises(NotAllowed, match=r"posix\.system"):
        unpickle(touch())


def test_an_extension_code_that_someone_registered_is_refused(tmp_path, monkeypatch):
    """copyreg keeps what it resolved, so the second use would not ask us."""
    monkeypatch.chdir(tmp_path)
    copyreg.add_extension("posix", "system", 241)
    try:
        data = b"\x80\x05\x82\xf1" + pickle.dumps((f"touch {TRAP}",), protocol=5)[2:-1] + b"R."
        copyreg._extension_cache[241] = os.system
        with pytest.raises(NotAllowed, match="EXT1"):
            unpickle(data)
    finally:
        copyreg.remove_extension("posix", "system", 241)
    assert not list(tmp_path.iterdir())


def test_symbolic_sizes_are_left_out_and_their_text_is_not_parsed(tmp_path, monkeypatch):
    """`sympify`, and every sympy Function's constructor, evaluates a string."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotAllowed, match="_LeftOut"):
        unpickle(named("torch.utils._sympy.functions", "FloorDiv", CODE, CODE))
    assert not list(tmp_path.iterdir())


def test_a_memory_format_is_one_whatever_module_it_was_found_in():
    """pickle looks for a module that has a `torch` in it: often the user's own, which need not be importable here."""
    with pytest.raises(NotAllowed, match=r"a whole.*memory_format"):
        unpickle(b"\x80\x05\x8c\x0bno_such_one\x8c\x13torch.channels_last\x93.")


# What only some of the versions that we support have, and what is not installed without a GPU.
ELSEWHERE = {
    "torch._inductor.runtime.autotune_cache.LocalAutotuneCache",
    "torch._inductor.runtime.autotune_cache._LocalAutotuneCacheBackend",
    # not on 2.11
    "torch._functorch._aot_autograd.schemas.CacheableAOTConfig",
    "torch._functorch._aot_autograd.schemas.OpaqueMeta",
    "torch._inductor.remote_cache.LocalAutotuneCache",
    "torch._inductor.remote_cache.LocalCacheBackend",
    "torch._inductor.runtime.triton_heuristics.BenchmarkFailureReason",
    "torch.compiler._cache.CacheArtifactRecorder",
}


def test_every_name_in_the_tables_is_a_class_here():
    """A name that is gone would be a hole for whoever could bring it back."""
    missing = set()
    for table in (DATA, LENT):
        for module, names in table.items():
            if module.startswith("triton") and importlib.util.find_spec("triton") is None:
                continue
            loaded = importlib.import_module(module)
            missing |= {
                f"{module}.{n}" for n in names.split() if n != "*" and not inspect.isclass(getattr(loaded, n, 0))
            }
    assert missing <= ELSEWHERE
    assert all(place.rpartition(".")[2] in DATA[place.rpartition(".")[0]].split() for place in METHODS.values())


# Constructing these without __init__ is all that a pickle can do; a __setstate__ or __new__ of their own would run.
KNOWN_HOOKS = {
    "AutotuneCache.__setstate__",  # opens a Redis client from this process's settings if the state has a key
    "CachingAutotuner.__setstate__",  # a fresh lock
    "DeviceProperties.__new__",  # named tuples
    "ShardOrderEntry.__new__",
    "TensorMeta.__new__",
    "Payload.__setstate__",  # dataclasses with slots
    "CudagraphCachedInfo.__setstate__",
    "PlaceholderInfo.__setstate__",
    "CompileId.__setstate__",
    *(f"{name}.__setstate__" for name in ("Shard", "Replicate", "Partial", "_StridedShard")),  # C++ records
}


def test_plain_data_has_no_hooks_that_are_not_known():
    """What runs when a bare instance is made and given its state: read, one by one."""
    hooks = set()
    for module, names in DATA.items():
        if module.startswith("triton"):
            continue
        for name in names.split():
            cls = getattr(importlib.import_module(module), name, None)
            if inspect.isclass(cls) and not issubclass(cls, enum.Enum):
                owners = [c for c in cls.__mro__ if c.__module__.startswith(("torch.", "warmgraph."))]
                hooks |= {f"{name}.{h}" for c in owners for h in ("__new__", "__setstate__") if h in vars(c)}
    assert hooks - KNOWN_HOOKS == set()


def test_an_autotuner_is_read_back_as_torch_makes_and_keeps_one(tmp_path, monkeypatch):
    """What torch's own constructor puts into it, and the compile in which it was made; all but what is Triton's.

    A class that is missing in the tables makes a bypass of each graph with a Triton kernel, and no CPU has any.
    """
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    device = DeviceProperties("cuda", 0, 132, 90, 9, 65536, 2048, 1024, 32)
    kernel = triton_heuristics.CachingAutotuner(
        print,  # for its name
        triton_meta={"device": device, "signature": {"x": "*fp32"}, "constants": {}, "configs": [{(0,): []}]},
        configs=[SimpleNamespace(pre_hook=None)],
        save_cache_hook=AutotuneCache.create({}, str(tmp_path / "ab" / "c.py"), "configs").save,
        mutated_arg_names=[],
        optimize_mem=True,
        heuristic_type=HeuristicType.POINTWISE,
        size_hints={"x": 64},
        inductor_meta={"kernel_name": "f", "autotune_hints": {AutotuneHint.ONE_ELEMENT_PER_THREAD}},
        filename=str(tmp_path / "ab" / "c.py"),
        autotune_cache_info={"autotune_cache_state": "miss"},
    )
    kernel.set_compile_info(CompileId(frame_id=0, frame_compile_id=1), is_backward=True)
    launched = StaticallyLaunchedCudaKernel.__new__(StaticallyLaunchedCudaKernel)
    vars(launched).update(name="f", hash="abc", cubin_raw=None, cubin_path=str(tmp_path), function=None)
    kernel.compile_results = [triton_heuristics.StaticTritonCompileResult(launched, None, {"cc": 90}, {})]
    kernel.fn = kernel.configs = None  # Triton's; the latter as torch leaves it
    again = realise(read(pickle.dumps(StaticallyLaunchedAutotuner("key", "f", kernel), protocol=5))).kernel
    assert vars(again).keys() == vars(kernel).keys()
    assert again.compile_id == CompileId(frame_id=0, frame_compile_id=1)
    assert (again.device_props, again.heuristic_type) == (device, HeuristicType.POINTWISE)
    assert again.compile_results[0].kernel.hash == "abc"


def test_enums_are_read_back_as_every_python_pickles_them():
    """Python 3.11.0 to 3.11.3 pickle a member as an attribute of its class; of what is left out, too."""
    members = [
        Call(getattr, HeuristicType, "POINTWISE"),
        HeuristicType.POINTWISE,
        Call(getattr, TensorProperty, "SIZE"),
    ]
    one, other, left_out = realise(read(pickle.dumps(members)))
    assert one is other is HeuristicType.POINTWISE
    assert left_out is realise(read(pickle.dumps(GlobalSource("x"))))


PROGRAM = """
import json, os, torch, warmgraph

@torch.compile(backend="warmgraph")
def f(x, w):
    return torch.relu(x @ w).softmax(-1)

x, w = torch.arange(12.0).reshape(3, 4), torch.arange(20.0).reshape(4, 5).requires_grad_()
y = f(x, w)
y[:, 0].sum().backward()
v = w.detach().clone().requires_grad_()
z = torch.relu(x @ v).softmax(-1)
z[:, 0].sum().backward()
warmgraph.flush()
agree = bool(torch.allclose(y, z) and torch.allclose(w.grad, v.grad))
print(json.dumps({"agree": agree, **warmgraph.stats()}))
"""


@pytest.mark.exhaustive
def test_hostile_content_in_any_blob_runs_nothing(run_python, environment, tmp_path):
    """A well-sealed entry with a hostile pickle for each role in turn: right results, and readable tools."""
    trap = tmp_path / "trap"
    hostile = pickle.dumps(Call(os.system, f"touch {trap}"))
    assert run_python(PROGRAM, WARMGRAPH_FRAMES=0)["misses"] == 1
    store = DiskStore(tmp_path / "store")
    (file,) = store.scan()
    entry, _ = store.read_entry(file.key, file.variant)
    contents = [(ref.role, ref.name, content_of(store, ref)) for ref in entry.blobs]
    assert {role for role, _, _ in contents} == {Role.AOT_RESULT, Role.CPP_KERNEL, Role.PART_TEXTS, Role.GRAPH_TEXT}

    for bad in (*{role for role, _, _ in contents}, Role.GRAPH):
        blobs = [(role, name, hostile if role is bad else content) for role, name, content in contents]
        if bad is Role.GRAPH:  # of another backend: one too many
            blobs.append((bad, "bundle", hostile))
        packed = pack(replace(entry, blobs=()), blobs)
        for ref, data in packed.blobs:
            store.put_blob(ref, data)
        store.put_entry(entry.key, entry.variant, packed.sealed)

        shown = subprocess.run(
            [Path(sys.executable).parent / "warmgraph", "show", entry.key, "--texts", "--graph", "--json"],
            env=environment(),
            capture_output=True,
            text=True,
        )
        details = json.loads(shown.stdout)["entries"][0]
        unreadable = {Role.PART_TEXTS: "texts", Role.GRAPH_TEXT: "graphs"}.get(bad)
        assert [name for name in ("texts", "graphs") if details[name] is None] == [unreadable] * (
            unreadable is not None
        )

        ran = run_python(PROGRAM, WARMGRAPH_STRICT=0, WARMGRAPH_FRAMES=0)
        assert ran["agree"], bad
        used = bad in (Role.AOT_RESULT, Role.CPP_KERNEL)
        assert (ran["hits"], ran["failures"]) == ((0, 1) if used else (1, 0)), bad
    assert not trap.exists()


def content_of(store, ref):
    path = store.path_of(ref)
    if ref.role is Role.CPP_KERNEL:
        return path.read_bytes()
    from warmgraph.cache import decode_blob

    return decode_blob(ref, store.blob(ref))


# -- what escaped before: nothing that a pickle can get hold of can be called


def op(*parts):
    """A pickle of protocol 5 from its parts: opcodes as bytes, texts and numbers as pickle writes them."""
    body = b"".join(part if isinstance(part, bytes) else pickle.dumps(part, protocol=5)[2:-1] for part in parts)
    return b"\x80\x05" + body + b"."


def name(module, attribute):
    return pickle.dumps(module, protocol=5)[2:-1] + pickle.dumps(attribute, protocol=5)[2:-1] + b"\x93"


AUTOTUNE = ("torch._inductor.runtime.autotune_cache", "AutotuneCache")


def escape(place):
    """`getattr` handed out a bound method of a real object; a REDUCE on it wrote a file of choice."""
    local = ("torch._inductor.runtime.autotune_cache", "_LocalAutotuneCacheBackend")
    cache = name(*AUTOTUNE) + b")\x81"  # NEWOBJ of nothing
    state = pickle.dumps({"configs_hash": "x", "remote_cache": None}, protocol=5)[2:-1]
    backend = pickle.dumps(str(place), protocol=5)[2:-1]
    wired = (
        cache + b"}(" + pickle.dumps("local_cache", protocol=5)[2:-1] + b"(" + name(*local) + b")\x81" + backend + b"tu"
    )
    wired += b"b" + state + b"b"
    method = name("builtins", "getattr") + b"(" + wired + pickle.dumps("save", protocol=5)[2:-1] + b"tR"
    return op(method + b"(" + b"NK\x01" + b"tR")


def test_a_bound_method_that_a_pickle_gets_is_not_called(tmp_path, monkeypatch):
    """The escape that was found: decoding ends before anything is called, and no file is written."""
    called = []
    monkeypatch.setattr(AutotuneCache, "save", lambda *args, **kwargs: called.append(args))
    with pytest.raises((NotAllowed, TypeError)):
        unpickle(escape(tmp_path / "written"))
    for call in (
        op(name("builtins", "getattr") + b"(" + name(*AUTOTUNE) + b")\x81" + b"\x8c\x04save" + b"tR" + b"(NK\x01tR"),
        op(name("builtins", "getattr") + b"(" + name("torch", "Size") + b"\x8c\x05counttR" + b"(K\x01tR"),
    ):
        with pytest.raises((NotAllowed, TypeError)):
            unpickle(call)
    assert called == []
    assert not list(tmp_path.iterdir())


BOMBS = {
    "bytes of a number": op(name("builtins", "bytes"), b"(", 1_400_000_000, b"tR"),
    "a bytearray": b"\x80\x05\x96" + (2**31).to_bytes(8, "little") + b"x.",
    "a large place in the memo": b"\x80\x05Nr\xff\xff\xff\x0f.",
    "bytes that do not come": b"\x80\x05\x8e" + (2**33).to_bytes(8, "little") + b"x.",
    "text that does not come": b"\x80\x05X\xff\xff\xff\x7fx.",
    "a frame that does not come": b"\x80\x05\x95" + (2**40).to_bytes(8, "little") + b"N.",
    "a list of a range": op(name("builtins", "list"), b"(", name("builtins", "range"), b"(", 10**9, b"tRtR"),
    "a size": op(name("torch", "Size"), b"(", name("builtins", "range"), b"(", 10**9, b"tRtR"),
    "a counter": op(name("collections", "Counter"), b"(", name("builtins", "range"), b"(", 10**9, b"tRtR"),
    "an ordered set": op(
        name("torch.utils._ordered_set", "OrderedSet"), b"(", name("builtins", "range"), b"(", 10**8, b"tRtR"
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_pickle_reserves_no_more_than_its_own_bytes(bomb):
    """61 bytes took 1.4 GB. The limit is of the address space, in a process of its own."""
    program = (
        "import resource, sys, pickle; from warmgraph.backend.artifact.unpickle import unpickle\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**26, -1))\n"
        "try: unpickle(bytes.fromhex(sys.argv[1]))\n"
        "except (pickle.UnpicklingError, TypeError, ValueError, EOFError): sys.exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, BOMBS[bomb].hex()], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-500:]


def test_a_storage_is_as_long_as_it_says():
    """Torch reserves what a storage's header says: it has to be what follows."""
    whole = pickle.dumps(torch.arange(3.0), protocol=5)
    assert torch.equal(realise(read(whole)), torch.arange(3.0))
    lying = whole.replace(b"K\x03Nt", b"K\xffNt")
    assert lying != whole
    with pytest.raises(NotAllowed):
        realise(read(lying))


def test_no_data_stands_in_the_place_of_a_method():
    """Of a dataclass; and nothing special anywhere."""
    place = ("torch._functorch._aot_autograd.schemas", "ViewAndMutationMeta")
    with pytest.raises(NotAllowed, match="make_runtime_safe"):
        unpickle(op(name(*place) + b")\x81", {"make_runtime_safe": 1}, b"b"))


def test_the_signature_of_a_kernel_comes_back():
    """What Triton keeps of a kernel's function: its parameters, and what they have beside a name."""

    def kernel(x, n: int, block: str = "x") -> None: ...

    theirs = inspect.signature(kernel)
    assert theirs.return_annotation is None and theirs.parameters["block"].default == "x"
    assert realise(read(pickle.dumps(theirs, protocol=5))) == theirs


@pytest.mark.parametrize(
    ("state", "taken"),
    [
        ({"__doc__": "text", "__name__": "kernel", "__globals__": None}, True),
        ({"__globals__": {}}, False),
        ({"__doc__": ["a list"]}, False),
        ({"__class__": "text"}, False),
        ({"__dict__": None}, False),
        ({"__reduce__": "text"}, False),
    ],
)
def test_of_special_names_only_texts_of_a_function_are_given(state, taken):
    """A kernel has its function's name and documentation, as text."""
    data = op(name("torch._inductor.runtime.coordinate_descent_tuner", "CoordescTuner") + b")\x81", state, b"b")
    if taken:
        assert vars(realise(read(data))) == state
    else:
        with pytest.raises(NotAllowed):
            realise(read(data))
