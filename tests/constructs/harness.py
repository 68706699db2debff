"""What a case is made of: `@case`, `raised`, and the way it is run. Not the observing (`observe`), nor the comparing.

A case is a function of one argument, `way`, that compiles something small and returns what it saw:

    @case()
    def an_input_is_doubled(way):
        \"\"\"One sentence on what is claimed.\"\"\"
        x = torch.ones(4)
        out = way.compile(lambda x: x.mul_(2))(x)
        return {"out": out, "x": x}

A group whose cases are not about what is computed says `WITHOUT_KERNELS = True`: its graphs call operators one by one,
which spares g++ most of their time.

It runs in fresh processes: eager (`way.compile` gives the function back), cold (an empty store), warm (a copy of that
store, an empty Inductor folder and no compiler on PATH) and, where torch differs from itself, plain Inductor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Raised:
    """An error that a case expects: what `raised` returns, and what is compared."""

    kind: str
    line: str


@dataclass(frozen=True)
class Way:
    """How this process runs its cases. backend: None is eager."""

    name: str
    backend: str | None

    def compile(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """`torch.compile(function, backend=..., **options)`, or `function` itself when eager."""
        return function if self.backend is None else torch.compile(function, backend=self.backend, **options)


# By "group/name". The keywords of the decorator are read from the source (`listing`), in a process without torch.
CASES: dict[str, Callable[[Way], Any]] = {}


def case(**options: Any) -> Callable[[Callable[[Way], Any]], Callable[[Way], Any]]:
    """Registers a case. All keywords are literals:

    bypass: text that the reason of its bypass contains; without it every graph of the case must be a hit when warm.
    compiler: what else is compiled in the case, so that the warm process needs a compiler, too.
    uncompiled: why no graph reaches the backend at all (Dynamo runs it eagerly, or refuses).
    torch_wrong: in one sentence, where torch.compile itself departs from eager. Then `fields` of the observation
        ("value", "version", ...; all when it is empty) are compared with plain Inductor's instead of eager's.
    """

    def register(function: Callable[[Way], Any]) -> Callable[[Way], Any]:
        CASES[f"{function.__module__}/{function.__name__}"] = function
        return function

    return register


def outcome(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What the call returns, or its error: for what eager refuses and a compiled function may not."""
    try:
        return function(*args, **named)
    except Exception as error:
        # Not Dynamo's "backend='warmgraph' raised:", but what it raised.
        lines = [line for line in str(error).strip().split("\n") if not line.startswith("backend='")] or [""]
        return Raised(type(error).__name__, re.sub(r"0x[0-9a-f]+|<eval_with_key>[.\d]+|\b\d{12,}\b", "...", lines[0]))


def raised(function: Callable[..., Any], *args: Any, **named: Any) -> Raised:
    """The error that the call must raise: its type and first line, addresses and generated names taken out."""
    found = outcome(function, *args, **named)
    assert isinstance(found, Raised), "nothing was raised"
    return found
