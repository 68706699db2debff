"""The part `hooks` of a key: everything that AOTAutograd would inline, and nothing that it would not."""

import collections
import math

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from torch.fx.experimental.proxy_tensor import make_fx
from warmgraph.backend.key.context import key_context
from warmgraph.hashing import Cause, Hook, KeyContext, Uncacheable, key_of

X = torch.arange(12.0).reshape(3, 4) + 1


def key_under(pack, unpack, *, requires_grad=True, grad_mode=True, function=lambda x: x.sin().exp()):
    """The key of one function that Dynamo traces under a pair of hooks."""
    torch._dynamo.reset()
    found = []

    def backend(gm, inputs):
        try:
            found.append(key_of(gm, inputs, key_context(gm, inputs, "warmgraph")))
        except Uncacheable as refusal:
            found.append(refusal)
        return gm.forward

    x = X.clone().requires_grad_(requires_grad)
    with torch.set_grad_enabled(grad_mode), saved_tensors_hooks(pack, unpack):
        torch.compile(function, backend=backend)(x)
    (only,) = found
    if isinstance(only, Uncacheable):
        raise only
    return only


def changed(a, b):
    names = {x.name for x, y in zip(a.parts, b.parts, strict=True) if x.digest != y.digest}
    assert bool(names) == (a.id != b.id)
    return names


def traced(function):
    return torch.fx.symbolic_trace(function)


def same(x):
    return x


PACK, UNPACK = (lambda x: x.to(torch.int8)), (lambda x: x.to(torch.float32))

OTHERS = {
    "another type": (lambda x: x.to(torch.int16), UNPACK),
    "another constant": (lambda x: (x * 2).to(torch.int8), UNPACK),
    "another unpacking": (PACK, lambda x: x.to(torch.float64)),
    "more to save": (lambda x: (x.to(torch.int8), x.dtype), lambda p: p[0].to(p[1])),
    "the other way round": (UNPACK, PACK),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_what_a_hook_does_is_part_of_the_key(other):
    """And of no other part than `hooks`."""
    base = key_under(traced(PACK), traced(UNPACK))
    assert changed(base, key_under(traced(PACK), traced(UNPACK))) == set()
    assert changed(base, key_under(*map(traced, other))) == {"hooks"}


def test_several_arguments_gathered_in_one_are_not_one_argument():
    """`pack(*a)` and `pack(a)` have the same nodes: one takes the tensor, one its first row."""
    assert changed(
        key_under(traced(lambda *a: a[0] + 1), traced(same)), key_under(traced(lambda a: a[0] + 1), traced(same))
    ) == {"hooks"}


def test_the_order_of_what_a_trace_takes_apart_is_part_of_the_key():
    """make_fx flattens a dict; the nodes alone do not say which placeholder is which of its values."""
    keys = []
    for names in (("a", "b"), ("b", "a")):
        unpack = make_fx(lambda packed: torch.sub(*packed.values()))(dict.fromkeys(names, X))
        keys.append(key_under(traced(lambda x: {"a": x, "b": x * 2}), unpack))
    assert changed(*keys) == {"hooks"}


def test_two_traces_of_one_hook_share_a_key():
    """Names of nodes, addresses and the tracing's own example values and symbols do not matter."""
    pack = [make_fx(PACK, tracing_mode=mode)(X) for mode in ("real", "fake", "symbolic")]
    unpack = [make_fx(UNPACK, tracing_mode=mode)(PACK(X)) for mode in ("real", "fake", "symbolic")]
    first, *others = map(key_under, pack, unpack)
    for other in others:
        assert changed(first, other) == set()


Pair = collections.namedtuple("Pair", "values scale")


def test_a_named_tuple_can_be_seen_through_and_another_container_is_refused():
    """What a registered container does with its content is in no part of the key."""
    unpack = make_fx(lambda p: p.values * p.scale)(Pair(X, X))
    assert "Pair" in key_under(traced(same), unpack).texts()["hooks"]

    class Box:
        def __init__(self, inner):
            self.inner = inner

    torch.utils._pytree.register_pytree_node(Box, lambda b: ([b.inner], None), lambda parts, _: Box(*parts))
    with pytest.raises(Uncacheable, match=r"the unpack hook.*Box"):
        key_under(traced(same), make_fx(lambda b: b.inner + 1)(Box(X)))


@torch.fx.wrap
def rounded(x):
    return x.round()


@torch.fx.wrap
def floored(x):
    return x.floor()


def wrapping(user_hash, function=None):
    gm = traced((lambda x: floored(x)) if function is floored else (lambda x: rounded(x)))
    for node in gm.graph.nodes:
        if node.meta.get("is_wrapped"):
            node.meta["user_cache_hash"] = user_hash
    return gm


def test_a_wrapped_call_is_its_functions_name_and_hash():
    """Two functions with the hash "v1" are two; another hash is another function."""
    base = key_under(wrapping("v1"), traced(same))
    assert changed(base, key_under(wrapping("v1"), traced(same))) == set()
    assert changed(base, key_under(wrapping("v2"), traced(same))) == {"hooks"}
    assert changed(base, key_under(wrapping("v1", floored), traced(same))) == {"hooks"}
    assert changed(base, key_under(traced(same), wrapping("v1"))) == {"hooks"}


@pytest.mark.parametrize("user_hash", [None, "", 0])
def test_no_hash_is_a_bypass_that_says_what_to_do(user_hash):
    """As torch, which takes an empty one for none."""
    with pytest.raises(Uncacheable, match=r"the unpack hook.*rounded \(.*test_hook_keys.py:\d+\).*cache_hash") as why:
        key_under(traced(same), wrapping(user_hash))
    assert why.value.cause is Cause.WRAPPED_CALL


def test_a_hash_without_identity_is_refused():
    """`repr` of an object holds its address."""
    assert key_under(wrapping(("v", 1)), traced(same))
    with pytest.raises(Uncacheable, match=r"set it to a string") as why:
        key_under(wrapping(object()), traced(same))
    assert why.value.cause is Cause.WRAPPED_CALL


def test_what_torch_and_python_define_needs_no_hash():
    """A symbolic trace wraps the functions of `math` by itself."""
    pair = traced(lambda x: x * math.sqrt(x.shape[0])), traced(lambda x: x * math.exp(x.shape[0]))
    assert [node.meta["is_wrapped"] for gm in pair for node in gm.graph.nodes if node.meta.get("is_wrapped")]
    assert changed(*[key_under(gm, traced(same)) for gm in pair]) == {"hooks"}


@pytest.mark.parametrize(("requires_grad", "grad_mode"), [(False, True), (True, False)])
def test_a_graph_without_a_backward_has_no_hooks(requires_grad, grad_mode):
    """Nothing is inlined: other hooks, another hash or none at all give the same key."""
    how = {"requires_grad": requires_grad, "grad_mode": grad_mode}
    bare = key_under(same, same, **how)
    for pair in ((traced(PACK), traced(UNPACK)), (wrapping("v1"), traced(same)), (wrapping(None), traced(same))):
        assert changed(bare, key_under(*pair, **how)) == set()
    assert bare.texts()["hooks"] == ""


def turns_grad_on(x):
    with torch.enable_grad():
        return x.sin().exp()


def test_a_graph_that_turns_grad_on_itself_has_its_hooks():
    """Called under no_grad, it has a backward all the same."""
    pairs = (traced(PACK), traced(UNPACK)), (traced(PACK), traced(lambda x: x.to(torch.float32) * 2))
    assert changed(*[key_under(*pair, grad_mode=False, function=turns_grad_on) for pair in pairs]) == {"hooks"}


def test_hooks_that_autograd_calls_at_run_time_are_in_no_key():
    """Plain functions, or one of the pair."""
    bare = key_under(same, same)
    assert changed(bare, key_under(lambda x: x * 2, lambda x: x / 2)) == set()
    assert changed(bare, key_under(traced(same), same)) == set()


def edited(gm):
    for node in gm.graph.nodes:
        if node.op == "call_function":
            node.args = (node.args[0], 3)
    return gm


def with_module_hook(gm):
    gm.register_forward_hook(lambda module, args, out: out * 2)
    return gm


def with_another_forward(gm):
    gm.forward = lambda x: x * 7
    return gm


class Own(torch.fx.GraphModule):
    def __call__(self, x):
        return super().__call__(x) * 7


ODD = {
    "recompile": edited,
    "module hooks": with_module_hook,
    "forward": with_another_forward,
    "Own": lambda gm: Own(torch.nn.Module(), gm.graph),
}


@pytest.mark.parametrize("name", ODD)
def test_a_hook_that_does_not_do_what_its_graph_says_is_refused(name):
    """AOTAutograd calls the module; its graph is only what it was made from."""
    with pytest.raises(Uncacheable, match=f"the pack hook.*{name}"):
        key_under(ODD[name](traced(lambda x: x * 2)), traced(same))


def test_an_edited_hook_that_was_recompiled_is_keyed_as_it_is_now():
    """The cure that the refusal names."""
    gm = edited(traced(lambda x: x * 2))
    gm.recompile()
    assert changed(key_under(gm, traced(same)), key_under(traced(lambda x: x * 3), traced(same))) == set()


def of_graph(gm):
    """The key of a fixed graph with `gm` as its pack hook: what Dynamo itself refuses to trace, as of torch 2.13."""
    main = make_fx(lambda x: x + 1)(X)
    hooks = (Hook("pack", gm), Hook("unpack", traced(same)))
    return key_of(main, [X], KeyContext(compiler={}, hooks=hooks))


def test_a_hooks_tensors_are_part_of_the_key_by_content():
    """A scale that the hook holds."""

    def scaled(by):
        scale = torch.tensor(by)
        return make_fx(lambda x: x * scale)(X)

    assert changed(of_graph(scaled(2.0)), of_graph(scaled(2.0))) == set()
    assert changed(of_graph(scaled(2.0)), of_graph(scaled(3.0))) == {"hooks"}


def test_bodies_of_operators_inside_a_hook_are_part_of_the_key():
    """`cond` calls graphs that hang on the hook."""

    def branching(by):
        return make_fx(lambda x: torch.cond(x.sum() > 0, lambda x: x * by, lambda x: x + 1, (x,)))(X)

    assert changed(of_graph(branching(2)), of_graph(branching(2))) == set()
    assert changed(of_graph(branching(2)), of_graph(branching(3))) == {"hooks"}


def test_an_offloading_hook_makes_the_key_speak_of_the_cpu():
    """Code generated for a graph on a GPU then runs on the CPU as well."""
    x = torch.ones(3, device="meta")
    main = make_fx(lambda x: x + 1)(x)
    for pack, cpu in ((lambda x: x.cpu(), True), (lambda x: x.to("cpu"), True), (lambda x: x * 2, False)):
        found = key_of(main, [x], KeyContext(compiler={}, hooks=(Hook("pack", traced(pack)),)))
        assert found.uses_cpu == cpu


def test_which_tensors_the_hooks_are_for_is_part_of_the_key():
    """torch's filtering mode."""
    keys = []
    for mode in ("donated", "no_static", "all"):
        with torch._functorch.config.patch(saved_tensors_hooks_filtering_mode=mode):
            keys.append(key_under(traced(PACK), traced(UNPACK)))
    assert len({key.id for key in keys}) == 3
    assert changed(keys[0], keys[1]) == {"compiler"}


def test_hooks_that_dynamo_did_not_see_are_refused():
    """A graph that somebody else hands to the backend: its hooks' custom operators would be in no part."""
    main = make_fx(lambda x: x + 1)(X)
    with saved_tensors_hooks(traced(PACK), traced(UNPACK)), pytest.raises(Uncacheable, match="Dynamo"):
        key_context(main, [X.clone().requires_grad_()], "warmgraph")
