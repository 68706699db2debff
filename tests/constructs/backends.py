"""Group 5: one function compiled by several backends in one process: nobody runs another's code. Cases only.

PyTorch's own: dynamo/test_backends.py, dynamo/test_recompiles.py and test_misc.py (`test_backend_match_guard*`,
`test_dynamo_cache_invalidate`), dynamo/test_higher_order_ops.py (`test_cond_with_*`, nested compile in branches).
"""

import itertools
import sys

import torch
from harness import case

WITHOUT_KERNELS = True

# "{}" is the one under test.
BACKENDS = ("{}", "warmgraph_cudagraphs", "inductor", "eager")


@torch.library.custom_op("constructs::who", mutates_args=())
def who(x: torch.Tensor) -> torch.Tensor:
    """Notes which compiled function it was called from: Dynamo gives each a name of its own."""
    frame = sys._getframe()
    while frame is not None:
        names = [name for name in frame.f_code.co_names if name.startswith("__compiled_fn_")]
        if names:
            CALLERS.append(names[0])
            break
        frame = frame.f_back
    else:
        CALLERS.append("eager")
    return x + 1


@who.register_fake
def _(x):
    return torch.empty_like(x)


CALLERS: list[str] = []


# Each backend comes first once, last once, and directly after each other (a Williams square).
FOUR_ORDERS = ((0, 1, 3, 2), (1, 2, 0, 3), (2, 3, 1, 0), (3, 0, 2, 1))


def orders(way, chosen=FOUR_ORDERS):
    """Orders of the backends, each in a fresh Dynamo; in eager, no backend at all."""
    names = [name.format(way.backend) for name in BACKENDS]
    for order in chosen:
        if way.backend is None:
            yield [lambda function: function for _ in order]
        else:
            torch._dynamo.reset()
            yield [lambda function, name=names[place]: torch.compile(function, backend=name) for place in order]


def called(way, compiled, x):
    """The results of each function, twice in turn, and whether each was served by code of its own, the same twice."""
    CALLERS.clear()
    outs = [function(x) for _ in range(2) for function in compiled]
    first, again = CALLERS[: len(compiled)], CALLERS[len(compiled) :]
    own = way.backend is None or (len(set(first)) == len(compiled) and first == again)
    return {"outs": outs, "own code": own}


@case(compiler="plain Inductor")
def one_function_by_every_backend(way):
    """In every order, first calls and second calls: each backend's own code, and equal results."""
    found = []
    for wraps in orders(way, itertools.permutations(range(len(BACKENDS)))):

        def function(x):
            return who(x * 2).sin()

        found.append(called(way, [wrap(function) for wrap in wraps], torch.arange(4.0)))
    return found


@case(compiler="plain Inductor")
def one_module_by_every_backend(way):
    """A module's forward is one code object for all of its compiled copies."""

    class Model(torch.nn.Module):
        def forward(self, x):
            return who(x * 2).cos()

    model = Model()
    return [called(way, [wrap(model) for wrap in wraps], torch.arange(4.0)) for wraps in orders(way)]


@case()
def a_cond_by_every_backend(way):
    """The same, with the branches of a `torch.cond`; each branch's operator is called from the right code."""
    found = []
    for wraps in orders(way):

        def function(x):
            return torch.cond(x.sum() > 0, lambda x: who(x * 2).sin(), lambda x: who(x * 2).cos(), (x,))

        compiled = [wrap(function) for wrap in wraps]
        found.append([called(way, compiled, x) for x in (torch.arange(4.0), -torch.arange(4.0))])
    return found


@case(uncompiled="outside torch.compile, cond compiles itself with the backend eager")
def compiled_branches_of_an_eager_cond(way):
    """A `torch.cond` called eagerly traces into branches of another backend, for a backend of its own."""
    yes = way.compile(lambda x: (x * 2).sin())
    no = way.compile(lambda x: (x * 2).cos())
    return [torch.cond(x.sum() > 0, yes, no, (x,)) for x in (torch.arange(4.0), -torch.arange(4.0))]


@case()
def an_eager_cond_before_and_after(way):
    """The function that cond compiled with its own backend is compiled again, and called eagerly again."""

    def yes(x):
        return (x * 2).sin()

    def no(x):
        return (x * 2).cos()

    def function(x):
        return torch.cond(x.sum() > 0, yes, no, (x,))

    x = torch.arange(4.0)
    before = function(x)
    compiled = way.compile(function)(x)
    alone = way.compile(yes)(x)
    return [before, compiled, alone, function(x), yes(x)]


@case()
def options_make_another_function(way):
    """The same backend with other options is another backend to Dynamo, and another key."""

    def function(x):
        return who(x * 2).sin()

    CALLERS.clear()
    outs = []
    for options in (None, {"epilogue_fusion": False}, None):
        outs.append(way.compile(function, options=options)(torch.arange(4.0)))
    return {"outs": outs, "own code": way.backend is None or (CALLERS[0] == CALLERS[2] != CALLERS[1])}


@case(compiler="plain Inductor")
def eager_code_beside_a_compiled_caller(way):
    """A compiled function that calls one compiled by another backend runs as one graph of the outer backend."""
    inner = torch.compile(lambda x: who(x * 2), backend="inductor") if way.backend else lambda x: who(x * 2)
    outer = way.compile(lambda x: inner(x).sin())
    CALLERS.clear()
    outs = [outer(torch.arange(4.0)), inner(torch.arange(4.0)), outer(torch.arange(4.0))]
    return {"outs": outs, "own code": way.backend is None or (CALLERS[0] == CALLERS[2] != CALLERS[1])}
