"""Compiles functions under saved-tensors hooks in a fresh process and prints what became of each. No test itself.

    worker.py HASH VERSION [--bypassed] [CASE...]

HASH is the `user_cache_hash` of wrapped calls, VERSION a constant in the users' code. `--bypassed`: also those that
no cache can hold. Each CASE is compiled with plain Inductor as well.
"""

import contextlib
import hashlib
import json
import sys

import torch
import torch._functorch.config as functorch_config
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import make_fx

import warmgraph

HASH, VERSION = sys.argv[1], int(sys.argv[2])
CASES = {}


def case(function=None, cached=True, **options):
    if function is None:
        return lambda function: case(function, cached, **options)
    if cached or "--bypassed" in sys.argv:
        CASES[function.__name__] = (function, options)
    return function


def float8_pack(x):
    return x.dtype, x.to(torch.float8_e5m2)


def float8_unpack(packed):
    dtype, x = packed
    return x.to(dtype)


def int8_pack(x):
    scale = x.abs().amax() / 127
    return (x / scale).round().to(torch.int8), scale, x.dtype


def int8_unpack(packed):
    x, scale, dtype = packed
    return x.to(dtype) * scale


@torch.fx.wrap
def float8_pack_if_float(x):
    return (x.dtype, x.to(torch.float8_e5m2)) if x.dtype.is_floating_point else (x.dtype, x)


@torch.fx.wrap
def float8_unpack_if_float(packed):
    dtype, x = packed
    return x.to(dtype) if dtype.is_floating_point else x


@torch.fx.wrap
def int8_pack_if_large(x):
    if x.numel() < 4:
        return x, None, x.dtype
    return int8_pack(x)


@torch.fx.wrap
def int8_unpack_if_large(packed):
    return packed[0] if packed[1] is None else int8_unpack(packed)


@torch.fx.wrap
def halve(x):
    return x / VERSION


def symbolic(pack, unpack):
    return torch.fx.symbolic_trace(pack), torch.fx.symbolic_trace(unpack)


def made(pack, unpack):
    x = torch.linspace(-1, 1, 32).reshape(4, 8)
    return make_fx(pack)(x), make_fx(unpack)(pack(x))


def hashed(pair, user_hash=None):
    """`pair` with a hash on each wrapped call: the one given on the command line, or what `user_hash` computes."""
    for gm in pair:
        for node in gm.graph.nodes:
            if node.meta.get("is_wrapped"):
                node.meta["user_cache_hash"] = user_hash(node.target) if user_hash else HASH
    return pair


@case
def float8_symbolic():
    return symbolic(float8_pack, float8_unpack)


@case
def float8_made():
    return made(float8_pack, float8_unpack)


@case
def int8_symbolic():
    return symbolic(int8_pack, int8_unpack)


@case
def int8_made():
    return made(int8_pack, int8_unpack)


@case
def float8_wrapped():
    return hashed(symbolic(lambda x: float8_pack_if_float(x), lambda x: float8_unpack_if_float(x)))


@case
def int8_wrapped():
    return hashed(symbolic(lambda x: int8_pack_if_large(x), lambda x: int8_unpack_if_large(x)))


@case(cached=False)
def float8_without_a_hash():
    return symbolic(lambda x: float8_pack_if_float(x), lambda x: float8_unpack_if_float(x))


@case(cached=False)
def int8_without_a_hash():
    return symbolic(lambda x: int8_pack_if_large(x), lambda x: int8_unpack_if_large(x))


@case
def float8_wrapped_and_made():
    return made(lambda x: float8_pack_if_float(x), lambda x: float8_unpack_if_float(x))


@case
def int8_wrapped_and_made():
    """make_fx traces through a wrapped function: no call is left, and no hash is asked for."""
    return made(lambda x: int8_pack_if_large(x), lambda x: int8_unpack_if_large(x))


@case
def cache_hash_of_wrapped():
    """`halve` reads VERSION."""
    return hashed(symbolic(lambda x: x * 2, lambda x: halve(x)), warmgraph.cache_hash)


@case
def offloaded():
    return symbolic(lambda x: (x.device, x.to("cpu")), lambda packed: packed[1].to(packed[0]))


@case
def flattened_and_padded():
    """Another shape, and sizes among what is saved."""
    return symbolic(
        lambda x: (torch.nn.functional.pad(x.reshape(-1), (0, 3)), x.shape),
        lambda packed: packed[0][:-3].reshape(packed[1]),
    )


@case(dynamic=True)
def dynamic_sizes():
    return symbolic(int8_pack, int8_unpack)


@case(mode="donated")
def intermediates_only():
    return symbolic(int8_pack, int8_unpack)


@case(mode="no_static")
def all_but_parameters():
    return symbolic(int8_pack, int8_unpack)


@case
def plain_functions():
    """Not GraphModules: autograd calls them at run time, and they are in no key."""
    return (lambda x: x * VERSION), (lambda x: x / VERSION)


@case
def offloaded_by_torch():
    return save_on_cpu()


@case
def one_of_the_pair_is_plain():
    return torch.fx.symbolic_trace(lambda x: x * 2), (lambda x: x / 2)


@case(outer=float8_symbolic)
def the_inner_of_two_pairs():
    return symbolic(int8_pack, int8_unpack)


@case(grad=False)
def without_a_backward():
    """Nothing is inlined, so an unknown function in a hook stands in nobody's way."""
    return symbolic(lambda x: halve(x), lambda x: x)


def under(hooks):
    return saved_tensors_hooks(*hooks) if isinstance(hooks, tuple) else hooks


def model(x, weight):
    return (torch.nn.functional.linear(x.sin().exp() * x.cos(), weight).tanh().square()).sum()


def gradients(make, backend, dynamic=None, mode="all", outer=None, grad=True):
    torch._dynamo.reset()
    found = []
    weight = torch.nn.Parameter(torch.linspace(-1, 1, 24).reshape(3, 8))
    compiled = torch.compile(model, backend=backend, dynamic=dynamic)
    hooks = under(make())
    with functorch_config.patch(saved_tensors_hooks_filtering_mode=mode):
        for rows in (4, 6) if dynamic else (4,):
            x = torch.linspace(-2, 2, 8 * rows).reshape(rows, 8).requires_grad_()
            with torch.set_grad_enabled(grad), under(outer()) if outer else contextlib.nullcontext(), hooks:
                out = compiled(x, weight)
            if grad:
                out.backward()
            found += [out.detach(), *(t.grad.clone() for t in (x, weight) if t.grad is not None)]
    return found


def digest(tensors):
    return hashlib.sha256(b"".join(t.contiguous().numpy().tobytes() for t in tensors)).hexdigest()


def run(name):
    make, options = CASES[name]
    before = warmgraph.stats()
    got = gradients(make, "warmgraph", **options)
    after = warmgraph.stats()
    return {
        "gradients": digest(got),
        "inductor": digest(gradients(make, "inductor", **options)) if name in sys.argv[3:] else None,
        **{kind: after[kind] - before[kind] for kind in ("hits", "misses", "bypasses", "failures")},
    }


results = {name: run(name) for name in CASES}
warmgraph.flush()
print(json.dumps(results))
