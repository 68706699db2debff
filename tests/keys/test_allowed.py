"""Functions of the user's that torch calls in a graph as they are: keyed by what they do, einops by all of its code."""

from __future__ import annotations

import dataclasses
import functools
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import einops
import einops._backends
import pytest
import torch
from warmgraph.hashing import Uncacheable
from warmgraph.hashing.parts.allowed import allowed_call

from .both_keys import trace

X = torch.arange(12.0).reshape(3, 4) / 7


def scaled(by: Any) -> Callable[[Any], Any]:
    return torch._dynamo.allow_in_graph(lambda x: x * by)


def key(function: Callable[..., Any], *inputs: Any) -> str | None:
    (graph,) = trace(function, *inputs).graphs
    return graph.id


def called(by: Any) -> str | None:
    allowed = scaled(by)
    return key(lambda x: allowed(x) + 1, X)


def test_what_it_does_is_in_the_key() -> None:
    assert called(2.0) == called(2.0) != called(3.0)


def test_what_nothing_describes_is_refused_by_name() -> None:
    class Holder(threading.local):
        by = 2

    with pytest.raises(
        Uncacheable, match=r"a call of scaled.*, a function outside torch: .*Holder has no stable ident"
    ):
        allowed_call(scaled(Holder()))
    with pytest.raises(Uncacheable, match=r"a call of .*Holder, a function outside torch: it is a class"):
        allowed_call(Holder)


@dataclasses.dataclass
class Config:
    by: float


class Pair(NamedTuple):
    by: float


def test_plain_data_that_is_made_in_a_graph_has_a_text() -> None:
    texts = {allowed_call(kind) for kind in (Config, Pair)}
    assert len(texts) == 2
    assert all("code" in text for text in texts)


def function_of(by: float) -> Any:
    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * by

    return torch._dynamo.allow_in_graph(Scaled)


def test_an_autograd_functions_backward_is_in_the_key() -> None:
    def called(by: float) -> str | None:
        scaled = function_of(by)
        return key(lambda x: scaled.apply(x) + 1, X.clone().requires_grad_())

    assert called(2.0) == called(2.0) is not None
    assert called(2.0) != called(3.0)


def rearranged() -> str | None:
    return key(lambda x: einops.rearrange(x, "a b -> (b a)") + 1, X)


def test_einops_is_known_by_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its tables hold by now."""
    before = rearranged()
    assert before is not None
    einops.rearrange(X.double().numpy(), "a b -> b a")
    assert rearranged() == before
    assert key(lambda x: einops.rearrange(x, "b a -> (b a)") + 1, X) != before
    monkeypatch.setattr(einops._backends.TorchBackend, "reduce", lambda self, x, operation, axes: x)
    assert "is not einops' own" in trace(lambda x: einops.rearrange(x, "a b -> (b a)") + 1, X).graphs[0].why
    monkeypatch.undo()
    monkeypatch.setattr(sys.modules["einops.einops"].reduce, "__defaults__", ("sum",))
    assert rearranged() != before


def test_a_users_wrapper_is_not_einops_own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["einops.einops"]
    inner = module._apply_recipe

    @functools.wraps(inner)
    def around(*args: Any, **kwargs: Any) -> Any:
        return inner(*args, **kwargs) * 2

    before = allowed_call(einops.rearrange)
    einops.rearrange(X, "a b -> b a")  # its caches are filled, and torch may wrap them
    assert allowed_call(einops.rearrange) == before
    monkeypatch.setattr(module, "_apply_recipe", around)
    with pytest.raises(Uncacheable, match="_apply_recipe is not einops' own"):
        allowed_call(einops.rearrange)


def test_a_class_without_a_name_of_its_own_is_refused() -> None:
    made = dataclasses.make_dataclass("Made", [("by", float)])
    with pytest.raises(Uncacheable, match="a call of Made"):
        allowed_call(made)


def test_a_backend_that_einops_was_taught_is_refused() -> None:
    class Taught(einops._backends.AbstractBackend):
        framework_name = "taught"

    with pytest.raises(Uncacheable, match="einops was taught a backend"):
        allowed_call(einops.rearrange)
    Taught.__bases__ = (type("Other", (), {}),)
