"""The state around a frame, and the key under which its records lie: all that is known before values are compared."""

from __future__ import annotations

import collections.abc
import contextlib
import functools
import importlib.util
import logging
import sys
import types
import warnings
from typing import Any

from msgspec import Struct
from warmgraph.hashing import Uncacheable, ambient_state, encode, function_of_package, sha256_hex, source_digest
from warmgraph.hashing import toolchain as installed

from ..torch_api.changes.functions import patched_dynamo
from ..torch_api.frames import state
from ..torch_api.frames.hook import Frame
from ..torch_api.frames.plain import NotServed, Refused
from ..torch_api.frames.ran import RANKS_IN_CPP, asks_ranks
from ..torch_api.frames.seen import Seen
from .codes import code_digest
from .held import short
from .program import program
from .record import FORMAT, Record
from .values import Values


class Around(Struct, frozen=True):
    """state: of the process, name -> text; part of a frame's key. program: its files (`program`), which are not, so
    that what an edit changed can be told.
    """

    state: dict[str, str]
    program: dict[str, str]

    @property
    def program_digest(self) -> str:
        return short("\n".join(f"{name} {digest}" for name, digest in self.program.items()), 24)


class Address(Struct, frozen=True):
    """Where records of a frame lie, and the state for which they were made."""

    key: str
    around: Around

    @property
    def where(self) -> tuple[str, str]:
        return self.key, self.around.program_digest


def addresses(frame: Frame) -> list[Address]:
    """This process's own; in a job of ranks also what any rank of any job may restore. Raises Refused."""
    own = world()
    found = [own]
    if own.state[_RANKS]:
        found.append(Around({**own.state, _RANKS: "any"}, own.program))
    lines = _lines(frame, Values())
    return [Address(_key(lines, around), around) for around in found]


def serves_every_rank(record: Record, seen: Seen) -> bool:
    """Whether nothing went into a record that is this rank's own and not compared: no code that knows of ranks was
    traced or ran, nothing that is compared has a group, a mesh or a placement in it, and no graph names a group.
    """
    if seen.tells_rank or any(map(asks_ranks, seen.inlined)) or any(RANKS_IN_CPP in text for text in record.texts):
        return False
    return not any(piece["groups"] for graph in record.graphs.values() for piece in graph["pieces"])


_RANKS = "ranks"  # among the words of `state`


def world() -> Around:
    """Raises Refused in surroundings that no record speaks of."""
    state.refuse_modes()
    words = {**state.words(), "ambient": short(encode(sorted(map(list, ambient_state(True).items()))), 24)}
    words["abstract classes"] = "\n".join(hooks_of_packages().values())
    words["warnings"] = _warnings_that_raise()
    words["Dynamo"] = _patches_of_dynamo()
    return Around(words, program())


def _patches_of_dynamo() -> str:
    """What code outside torch put into Dynamo, by all that it reaches. Raises Refused where that does not come out."""
    try:
        return "\n".join(f"{name} {source_digest(value, name)}" for name, value in sorted(patched_dynamo().items()))
    except Uncacheable as why:
        raise NotServed(f"Dynamo is patched: {why}") from None


def _warnings_that_raise() -> str:
    """Python's filters, where one makes an error of what is warned of while a frame is traced (a loss that broadcasts):
    a restored one warns of nothing.
    """
    last = max((number for number, one in enumerate(warnings.filters) if one[0] == "error"), default=-1)
    return str([[getattr(part, "pattern", part) for part in one] for one in warnings.filters[: last + 1]])


def hooks_of_packages() -> dict[types.CodeType, str]:
    """What packages made Python's abstract classes answer (frozendict's `MutableMapping.__subclasshook__`), by the
    package: it runs wherever a trace asks for an instance.
    """
    found: dict[types.CodeType, str] = {}
    for cls in _ABSTRACT:
        hook = getattr(vars(cls).get("__subclasshook__"), "__func__", None)
        package = (getattr(hook, "__module__", None) or "").partition(".")[0]
        if type(hook) is types.FunctionType and package in _HOOKING:
            with contextlib.suppress(Uncacheable):  # then whatever runs it is refused
                text = function_of_package(hook, package)
                found |= {} if text is None else {hook.__code__: f"{cls.__name__} {text}"}
    return found


_HOOKING = ("frozendict",)  # einx imports it; what it answers depends on nothing that a program sets
_ABSTRACT = [cls for cls in vars(collections.abc).values() if isinstance(cls, type)]


def _key(lines: list[str], around: Around) -> str:
    text = "\n".join([*lines, *(f"{name} {text}" for name, text in sorted(around.state.items()))])
    return f"wg1{sha256_hex(text.encode('utf-8', 'surrogatepass'))}"


def _lines(frame: Frame, values: Values) -> list[str]:
    """Of the key what is no state. Kinds of arguments are there only so that few records share one. Raises Refused."""
    code = frame.code
    state.refuse_taught(code)
    module = frame.globals.get("__name__") if not code.co_name.startswith("torch_dynamo_resume") else "resume"
    return [
        f"frame {FORMAT}",
        toolchain(),
        _settings(values),
        f"{getattr(code, 'co_qualname', code.co_name)} {code_digest(code)} {module}",
        code.co_linetable.hex(),  # lines within the function: what tracebacks and warnings name
        state.named_backend(frame.backend),
        str(frame.one_graph),
        *sorted(_kind(name, value) for name, value in frame.locals.items()),
    ]


def _kind(name: str, value: Any) -> str:
    training = getattr(value, "training", "") if hasattr(type(value), "train") else ""
    return f"{name} {type(value).__qualname__} {training}"


@functools.cache
def toolchain() -> str:
    """torch to the file and Python to its build: whatever may be folded in while tracing."""
    return short(encode([[name, value] for name, value in sorted(installed().items())]) + sys.version, 24) + (
        importlib.util.MAGIC_NUMBER.hex()
    )


def _settings(values: Values) -> str:
    return short("\n".join(f"{name}={_setting(value, values)}" for name, value in state.settings()), 24)


def _setting(value: Any, values: Values) -> str:
    if isinstance(value, (set, frozenset)):
        return f"{{{','.join(sorted(_setting(item, values) for item in value))}}}"
    if isinstance(value, dict):
        return f"{{{','.join(sorted(_setting(k, values) + ':' + _setting(v, values) for k, v in value.items()))}}}"
    if isinstance(value, (list, tuple)):
        return f"[{','.join(_setting(item, values) for item in value)}]"
    if isinstance(value, types.FunctionType):
        return values.function(value, strict=False)
    try:
        if isinstance(value, types.MethodType) and isinstance(value.__self__, logging.Logger):
            return f"{_setting(value.__func__, values)} of {_logger(value.__self__)}"  # of `ignore_logging_functions`
        return values.key(value)
    except Refused as why:
        raise Refused(f"a setting of Dynamo's: {why}") from None


def _logger(logger: logging.Logger) -> str:
    if logging.getLogger(logger.name) is not logger:
        raise Refused("a method of a logger that no name finds")
    return f"the logger {logger.name}"
