"""What torch's key does not describe and ours does: each attribute that changes what is computed changes the key.

Each pair differs in one thing; the same function keyed twice has one key (in another process: tests/constructs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch._higher_order_ops import associative_scan, scan, while_loop
from torch._library.opaque_object import get_opaque_type_name, register_opaque_type
from torch.func import jvp
from warmgraph.backend.key.context import key_context
from warmgraph.backend.key.saved_tensors_hooks import unsafe_reason
from warmgraph.backend.torch_api import versions
from warmgraph.hashing import key_of

try:  # since 2.14
    from torch._custom_class_base import CustomClassBase as OpaqueBase
except ImportError:
    from torch._opaque_base import OpaqueBase

X = torch.arange(12.0).reshape(3, 4) / 7


def keys(function: Callable[..., Any], *inputs: Any) -> list[str]:
    """Of each graph of `function`; none of them is refused."""
    found = []

    def backend(gm: torch.fx.GraphModule, given: Any) -> Any:
        assert unsafe_reason(gm, given) is None
        found.append(key_of(gm, given, key_context(gm, given, "warmgraph")).id)
        return gm.forward

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch.compile(function, backend=backend)(*inputs)
    assert found
    return found


def autocast(inner: dict[str, Any] | None = None, after: int = 1, **options: Any) -> Callable[..., Any]:
    def step(x: torch.Tensor) -> Any:
        with torch.autocast("cpu", **{"dtype": torch.bfloat16, **options}):
            y = x @ x.T
            if inner is not None:
                with torch.autocast("cpu", **inner):
                    y = (y.float() @ x).float()
            if after == 2:
                y = y.T @ y
        if after == 1:
            y = y.T @ y
        return y.float()

    return step


def function_of(
    forward: str = "x.sin() * k", backward: str = "g * x.cos()", k: float = 2.0, marks: bool = False, sets: bool = True
) -> Callable[..., Any]:
    class Made(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, k: float) -> Any:
            ctx.save_for_backward(x)
            ctx.k = k
            ctx.set_materialize_grads(sets)
            y = x.sin() * k if forward == "x.sin() * k" else x.cos() * k
            z = x * 2
            if marks:
                ctx.mark_non_differentiable(z)
            return y, z

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor, h: torch.Tensor) -> Any:
            (x,) = ctx.saved_tensors
            return (g * x.cos() if backward == "g * x.cos()" else g * x.cos() * ctx.k), None

    return lambda x: Made.apply(x, k)[0]


def cond(bound: float = 1.0, yes: float = 2.0, no: float = 3.0, swapped: bool = False) -> Callable[..., Any]:
    def one(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * yes - y

    def other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.sin() * no + y

    return lambda x: torch.cond(x.sum() > bound, one, other, (x + 1, x) if swapped else (x, x + 1))


def loop(until: int = 3, factor: float = 1.5, captured: float = 1.0) -> Callable[..., Any]:
    more = torch.full((4,), captured)
    count = torch.zeros((), dtype=torch.int64)
    return lambda x: while_loop(lambda n, x: n < until, lambda n, x: (n + 1, x * factor + more), (count, x))[1]


def scanned(factor: float = 2.0, **options: Any) -> Callable[..., Any]:
    return lambda x: scan(lambda carry, x: (carry + x, carry * x * factor), torch.ones(4), x, **options)[1]


def scanned_together(product: bool = False, dim: int = 0, **options: Any) -> Callable[..., Any]:
    def combine(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a * b if product else a + b

    return lambda x: associative_scan(combine, x, dim, combine_mode="generic", **options)


def mapped(factor: float = 2.0) -> Callable[..., Any]:
    return lambda x: torch._higher_order_ops.map(lambda row: row.sin() * factor, x)


def derived(power: int = 2, along: float = 1.0) -> Callable[..., Any]:
    return lambda x: jvp(lambda x: x**power, (x,), (torch.full_like(x, along),))[1]


def arrays(operator: str = "*", method: str = "sum", function: str = "sin") -> Callable[..., Any]:
    def step(x: torch.Tensor) -> Any:
        array = x.numpy()
        wave = numpy.sin(array) if function == "sin" else numpy.cos(array)
        more = array.sum() if method == "sum" else array.prod()
        return torch.from_numpy(wave * more if operator == "*" else wave + more)

    return step


class Tag(OpaqueBase):
    """A value of torch's registry."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tag) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Tag({self.text!r})", {"Tag": Tag}


register_opaque_type(Tag, typ="value")
LIBRARY = torch.library.Library("wgdescribed", "DEF")
LIBRARY.define(f"tagged(Tensor x, {get_opaque_type_name(Tag)} tag) -> Tensor")
LIBRARY.impl("tagged", lambda x, tag: x * len(tag.text), "CompositeExplicitAutograd")
torch.library.register_fake("wgdescribed::tagged", lambda x, tag: torch.empty_like(x), lib=LIBRARY)


def tagged(text: str) -> Callable[..., Any]:
    tag = Tag(text)
    return lambda x: torch.ops.wgdescribed.tagged(x, tag)


PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "autocast: dtype": (autocast(), autocast(dtype=torch.float16)),
    "autocast: enabled": (autocast(), autocast(enabled=False)),
    "autocast: cache": (autocast(cache_enabled=True), autocast(cache_enabled=False)),
    "autocast: where it ends": (autocast(after=1), autocast(after=2)),
    "autocast: another inside": (autocast(), autocast({"enabled": False})),
    "autocast: dtype of the one inside": (
        autocast({"dtype": torch.bfloat16}, cache_enabled=False),
        autocast({"dtype": torch.float16}, cache_enabled=False),
    ),
    "autocast: whether the one inside is on": (autocast({"enabled": True}), autocast({"enabled": False})),
    "function: forward": (function_of(), function_of("x.cos() * k")),
    "function: backward": (function_of(), function_of(backward="g * x.cos() * ctx.k")),
    "function: a number that the context keeps": (
        function_of(backward="g * x.cos() * ctx.k", k=2.0),
        function_of(backward="g * x.cos() * ctx.k", k=3.0),
    ),
    "function: an output without gradient": (function_of(), function_of(marks=True)),
    "cond: predicate": (cond(), cond(bound=2.0)),
    "cond: one branch": (cond(), cond(yes=4.0)),
    "cond: other branch": (cond(), cond(no=4.0)),
    "cond: operands": (cond(), cond(swapped=True)),
    "while_loop: condition": (loop(), loop(until=4)),
    "while_loop: body": (loop(), loop(factor=1.25)),
    "scan: body": (scanned(), scanned(3.0)),
    "scan: direction": (scanned(), scanned(reverse=True)),
    "associative_scan: combination": (scanned_together(), scanned_together(product=True)),
    "associative_scan: axis": (scanned_together(), scanned_together(dim=1)),
    "associative_scan: direction": (scanned_together(), scanned_together(reverse=True)),
    "map: body": (mapped(), mapped(3.0)),
    "jvp: function": (derived(), derived(3)),
    "jvp: tangent": (derived(), derived(along=2.0)),
    "opaque: value": (tagged("a"), tagged("b")),
    "numpy: operator": (arrays(), arrays("+")),
    "numpy: method": (arrays(), arrays(method="prod")),
    "numpy: function": (arrays(), arrays(function="cos")),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_differs_is_in_the_key(name: str) -> None:
    if name.startswith("numpy") and versions.at_hand() < (2, 13):
        pytest.skip("bypassed before torch 2.13")
    first, second = PAIRS[name]
    inputs = X.clone().requires_grad_(name.startswith(("function", "cond", "autocast")))
    assert keys(first, inputs) == keys(first, inputs)
    assert keys(first, inputs) != keys(second, inputs)


def test_autocast_without_a_dtype_is_keyed_by_the_processs() -> None:
    """`torch.set_autocast_dtype` changes what the region computes in, and no node says so."""

    def step(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu"):
            return x @ x.T

    before = torch.get_autocast_dtype("cpu")
    first = keys(step, X)
    try:
        torch.set_autocast_dtype("cpu", torch.float16)
        second = keys(step, X)
    finally:
        torch.set_autocast_dtype("cpu", before)
    assert first != second


def jagged(transposed: bool = False, grad: bool = False, **kept: Any) -> torch.Tensor:
    values, offsets = (X.reshape(6, 2) + 1).requires_grad_(grad), torch.tensor([0, 2, 6])
    made = torch.nested.nested_tensor_from_jagged(values, offsets, **kept)
    return made.transpose(1, 2) if transposed else made


@pytest.mark.parametrize(
    "other",
    [
        {"transposed": True},
        {"grad": True},
        {"lengths": torch.tensor([1, 3])},
        {"min_seqlen": 2},
        {"min_seqlen": 2, "max_seqlen": 4},
    ],
    ids=["ragged dimension", "gradient", "holes", "shortest", "longest"],
)
@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo asks it of a tensor that is no leaf
def test_what_a_jagged_tensor_holds_is_in_the_key(other: dict[str, Any]) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        return x.sin() * 2

    assert keys(step, jagged()) == keys(step, jagged())
    assert keys(step, jagged()) != keys(step, jagged(**other))


def test_jagged_tensors_that_share_their_raggedness_are_another_graph() -> None:
    def step(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x * 2, y * 2

    first = jagged()
    assert keys(step, first, first * 3) != keys(step, first, jagged())


def outside(by: Any) -> Any:
    return torch._dynamo.allow_in_graph(lambda x: x * by)


def test_a_users_function_in_a_branch_is_known_by_its_code() -> None:
    """Put into the graph as it is (`allow_in_graph`)."""

    def keyed(by: Any) -> list[str]:
        function = outside(by)
        return keys(lambda x: torch.cond(x.sum() > 0, lambda x: function(x), lambda x: x + 1, (x,)), X)

    assert keyed(2.0) == keyed(2.0) != keyed(3.0)
