"""By which names `getattr` may ask, as bytecode says: what is missed here is missing in keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from warmgraph.hashing.source_code.references import reach_of

ANY = [
    lambda o, x, k: getattr(o, "rule_%s" % k)(x),  # noqa: UP031
    lambda o, x, k: getattr(o, "do_{}".format(k))(x),  # noqa: UP032
    lambda o, x, k: getattr(o, "_".join(["a", k]))(x),
    lambda o, x, k: getattr(o, k.lower())(x, k),
    lambda o, x, k: getattr(o, k.replace("a", "b"))(x),
    lambda o, x, k: getattr(o, "a_" + k)(x),
    lambda o, x, k: getattr(*k)(x),
    lambda o, x, k: vars(o)[k.lower()](x),
]
WRITTEN = [
    lambda o, x, k: getattr(o, "scale")(x),  # noqa: B009
    lambda o, x, k: getattr(o, k)(x),
    lambda o, x, k: getattr(o, "a", None) or getattr(o, k, None),
    lambda o, x, k: [getattr(o, name)(x) for name in ("a", "b")],
    lambda o, x, k: getattr(o.inner(x), "name", 3),
    lambda o, x, k: getattr(o(x, key=1), "name")(x, other=2),  # noqa: B009
    lambda o, x, k: max(getattr(o, "left")(x), getattr(o, "right")(x, k)),  # noqa: B009
    lambda o, x, k: vars(o)["x"](x),
]


@pytest.mark.parametrize("function", ANY)
def test_names_that_are_put_together_may_be_any(function: Callable[..., Any]) -> None:
    assert reach_of(function.__code__).asks_any


@pytest.mark.parametrize("function", WRITTEN)
def test_names_that_stand_in_the_code_are_known(function: Callable[..., Any]) -> None:
    assert reach_of(function.__code__).asks
    assert not reach_of(function.__code__).asks_any


def variable_of_a_table(o: Any, k: str) -> Any:
    name = "_".join(["rule", k])
    return o.__dict__[name]


def formatted(o: Any, k: str) -> Any:
    return getattr(o, f"scale_{k}")(k)


def test_a_variable_is_no_text() -> None:
    assert reach_of(variable_of_a_table.__code__).asks_any


def test_parts_of_a_formatted_name_are_known() -> None:
    found = reach_of(formatted.__code__)
    assert (found.asks_any, found.parts) == (False, {"scale_"})
