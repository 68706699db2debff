"""A record against a live frame: if every fingerprint is what it was, the output of the trace again, without a trace.

Raises Refused with the first thing that moved; what was installed until then is removed.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from warmgraph.hashing import Uncacheable, describing_once, policy_text

from ..torch_api.frames import guards as dynamo
from ..torch_api.frames import resume, sizes, state
from ..torch_api.frames.acting import ask
from ..torch_api.frames.dynamic_sizes import may_be_told, profile_scope
from ..torch_api.frames.hook import Frame
from ..torch_api.frames.optimizers import prepare
from ..torch_api.frames.orders import hash_seed
from ..torch_api.frames.plain import Refused, code_from_plain, from_plain, loaded, named, placed, to_plain
from ..torch_api.frames.restored import Parts, Restored
from ..torch_api.frames.sources import Live, Source, read_sources
from .codes import untraced
from .graphs import operator_named, plain_operator, policy_at, with_lifted
from .program import differing
from .reached import globals_held, globals_of, one_text, reach, sharing_of, space_at
from .record import Record
from .rules import Looking, space_text, surface_text
from .traced import OF_OPERATORS, moved_code
from .values import Values
from .world import Around

LoadGraph = Callable[[Any, list[torch.Tensor]], Callable[..., Any]]
Place = Callable[[types.CodeType], types.CodeType]


@describing_once()
def restore(record: Record, frame: Frame, around: Around, load: LoadGraph, *, profiles: bool) -> Restored:
    """load: gives the callable for one of `record.graphs`, or raises Refused; it is given inputs of the frame that wrap
    tensors. profiles: whether sizes may be dynamic because they varied in another process.
    """
    if record.state != around.state:
        names = [name for name in around.state if record.state.get(name) != around.state[name]]
        raise Refused(f"the state around: {', '.join(names)}")
    if record.seed is not None and record.seed != hash_seed():
        raise Refused("it iterates over a set of texts, which this process puts in another order (PYTHONHASHSEED)")
    learnt = profiles and may_be_told() and record.scope == list(profile_scope())
    if not learnt and sizes.vary(record.pgo) and not sizes.are_known(frame.code, frame.closure):
        raise Refused("its sizes varied in another process, and no profile says so here")
    if (name := sizes.more_varies(frame.code, frame.closure, record.pgo)) is not None:
        raise Refused(f"the sizes of {name} have varied in this process, and a trace would make them dynamic")
    rename = {name: state.fresh_name(kind) for name, kind, _ in record.installed}
    live = Live(frame.locals, frame.globals)
    with _told_how_far(live), ExitStack() as undo:
        cleanups: list[Any] = []

        def put(name: str, value: Any) -> None:
            hook = state.install_global(frame.globals, rename[name], value)
            undo.callback(hook)
            cleanups.append(hook)

        _import(record, frame)
        for name, kind, data in record.installed:  # guards look through these
            if kind == "builtins":
                put(name, state.get_builtins_dict(frame.globals))
            elif kind == "module":
                put(name, loaded(data))
            elif kind == "named":
                put(name, _named(*data))
            elif kind == "scope" and isinstance(data, list):
                put(name, globals_of(*data))
        sources = read_sources(record.sources, rename, live)
        for name, kind, data in record.installed:
            if kind == "scope" and isinstance(data, int):
                put(name, globals_held(live(sources[data])))
        if record.optimizers:  # before the values are looked at, some of which this makes
            _refuse_other_program(record, around)
            for number, calls in record.optimizers:
                undo.callback(prepare(live(sources[number]), calls))
        for name, kind, data in record.installed:
            if kind == "optimizer":
                put(name, weakref.ref(live(sources[data])))
        known: Any = {sources[number]: tuple(row) for number, *row in record.sizes}
        look = Looking(live, known, set(record.asked), tuple(frame.closure or ()), ordered=record.seed is not None)
        rows = (*record.guards, *record.facts)
        wrapping = [look.live(sources[number]) for number, kind, *_ in rows if kind == dynamo.ON_SUBCLASS]
        running = dynamo.running([(kind, sources[number]) for number, kind, *_ in rows], look.live)
        guards = _compare(record, frame, sources, look, running)
        _refuse_other_program(record, around)  # the others say more
        _call_again(record, sources, look)  # last: this runs code of the user's
        place = _placing(record, frame, rename)
        parts = _parts(record, frame, sources, guards, look, rename, place)
        restored = Restored(parts, frame, cleanups, look.live.known)
        graphs = with_lifted(record.graphs, lambda number: look.live(sources[number]))
        for name, kind, data in record.installed:  # last: a record whose guards do not hold loads nothing
            if kind == "graph":
                put(name, load(graphs[name], wrapping))
            elif kind == "resume":
                put(name, resume.make_resume(data, rename, frame.globals, frame.code, place))
        _leave_as_traced(record, frame, sources, look)
        undo.pop_all()
    return restored


def _refuse_other_program(record: Record, around: Around) -> None:
    if (moved := differing(record.program, around.program)) is not None:
        raise Refused(moved)


@contextmanager
def _told_how_far(live: Live) -> Iterator[None]:
    try:
        yield
    except Refused as why:
        why.values_read = len(live.known)
        raise


def _placing(record: Record, frame: Frame, rename: dict[str, str]) -> Place:
    """Gives code of the record the file and the lines that the frame has in this process."""
    was = _code(record, frame, rename)
    lines = frame.code.co_firstlineno - was.co_firstlineno
    return lambda code: placed(code, was.co_filename, frame.code.co_filename, lines)


def _code(record: Record, frame: Frame, rename: dict[str, str]) -> types.CodeType:
    return frame.code if record.given_up is not None else code_from_plain(record.code, rename)


def _import(record: Record, frame: Frame) -> None:
    for alias, name in record.imports.items():
        if frame.globals.setdefault(alias, loaded(name)) is not sys.modules[name]:
            raise Refused(f"{alias} is something else")


def _named(module: str, path: str, text: str) -> Any:
    found = named(module, path)
    _same(text, Values().identity(found), f"{module}.{path}")
    return found


def _called_at(place: Any, sources: list[Source], look: Looking) -> Any:
    if isinstance(place, int):
        return look.live(sources[place])
    module, path = place
    return plain_operator(path) if module == OF_OPERATORS else named(module, path)


def _asked_at(place: Any, sources: list[Source], look: Looking) -> Any:
    """Of a policy, which compares operators and calls none."""
    if isinstance(place, list) and place[0] == OF_OPERATORS:
        return operator_named(place[1])
    return _called_at(place, sources, look)


def _compare(
    record: Record, frame: Frame, sources: list[Source], look: Looking, running: list[torch.Tensor]
) -> list[Any]:
    """The guards, all of which are about what they were about. running: inputs for which code of their classes runs."""
    called = [_called_at(place, sources, look) for place, _ in record.called]
    look.untraced.update(untraced([*running, *called]))
    guards = []
    for guarded, rows in ((True, record.guards), (False, record.facts)):
        for number, kind, packed, text in rows:
            guard = dynamo.make_guard(sources, number, kind, packed)
            if text is not None:
                now = look.text(sources[number], kind, dynamo.arguments_of(guard, kind))
                _same(record.texts[text], now, kind, sources[number])
            if guarded:
                guards.append(guard)
    for number, text in record.surfaces:
        _same(record.texts[text], surface_text(look, sources[number]), "the names or keys", sources[number])
    for place, text in record.spaces:
        now = space_text(space_at(place, frame, sources, look), record.asked, record.looked_for)
        _same(text, now, f"which names are there in {place or 'its module'}")
    lifted = (sources[n] for one in record.graphs.values() for piece in one["pieces"] for n in piece["lifted"])
    if sharing_of(sources, look, lifted) != record.sharing:
        raise Refused("other tensors are one, or share memory")
    if one_text(sources, look, names=record.names) != record.one:
        raise Refused("other values are one object")
    inlined = [(module, path, record.texts[text]) for module, path, text in record.inlined]
    if (moved := moved_code(inlined, look.values)) is not None:
        raise Refused(moved)
    for value, (_, text) in zip(called, record.called, strict=True):
        name = getattr(value, "__qualname__", str(value))
        _same(record.texts[text], look.untraced[id(value)], f"{name}, which runs while it is traced")
    for place, text in record.policies:
        policy = policy_at(place, lambda one: _asked_at(one, sources, look))
        _same(record.texts[text], _does(policy), "what a checkpoint's context_fn does")
    free = [sources[number] for number in record.free]
    walk, found = reach(frame, look, sources, record.spaces, free, names=record.names, everything=record.everything)
    if found != record.reached:
        raise Refused(f"{walk.first_that_differs(record.reached, found)}: it is, or holds, something else")
    for number, place in record.places:
        if walk.place(look.live(sources[number])) != place:
            raise Refused(f"{sources[number].name} is another module")
    return guards


def _does(policy: Any) -> str:
    try:
        return policy_text(policy)
    except Uncacheable as why:
        raise Refused(str(why)) from None


def _call_again(record: Record, sources: list[Source], look: Looking) -> None:
    """Functions marked with `assume_constant_result`, as a trace would call them."""
    used: set[int] = set()
    for number, given, named_ones, was in record.assumed:
        function = look.live(sources[number])
        arguments = from_plain(given), {key: from_plain(one) for key, one in named_ones.items()}
        try:
            now = to_plain((ask(function, *arguments, [given, named_ones], used),))
        except Exception as error:  # noqa: BLE001 - of the user's code
            raise Refused(f"{sources[number].name}, an assumed constant: {error!r:.200}") from None
        _same(str(was), str(now), "an assumed constant", sources[number])


def _same(was: str, now: str, what: str, of: Source | None = None) -> None:
    if was != now:
        raise Refused(f"{what}{f' of {of.name}' if of is not None else ''}: was {was[:200]}, is {now[:200]}")


def _parts(
    record: Record,
    frame: Frame,
    sources: list[Source],
    guards: list[Any],
    look: Looking,
    rename: dict[str, str],
    place: Place,
) -> Parts:
    return Parts(
        code=frame.code,
        bytecode=place(_code(record, frame, rename)),
        guards=guards,
        alias_guards=[dynamo.read_alias(item, sources) for item in record.alias],
        key_order=[sources[number] for number in record.key_order],
        sizes={source: (size, stride) for source, (size, stride, _) in look.sizes.items()},
        shape=(record.shape[0], record.shape[1]),
        builtins=rename.get(record.builtins) if record.builtins is not None else None,
        error_on_graph_break=record.error_on_graph_break,
        empty=record.empty,
        side_effects=record.side_effects,
    )


def _leave_as_traced(record: Record, frame: Frame, sources: list[Source], look: Looking) -> None:
    """What a trace leaves behind: what it learnt of sizes, and marks on static inputs. Last, as nothing undoes it."""
    for source, (_, _, marked) in look.sizes.items():
        if marked:
            sizes.mark_static(look.live(source))
    sizes.restore_sizes(frame.code, frame.closure, record.pgo)
