"""Tensor subclasses that hold nothing of their own: what they do of torch's calls is in the key, the rest is not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._C import DisableTorchFunctionSubclass
from warmgraph.hashing import Uncacheable
from warmgraph.hashing.parts.thin import thin_text


class Onwards(torch.nn.Parameter):
    loader = open

    def __init__(self, data: torch.Tensor) -> None:
        self.told = str(data)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_function__(func, types, args, kwargs or {})


def of(**members: Any) -> str:
    """The text of a tensor of one class, found by one name, with these members."""
    kind = type("Made", (torch.nn.Parameter,), {"__module__": __name__, **members})
    globals()["Made"] = kind
    return thin_text(torch.Tensor._make_subclass(kind, torch.ones(2)))


def doubled(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    return func(*args, **(kwargs or {})) * 2


def tripled(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    return func(*args, **(kwargs or {})) * 3


def test_what_it_does_of_torchs_calls_is_in_the_text() -> None:
    first, second = (of(__torch_function__=classmethod(one)) for one in (doubled, tripled))
    assert first == of(__torch_function__=classmethod(doubled))
    assert len({of(), first, second}) == 3


def test_what_loads_it_is_not() -> None:
    assert of(loader=open) == of(loader=print) == of()
    assert "Onwards" in thin_text(Onwards(torch.ones(2)))


def test_nor_is_how_it_is_moved_and_kept() -> None:
    """As bitsandbytes' parameters are: torch moves no input while it compiles."""
    moved = {name: lambda self, *args: self for name in ("to", "cpu", "cuda", "xpu", "__copy__", "__getstate__")}
    assert of(**moved) == of()


def clocked(cls: type, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    import time

    return func(*args, **(kwargs or {})) * time.time()


@pytest.mark.parametrize(
    "members",
    [
        {"dim": lambda self: 3},
        {"shape": property(lambda self: (3,))},
        {"__getattr__": lambda self, name: 3},
        {"__getattribute__": lambda self, name: 3},
        {"__torch_dispatch__": classmethod(doubled)},
        {"__torch_function__": classmethod(clocked)},
    ],
    ids=["method", "property", "any attribute", "every attribute", "dispatch", "clock"],
)
def test_one_that_answers_in_torchs_place_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(Uncacheable, match="Made"):
        of(**members)


class Asks(torch.Tensor):
    """As torchvision's `tv_tensors`: properties that ask the tensor itself."""

    @property
    def shape(self) -> Any:
        with DisableTorchFunctionSubclass():
            return super().shape

    @property
    def device(self, *args: Any, **kwargs: Any) -> Any:
        with DisableTorchFunctionSubclass():
            return super().device

    @property
    def dtype(self) -> Any:
        return super().dtype


class AsksForMore(Asks):
    @property
    def ndim(self) -> Any:
        return super().ndim + 1


class AsksForOther(Asks):
    @property
    def ndim(self) -> Any:
        return super().itemsize


class AsksOutside(Asks):
    @property
    def ndim(self) -> Any:
        return super(torch.Tensor, self).ndim


class Sets(Asks):
    ndim = property(Asks.dtype.fget, lambda self, value: None)


class Borrows(Asks):
    dtype = Asks.dtype


def test_a_property_that_asks_the_tensor_itself_is_none() -> None:
    assert "Asks" in thin_text(torch.ones(2).as_subclass(Asks))


@pytest.mark.parametrize(
    "kind", [AsksForMore, AsksForOther, AsksOutside, Sets, Borrows], ids=lambda kind: kind.__name__
)
def test_one_that_does_more_is(kind: type[torch.Tensor]) -> None:
    with pytest.raises(Uncacheable, match="in torch's place"):
        thin_text(torch.ones(2).as_subclass(kind))


def test_what_it_calls_torchs_may_be_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name that turns its `__torch_function__` off, and Python's `super`."""
    monkeypatch.setitem(globals(), "super", lambda *args: Asks)
    with pytest.raises(Uncacheable, match="shape"):
        thin_text(torch.ones(2).as_subclass(Asks))
    monkeypatch.delitem(globals(), "super")
    monkeypatch.setitem(globals(), "DisableTorchFunctionSubclass", torch.no_grad)
    with pytest.raises(Uncacheable, match="shape, device in"):
        thin_text(torch.ones(2).as_subclass(Asks))


class Meta(type(torch.Tensor)):  # type: ignore[misc]
    """Answers for its classes."""


def test_a_class_of_a_class_is_refused() -> None:
    class Local(torch.Tensor, metaclass=Meta):
        pass

    globals()["Local"], Local.__qualname__ = Local, "Local"
    with pytest.raises(Uncacheable, match="metaclass"):
        thin_text(torch.ones(2).as_subclass(Local))


def test_nor_is_that_it_was_copied() -> None:
    """`copyreg` then notes on the class which slots it has."""
    tensor = Onwards(torch.ones(2))
    before = thin_text(tensor)
    Onwards.__slotnames__ = []  # type: ignore[attr-defined]
    assert thin_text(tensor) == before
    del Onwards.__slotnames__  # type: ignore[attr-defined]
