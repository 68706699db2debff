"""Plants misses: each case publishes a key, then misses beside it for one known cause. No test itself; prints JSON.

    planted.py FOLDER

Keys, lookups, the index, events and publishing are the real ones; only the compile between them is left out, and an
entry holds nothing but its texts. Each case has a folder of its own below FOLDER, and its second half begins with an
engine that knows nothing of the first.
"""

import functools
import json
import os
import sys
import time
from pathlib import Path

import msgpack
import torch
import torch.utils.checkpoint
import warmgraph.backend.engine as engine
import warmgraph.hashing.build as build
from torch._inductor.custom_graph_pass import CustomGraphPass
from warmgraph.backend.artifact.pack import Artifact
from warmgraph.backend.process_cache import opened
from warmgraph.backend.typing import Compiled
from warmgraph.cache import DiskStore, Role, configure, flush, new_key

FOLDER = Path(sys.argv[1])
CASES = {}
GUARDS = [None]
X, Y = torch.arange(32.0).reshape(8, 4), torch.arange(4.0)


def planted(cause, reason="absent", **settings):
    """Register a generator: up to its `yield` it publishes, behind it it misses. cause: what is to be said."""

    def register(function):
        CASES[function.__name__] = (function, cause, reason, settings)
        return function

    return register


def without_compiling(request, compiler, told):
    return Compiled(
        run=request.gm.forward,
        result=None,
        kernels={},
        alias_guards=[],
        sources=[],
        lost_guards=[],
        more_guards=None,
        problem=None,
        inputs=[],
    )


def texts_alone(compiled, key, *rest):
    return Artifact(GUARDS[0], ((Role.PART_TEXTS, "parts", msgpack.packb(key.texts())),))


engine.compile_kept, engine.pack = without_compiling, texts_alone


def run(function, *args, **options):
    torch._dynamo.reset()
    return torch.compile(function, backend="warmgraph", **options)(*args)


def f(x, y):
    return torch.relu(x) + y


# -- compiler


@planted("compiler: inductor.epilogue_fusion True -> False")
def an_option():
    run(f, X, Y)
    yield
    run(f, X, Y, options={"epilogue_fusion": False})


@planted("compiler: inductor.max_autotune False -> True")
def a_mode():
    run(f, X, Y)
    yield
    run(f, X, Y, mode="max-autotune-no-cudagraphs")


@planted("compiler: inductor.cpp.threads -1 -> 3")
def a_setting_made_globally():
    run(f, X, Y)
    yield
    with torch._inductor.config.patch({"cpp.threads": 3}):
        run(f, X, Y)


@planted('compiler: compiler.cache_key_tag "" -> blue')
def a_cache_key_tag():
    run(f, X, Y)
    yield
    with torch.compiler.config.patch(cache_key_tag="blue"):
        run(f, X, Y)


class Pass(CustomGraphPass):
    version = "first"

    def __call__(self, graph):
        pass

    def uuid(self):
        return self.version


@planted("compiler: inductor.post_grad_custom_pre_pass[2] first -> second")
def another_uuid_of_a_custom_pass():
    with torch._inductor.config.patch(post_grad_custom_pre_pass=Pass()):
        run(f, X, Y)
        yield
        Pass.version = "second"
        run(f, X, Y)


# -- ambient


@planted("ambient: autocast.cpu absent -> torch.bfloat16")
def autocast_on():
    run(f, X, Y)
    yield
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(f, X, Y)


@planted("ambient: autocast.cpu torch.bfloat16 -> torch.float16")
def another_dtype_of_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(f, X, Y)
    yield
    with torch.autocast("cpu", dtype=torch.float16):
        run(f, X, Y)


@planted("ambient: grad_mode True -> False")
def no_grad():
    run(f, X, Y)
    yield
    with torch.no_grad():
        run(f, X, Y)


@planted("inputs: p0 inference False -> True")
def inference_mode():
    with torch.no_grad():
        run(f, X, Y)
    yield
    with torch.inference_mode():
        run(f, X.clone(), Y)


@planted("ambient: deterministic False -> True")
def deterministic():
    run(f, X, Y)
    yield
    torch.use_deterministic_algorithms(True)
    try:
        run(f, X, Y)
    finally:
        torch.use_deterministic_algorithms(False)


@planted("ambient: threads 1 -> 2")
def threads():
    torch.set_num_threads(1)
    run(f, X, Y)
    yield
    torch.set_num_threads(2)
    run(f, X, Y)


@planted("ambient: default_dtype torch.float32 -> torch.float64")
def default_dtype():
    run(f, X, Y)
    yield
    torch.set_default_dtype(torch.float64)
    try:
        run(f, X, Y)
    finally:
        torch.set_default_dtype(torch.float32)


@planted("ambient: float32_matmul_precision highest -> high")
def matmul_precision():
    run(f, X, Y)
    yield
    torch.set_float32_matmul_precision("high")
    try:
        run(f, X, Y)
    finally:
        torch.set_float32_matmul_precision("highest")


# -- inputs and symbols


@planted("inputs: p0 dtype torch.float32 -> torch.float64")
def an_inputs_dtype():
    run(f, X, Y)
    yield
    run(f, X.double(), Y)


@planted("inputs: p0 size [8, 4] -> [16, 4]")
def an_inputs_size():
    run(f, X, Y)
    yield
    run(f, torch.ones(16, 4), Y)


@planted("inputs: p0 stride [4, 1] -> [1, 8]")
def an_inputs_stride():
    run(f, X, Y)
    yield
    run(f, X.t().contiguous().t(), Y)


@planted("inputs: p1 requires_grad False -> True")
def an_input_that_requires_grad():
    run(f, X, Y)
    yield
    run(f, X, Y.clone().requires_grad_())


@planted("inputs: p1 kind Tensor -> Parameter")
def a_parameter():
    run(f, X, Y)
    yield
    run(f, X, torch.nn.Parameter(Y.clone(), requires_grad=False))


@planted("inputs: p1 static absent -> ")
def a_static_input():
    run(f, X, Y)
    yield
    marked = Y.clone()
    torch._dynamo.mark_static_address(marked)
    run(f, X, marked)


@planted("inputs: sharing one storage absent -> [0, 1]")
def inputs_in_one_storage():
    def g(x, y):
        return x.mul_(2) + y

    base = torch.arange(64.0)
    run(g, base[:32].clone(), base[32:].clone())
    yield
    run(g, base[:32], base[16:48])


@planted("inputs: p0 Tensor torch.float32 cpu size [8, 4] stride [4, 1] offset 0 leaf -> SymInt L['x'].size()[0]")
def dynamic_sizes():
    run(f, X, Y)
    yield
    run(f, X, Y, dynamic=True)


@planted("symbols: L['x'].size()[0].range[0] 2 -> 4")
def the_range_of_a_symbol():
    for low in (2, 4):
        x = X.clone()
        torch._dynamo.mark_dynamic(x, 0, min=low, max=64)
        run(f, x, Y)
        if low == 2:
            yield


# -- graph


@planted("graph: +%3 method sin (%2,)")
def one_more_operation():
    def f(x, y):
        return torch.relu(x) + y

    run(f, X, Y)
    yield

    def f(x, y):
        return torch.relu(x).sin() + y

    run(f, X, Y)


@planted("graph: %3 builtin _operator.add (%2, %1) -> builtin _operator.sub (%2, %1)")
def another_operation():
    def f(x, y):
        return torch.relu(x) + y

    run(f, X, Y)
    yield

    def f(x, y):
        return torch.relu(x) - y

    run(f, X, Y)


@planted("graph: %3 builtin _operator.sub (%2, %1) -> builtin _operator.sub (%1, %2)")
def another_order_of_arguments():
    def f(x, y):
        return torch.relu(x) - y

    run(f, X, Y)
    yield

    def f(x, y):
        z = torch.relu(x)
        return y - z

    run(f, X, Y)


@planted("(%0, 3) -> builtin _operator.mul (%0, 4)")
def another_constant():
    def scaled(by):
        def f(x):
            return x * by

        return f

    run(scaled(3), X)
    yield
    run(scaled(4), X)


@planted("(%0, %1) {alpha: 2} -> builtin torch.sub (%0, %1) {alpha: 3}")
def another_keyword():
    def with_alpha(alpha):
        def f(x, y):
            return torch.sub(x, y, alpha=alpha)

        return f

    run(with_alpha(2), X, Y)
    yield
    run(with_alpha(3), X, Y)


@planted("graph: %1 method sin (%0,) -> method tan (%0,)")
def the_body_of_a_nested_graph():
    def checkpointed(body):
        def f(x):
            return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False) + 1

        return f

    x = X.clone().requires_grad_()
    run(checkpointed(lambda x: x.sin()), x)
    yield
    run(checkpointed(lambda x: x.tan()), x)


COUNTER = 0


def counted(x):
    return x * COUNTER


@planted("builtin _operator.mul (%0, 7) -> builtin _operator.mul (%0, 8)")
def a_counter_that_is_captured():
    global COUNTER
    COUNTER = 7
    run(counted, X)
    yield
    COUNTER += 1
    run(counted, X)


@planted("graph: %3 builtin torch.tensor ([1, 1.0, 2.0, 3.0],) -> builtin torch.tensor ([2, 1.0, 2.0, 3.0],)")
def another_tensor_that_is_made():
    def f(x, y):
        return x + y + torch.tensor([COUNTER, 1.0, 2.0, 3.0])

    global COUNTER
    COUNTER = 1
    run(f, X, Y)
    yield
    COUNTER = 2
    run(f, X, Y)


# -- hooks and code


def hook(by):
    return torch.fx.symbolic_trace(lambda x: x * by), torch.fx.symbolic_trace(lambda x: x / 2)


def under_hooks(pack, unpack):
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        run(f, X, Y.clone().requires_grad_())


@planted("(%0, 2) -> builtin _operator.mul (%0, 3)")
def another_saved_tensors_hook():
    under_hooks(*hook(2))
    yield
    under_hooks(*hook(3))


@torch.fx.wrap
def halve(x):
    return x / 2


def hashed(user_hash):
    pair = torch.fx.symbolic_trace(lambda x: x * 2), torch.fx.symbolic_trace(lambda x: halve(x))
    for node in pair[1].graph.nodes:
        if node.meta.get("is_wrapped"):
            node.meta["user_cache_hash"] = user_hash
    return pair


@planted("halve] first (%0,) -> wrapped [__main__, halve] second (%0,)")
def another_user_cache_hash():
    under_hooks(*hashed("first"))
    yield
    under_hooks(*hashed("second"))


def operator(fake):
    with torch.library._scoped_library("wgplanted", "FRAGMENT"):
        op = torch.library.custom_op(
            "wgplanted::op", lambda x: x.clone(), mutates_args=(), schema="(Tensor x) -> Tensor"
        )
    op.register_fake(fake)
    return op


@planted("code: wgplanted::op.fake source ")
def the_fake_of_a_custom_operator():
    def first(x):
        return torch.empty_like(x)

    def second(x):
        return x.new_empty(x.shape)

    op = operator(first)

    def f(x):
        return op(x) + 1

    run(f, X)
    yield
    op.register_fake(second)
    run(f, X)


# -- toolchain and machine, as other hosts have them


def elsewhere(part, **facts):
    """A run as if on a host with these facts."""
    original = getattr(build, part)

    @functools.wraps(original)
    def changed(*args):
        return {**original(*args), **facts}

    setattr(build, part, changed)
    try:
        run(f, X, Y)
    finally:
        setattr(build, part, original)


def two_hosts(part, before, after):
    elsewhere(part, **before)
    yield
    elsewhere(part, **after)


@planted("toolchain: torch 2.12.1 -> 2.13.0")
def another_torch():
    return two_hosts("toolchain", {"torch": "2.12.1"}, {"torch": "2.13.0"})


@planted("toolchain: triton 3.6.0 -> 3.7.0")
def another_triton():
    return two_hosts("toolchain", {"triton": "3.6.0"}, {"triton": "3.7.0"})


@planted('toolchain: python "CPython 3.10" -> "CPython 3.11"')
def another_python():
    return two_hosts("toolchain", {"python": "CPython 3.10"}, {"python": "CPython 3.11"})


@planted("machine: cpu.flags +avx512f -amx_tile")
def other_flags_of_the_cpu():
    flags = ["aes", "avx", "avx2", "fma", "sse"]
    before, after = sorted([*flags, "amx_tile"]), sorted([*flags, "avx512f"])
    return two_hosts("machine", {"cpu": {"flags": before}}, {"cpu": {"flags": after}})


@planted("machine: gpus[0].name")
def another_gpu():
    gpus = [[{"name": name, "capability": [9, 0], "multiprocessors": 132}] for name in ("NVIDIA H100", "NVIDIA H200")]
    return two_hosts("machine", {"gpus": gpus[0]}, {"gpus": gpus[1]})


# -- what became of the entry


def files(folder):
    return [path for path in (DiskStore(configure().dir).root / folder).rglob("*") if path.is_file()]


@planted("and is gone: evicted, expired or never written")
def evicted():
    run(f, X, Y)
    yield
    DiskStore(configure().dir).prune(0, 0)
    run(f, X, Y)


@planted("its bytes were not what was written", reason="corrupt")
def corrupt():
    run(f, X, Y)
    yield
    (path,) = files("entries")
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    run(f, X, Y)


@planted("but not all of its blobs", reason="incomplete")
def incomplete():
    run(f, X, Y)
    yield
    for path in files("objects"):
        path.unlink()
    run(f, X, Y)


@planted("signed with no key that this process knows", reason="untrusted")
def untrusted():
    configure(signing_key=new_key())
    run(f, X, Y)
    yield
    configure(signing_key="")
    run(f, X, Y)


@planted("still did not load", reason="load-failed")
def load_failed():
    run(f, X, Y)
    yield
    run(f, X, Y)


@planted("the shape guards of none hold", reason="guards")
def guards():
    GUARDS[0] = "L['t0'] <= 4"
    run(f, X, Y, dynamic=True)
    GUARDS[0] = None
    yield
    run(f, X, Y, dynamic=True)


@planted("nothing was looked up, on purpose", reason="refresh")
def refreshed():
    run(f, X, Y)
    yield
    configure(mode="refresh")
    run(f, X, Y)


@planted("the nearest entry differs in compiler")
def never_published():
    run(f, X, Y)
    yield
    configure(dir_mode="readonly")
    run(f, X, Y, options={"epilogue_fusion": False})


@planted("the same key is in namespace default", namespace="blue")
def another_namespace():
    run(f, X, Y)
    yield
    configure(namespace="blue")
    run(f, X, Y)


@planted("nothing like it in the store")
def truly_new():
    run(f, X, Y)
    yield

    def another(x):
        return x.exp() * 2

    run(another, X)


def main():
    told = {}
    os.environ.pop("WARMGRAPH_DIR", None)
    for name, (function, cause, reason, settings) in CASES.items():
        configure(
            dir=FOLDER / name, mode="readwrite", namespace="default", signing_key="", dir_mode="readwrite", strict=False
        )
        opened.forget()
        half = function()
        next(half)
        assert flush()
        time.sleep(0.002)  # times in records are in milliseconds
        opened.forget()
        begun = time.time()
        next(half, None)
        assert flush()
        told[name] = {"cause": cause, "reason": reason, "settings": settings, "begun": begun}
    print(json.dumps(told))


main()
