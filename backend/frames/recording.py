"""A record made of a trace that just ended: everything that it built and all that it may have relied on.

Raises Refused for the first thing that cannot be carried; nothing is left out.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from warmgraph.hashing import describing_once, is_of_ranks

from ..torch_api.frames import guards as dynamo
from ..torch_api.frames import sizes, state
from ..torch_api.frames.acting import acts_while_traced, left_by_dynamo
from ..torch_api.frames.devices import has_user_objects
from ..torch_api.frames.dynamic_sizes import profile_scope
from ..torch_api.frames.hook import Frame, side_effects_of
from ..torch_api.frames.orders import hash_seed
from ..torch_api.frames.plain import Plain, Refused, classes_in, code_to_plain, nested
from ..torch_api.frames.seen import Seen
from ..torch_api.frames.sources import (
    SET_ITEM,
    Live,
    Source,
    SourceTable,
    bases_of,
    global_of,
    is_imported,
    is_of_frame,
    key_source,
    root_of,
)
from .codes import (
    asked_names,
    compares_identity,
    is_chance,
    iterates_over_sets,
    looked_names,
    makes_sets,
    refuse_chance,
    refuse_of_a_process,
    said_beside,
    untraced,
)
from .graphs import operators_left, policy_rows, with_lifted
from .held import keys_of
from .installed import graphs_of, installed_by, lifted_in, optimizers_of
from .reached import everything_is_asked, free_numbers, module_with, one_text, reach, scope_of, sharing_of, spaces_of
from .record import Record, Texts
from .rules import Looking, surface_text
from .traced import (
    assumed_row,
    inlined_facts,
    place_of,
    places_of,
    refuse_unsaid,
    refuse_unsaid_attributes,
    sourceless_facts,
)
from .values import Values
from .world import Around, hooks_of_packages


@describing_once()
def make_record(frame: Frame, output: Any, seen: Seen, shape: dict[str, list[str]], around: Around) -> Record:
    """output: of the trace, before its guards are forgotten. shape: guards on sizes by language."""
    graph = output.tracer_output.output_graph
    _refuse_odd(graph, shape)
    values, live = Values(), Live(graph.local_scope, graph.global_scope)
    table, texts = SourceTable(live), Texts()
    installed = installed_by(graph, frame, seen, values, table, live)
    graphs = graphs_of(graph, installed, seen)  # before all that takes long
    lifted = lifted_in(graphs, live)
    left = operators_left(seen.operators, graphs.values())
    known = {
        source: (
            dynamo.concrete(one["size"]),
            dynamo.concrete(one["stride"]),
            id(live(source)) in seen.marked or sizes.marks_static(source, live(source)),
        )
        for source, one in graph.input_source_to_sizes_strides.items()
    }
    loaded = _loaded(output.bytecode) - {name for name, _, _ in installed} - left_by_dynamo(frame.globals)
    asked = asked_names((frame.code, *seen.inlined)) | seen.names | loaded
    codes = _codes(frame, seen)
    looked_for = looked_names(codes) | seen.names
    look = Looking(live, known, asked, tuple(frame.closure or ()), values)
    _forget_stale(graph, seen)
    guards: list[Any] = []
    idle: list[Any] = []  # a third of a model's
    for guard in dynamo.in_order(graph.guards):
        (idle if dynamo.is_idle(guard) else guards).append(guard)
    hookless, unguarded = _of_hooks([*idle, *seen.unguarded], look)
    runs = dynamo.running([(dynamo.kind_of(one), dynamo.source_of(one)) for one in (*guards, *unguarded)], live)
    untraced_values = [*runs, *seen.called.values()]
    look.untraced.update(untraced([*untraced_values, *left.values()]))
    look.copied = _only_copied(seen, output.bytecode, live)
    # In an attempt that was given up as well: of that nothing is left in the record.
    given_up = [value for value, _ in seen.untraced.values() if isinstance(value, torch.Tensor)]
    followed, of_packages = said_beside([*untraced_values, *given_up], seen)
    look.ordered = iterates_over_sets((frame.code, *seen.inlined, *followed)) or makes_sets(followed) or seen.shuffled
    table.sets = () if look.ordered or SET_ITEM in loaded else seen.watched_sets
    rows = [_row(guard, look, table, texts, made=True) for guard in guards]
    facts = {repr(row): row for row in (_row(guard, look, table, texts, made=False) for guard in unguarded)}
    facts |= {repr(row): row for row in _answers_of_modules(seen, look, table, texts)}
    guarded = [dynamo.source_of(guard) for guard in (*guards, *unguarded)]
    if bare := {str(source.name) for source in set(seen.ranks).difference(guarded)}:
        raise Refused(f"its graph takes {min(bare)}, ranks on which there is no guard")
    looked_at = [source for source in seen.looked_at if is_of_frame(source) and not _is_within_ranks(source, look)]
    empty = {dynamo.source_of(guard) for guard in idle}  # the fact says so
    said = {dynamo.source_of(guard) for guard, _ in hookless}
    modules = [module for _, module in hookless]
    sources = [one for one in dict.fromkeys([*guarded, *modules, *looked_at]) if one not in said]
    for source in sources:  # two of them may be one value
        table.number(source)
    key_order = sorted(graph.guard_on_key_order, key=lambda source: str(source.name))
    surfaces = _surfaces([*(one for one in sources if one not in empty), *key_order], look, table, texts)
    inlined = inlined_facts(frame.code, seen.inlined, look.values)
    if seen.inlined.get(frame.code, frame.globals) is not frame.globals:
        raise Refused(f"it folds in {frame.code.co_name}, which two modules have alike")
    refuse_chance(codes, seen, followed | of_packages | {*hooks_of_packages()})
    called = [
        [place, texts.number(look.untraced[id(value)])]
        for place, value in places_of(seen.called.values(), left, sources, live, table)
    ]
    assumed = [assumed_row(function, said, sources, live, table) for function, said in seen.assumed]
    sourceless = [*(one for number, one in seen.sourceless.items() if number not in seen.nested)]
    sourceless += classes_in(output.bytecode)
    inlined = sorted({*inlined, *sourceless_facts(sourceless, asked, look.values)})
    refuse_unsaid(seen.functions.values(), look.values)
    for row in installed:
        if row[1] == "scope":  # now that it is known which classes there are
            row[2] = scope_of(row[2], seen.inlined, sources, look, table)
    for source in sources:
        value: Any = live(source) if source.name else None
        seen.tells_rank |= is_of_ranks(value)
        refuse_of_a_process(value, str(source.name), codes)
        if is_chance(value):
            raise Refused("it reads a generator of Python's random, whose numbers are drawn while tracing")
        if (what := acts_while_traced(value, str(source.name))) is not None:
            raise Refused(f"it uses {what} while it is traced, which has to be done in each process")
    names = compares_identity(codes)
    spaces = spaces_of(frame, codes, sources, look, table, looked_for)
    everything = everything_is_asked(codes) or bool(look.copied)
    free = free_numbers(table.sources, guards, look)
    walk, reached = reach(frame, look, table.sources, spaces, free, names=names, everything=everything)
    refuse_unsaid_attributes(asked, look.values, walk.says)
    places = {module: place for module in modules if (place := walk.place(live(module))) is not None}
    for row in [_row(guard, look, table, texts, made=False) for guard, module in hookless if module not in places]:
        facts[repr(row)] = row
    _refuse_others_globals(output.bytecode, frame, {*graph.import_sources, *(name for name, _, _ in installed)}, table)
    return Record(
        code=code_to_plain(output.bytecode),
        installed=installed,
        imports={**graph.import_sources, **_imported(table.sources, look)},
        sources=table.rows,
        texts=texts.rows,
        guards=rows,
        facts=list(facts.values()),
        surfaces=surfaces,
        places=[[table.number(source), place] for source, place in places.items()],
        asked=sorted(asked),
        looked_for=sorted(looked_for),
        spaces=spaces,
        inlined=[[module, path, texts.number(text)] for module, path, text in inlined],
        optimizers=optimizers_of(seen, table),
        called=called,
        policies=policy_rows(seen, texts, lambda one: place_of(one, sources, live, table)),
        assumed=assumed,
        sizes=[[table.number(source), *one] for source, one in known.items() if source in table],
        key_order=[table.number(source) for source in key_order],
        alias=[dynamo.pack_alias(guard, table) for guard in graph.aotautograd_guards],
        shape=[shape["python"], shape["verbose_python"]],
        state=around.state,
        program=around.program,
        builtins=graph.name_of_builtins_dict_key_in_fglobals,
        graphs=with_lifted(graphs, lambda pair: table.number(pair[0])),
        pgo=sizes.pack_sizes(frame.code, frame.closure),
        scope=list(profile_scope()),
        sharing=sharing_of(sources, look, lifted),
        one=one_text(table.sources, look, names=names),
        names=names,
        everything=everything,
        free=[table.number(source) for source in free],
        reached=reached,
        seed=hash_seed() if look.ordered else None,
        empty=bool(graph.is_empty_graph()),
        side_effects=side_effects_of(graph),
        error_on_graph_break=bool(output.tracer_output.error_on_graph_break),
    )


def _refuse_odd(graph: Any, shape: dict[str, list[str]]) -> None:
    if set(shape) != {"python", "verbose_python"}:
        raise Refused(f"guards on sizes in {', '.join(sorted(shape)) or 'no language'}")
    if graph.random_calls:
        raise Refused("it takes numbers from Python's random, which are drawn while tracing")
    if graph.backward_state or graph.saved_tensors_hooks_subgraph_names:
        raise Refused("it registers hooks on a backward")
    if has_user_objects():
        raise Refused("its graph refers to streams or events of this process")
    if graph.export or graph.export_constraints:
        raise Refused("it is exported")
    if not all(map(is_of_frame, graph.input_source_to_sizes_strides)):
        raise Refused(
            "torch sets no guard on the sizes of a tensor that is none of the frame (an nn.Parameter made in it)"
        )
    if graph.shape_env.specializations:
        raise Refused("mark_dynamic(specialize_on=...) compiles it several times")


def _only_copied(seen: Seen, bytecode: types.CodeType, live: Live) -> set[Source]:
    """Sources of values of which only `copy` asks which object they are. Raises Refused where that comes out."""
    found = {source for source, only in seen.copied.items() if only and not seen.shows_memo}
    places = {id(live(source)) for source in found}
    if places and any(
        type(one) is int and one in places for code in (bytecode, *nested(bytecode)) for one in code.co_consts
    ):
        raise Refused("it keeps the address of an object that it copies")
    return found


def _is_within_ranks(source: Source, look: Looking) -> bool:
    """Whether it leads into a process group or a mesh, which is compared as a whole. Dynamo asks a stand-in for it."""
    return any(state.ranks_text(look.live(base)) is not None for base in reversed([*bases_of(source)]))


def _imported(sources: Iterable[Source], look: Looking) -> dict[str, str]:
    """Modules that an earlier trace has put among these globals already, under the same names."""
    held = {global_of(source): look.live(root_of(source)) for source in sources if is_imported(source)}
    return {name: value.__name__ for name, value in held.items() if isinstance(value, types.ModuleType)}


def _forget_stale(graph: Any, seen: Seen) -> None:
    """Notes on values through a global of an attempt that was given up; the last attempt looked them up itself."""
    own = seen.installed.get(id(graph), {})
    others = {name for names in seen.installed.values() for name in names if name not in own}

    def is_stale(source: Source) -> bool:
        name = global_of(source)
        return name in others or (name.startswith("__builtins_dict__") and name not in own)

    seen.unguarded = [guard for guard in seen.unguarded if not is_stale(guard.originating_source)]
    seen.looked_at = {source: None for source in seen.looked_at if not is_stale(source)}


def _of_hooks(guards: Iterable[Any], look: Looking) -> tuple[list[tuple[Any, Source]], list[Any]]:
    """Those that say that a module has no hooks, each with the source of the module; and others. Raises Refused."""
    found, others = [], []
    for guard in guards:
        module = module_with(dynamo.source_of(guard), look) if dynamo.is_on_hooks(guard) else None
        if module is None:
            others.append(guard)
        else:
            look.text(dynamo.source_of(guard), dynamo.kind_of(guard), {})  # refuses where there are some
            found.append((guard, module))
    return found, others


def _answers_of_modules(seen: Seen, look: Looking, table: SourceTable, texts: Texts) -> Iterator[Plain]:
    """Whether those have the names that they have not themselves: Dynamo asks their code, and sets no guard."""
    for source, name in seen.asked_modules:
        if is_of_frame(source):
            arguments = {"attr": name}
            text = texts.number(look.text(source, "HASATTR", arguments))
            yield [table.number(source), "HASATTR", dynamo.pack_arguments(arguments, table), text]


def _row(guard: Any, look: Looking, table: SourceTable, texts: Texts, *, made: bool) -> Plain:
    """[source, kind, arguments, fingerprint]. made: whether a restore makes the guard again, and checks it."""
    source, kind = dynamo.source_of(guard), dynamo.kind_of(guard)
    if kind == "TENSOR_MATCH" and dynamo.is_tensor_by_identity(guard):
        raise Refused(f"{source.name} is a tensor by its identity: a constant of the graph")
    arguments = dynamo.arguments_of(guard, kind)
    text = None if made and dynamo.says_all(kind) else texts.number(look.text(source, kind, arguments))
    return [table.number(source), kind, dynamo.pack_arguments(arguments, table), text]


def _surfaces(sources: Iterable[Source], look: Looking, table: SourceTable, texts: Texts) -> list[Plain]:
    """Raises Refused for one with keys of which nothing says which they are."""
    found: dict[int, str] = {}
    said: set[int] = set()  # ids of values: one is reached by many ways
    for source in sources:
        if not source.name or id(value := look.live(source)) in said:
            continue
        said.add(id(value))
        if isinstance(value, dict) and any(one not in table for one in _of_tensors_in(source, value)):
            raise Refused(f"{source.name} has tensors as keys")
        if text := surface_text(look, source):
            found[table.number(source)] = text
    return [[number, texts.number(text)] for number, text in found.items()]


def _of_tensors_in(source: Source, table: dict[Any, Any]) -> list[Source]:
    """Sources of a table's keys that are tensors: which these are is said by what is one with them."""
    return [key_source(source, number) for number, key in enumerate(keys_of(table)) if isinstance(key, torch.Tensor)]


def _loaded(bytecode: types.CodeType) -> set[str]:
    """Names of the user's that Dynamo's own code loads, where such a global is what it needs (`deque`): unguarded."""
    return {name for code in (bytecode, *nested(bytecode)) for name in code.co_names if name[:2] != "__"}


def _refuse_others_globals(bytecode: types.CodeType, frame: Frame, made: set[str], table: SourceTable) -> None:
    """made: names of globals that a restore puts there."""
    dynamos = {name for name in bytecode.co_names if name.startswith("__") and not name.endswith("__")}
    left, others = left_by_dynamo(frame.globals), dynamos - made - set(frame.code.co_names)
    # Without its constants: `dis` asks each for its text, and of a function that the frame makes all globals are there.
    bare = bytecode.replace(co_consts=(None,) * len(bytecode.co_consts))
    if any(one.opname == "LOAD_GLOBAL" and one.argval in left for one in dis.get_instructions(bare)):
        raise Refused("it loads what assume_constant_result gave, which Dynamo left among its globals")
    if dynamo.refers_to_others(table, made) or any(name in frame.globals for name in others):
        raise Refused("it refers to a global that another trace installed")


def _codes(frame: Frame, seen: Seen) -> dict[types.CodeType, dict[str, Any]]:
    return {frame.code: frame.globals, **seen.inlined}
