"""One compile as bytes: AOTAutograd's result, the code, the graphs as text. Made here, loaded elsewhere.

The result is torch's `BundledAOTAutogradResult` (forward and backward in one). What a load does not need
(readable graphs, logs) is kept apart, so that a hit reads little.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import msgpack  # type: ignore[import-untyped]
from msgspec import Struct
from warmgraph.cache import Role
from warmgraph.hashing import Key, lifted_tensors

from ..reporting.fail_open import Failure, attempt
from ..torch_api import compile as compat
from ..torch_api.capture import capture_result
from ..torch_api.entrances.specialized import by_itself
from ..torch_api.generated_code.wrapper_module import Payload
from ..torch_api.ranks.places import names_others, noting_places, sizes_as_numbers
from ..typing import Compiled, Compiler, NotSerialisable, Request
from . import guards
from .cpp_kernels import noting
from .node_metadata import node_notes
from .unpickle import NotAllowed, unpickle


class Artifact(Struct, frozen=True):
    """guards: over the graph's symbolic inputs, or None. blobs: (role, name, content)."""

    guards: str | None
    blobs: tuple[tuple[Role, str, bytes], ...]


def compile_kept(request: Request, compiler: Compiler, told: Callable[[], object]) -> Compiled:
    """Compile and keep hold of what was made. Raises what the compiler raises.

    told: called as soon as the code asks for this rank's place, which is long before it is compiled.
    """
    gm, inputs = request.gm, request.inputs
    context = compat.tracing_context()
    env = compat.shape_env(inputs)
    before, guards_before = len(guards.alias_guards(context)), guards.guard_count(env)
    notes = attempt("notes", False, node_notes, gm)  # now: passes of the compiler change the graph
    with by_itself(gm, env) as again, noting() as kernels, capture_result() as results, noting_places(told) as place:
        run = compiler.compile(gm, inputs, request.patches, request.report.skipped)
    lost, more = ([], None) if again else guards.left_out(env, guards_before, inputs)
    return Compiled(
        run=run,
        result=results.outermost(),
        kernels=kernels,
        alias_guards=guards.alias_guards(context)[before:],
        sources=compat.input_sources(gm),
        lost_guards=lost,
        more_guards=more,
        problem=results.problem,
        inputs=[*lifted_tensors(gm).values(), *inputs],
        notes="" if isinstance(notes, Failure) else notes.value,
        unguarded=again,
        placed=place.asked or names_others(results.outermost(), request.key.groups),
    )


# Text that torch keeps with a result for logs and tlparse.
_RESULT_TEXTS = ("aot_joint_graph_str", "aot_forward_graph_str", "aot_backward_graph_str", "min_cut_info_str")


def pack(compiled: Compiled, key: Key, compiler: Compiler) -> Artifact:
    """The bytes of a compile. Quick (a few milliseconds): called while the training step waits.

    Raises NotSerialisable.
    """
    if compiled.result is None:
        raise NotSerialisable(compiled.problem or "AOTAutograd did not hand over a result")
    if compiled.lost_guards:
        raise NotSerialisable(f"the code holds only under guards that no entry can say: {compiled.lost_guards}")
    try:
        alias_guards = guards.guards_to_positions(compiled.alias_guards, compiled.sources)
    except (KeyError, NotImplementedError) as error:
        raise NotSerialisable(f"a guard on overlapping inputs that no entry can say: {error}") from error
    packed = compiler.pack(compiled, key)
    if compiled.more_guards is not None:
        packed.result.guards_expr = " and ".join(filter(None, (packed.result.guards_expr, compiled.more_guards)))
    texts = {name: getattr(packed.result, name) for name in _RESULT_TEXTS if getattr(packed.result, name, None)}
    for name in texts:
        setattr(packed.result, name, None)
    if compiled.notes:
        texts["nodes"] = compiled.notes
    if compiled.unguarded:
        packed.result.guards_expr = None
    payload = Payload(packed.result, alias_guards, packed.bytecode)
    return Artifact(
        packed.result.guards_expr,
        (
            (Role.AOT_RESULT, "result", _pickled(payload, compiled.inputs)),
            (Role.PART_TEXTS, "parts", msgpack.packb(key.texts())),
            (
                Role.GRAPH_TEXT,
                "graphs",
                msgpack.packb({**texts, **packed.texts}, unicode_errors="surrogatepass"),
            ),
            *packed.blobs,
        ),
    )


def _pickled(payload: Payload, inputs: Sequence[Any]) -> bytes:
    """The payload's bytes, read back once: what a hit would refuse is not kept, or it would fail on each."""
    try:
        with compat.no_dispatch_modes():
            data = _dumps(payload)
    except (pickle.PicklingError, TypeError, AttributeError, NotImplementedError) as error:
        raise NotSerialisable(f"{_culprit(payload.result)}: {error}") from error
    try:
        with compat.no_dispatch_modes():
            unpickle(data, inputs)
    except NotAllowed as error:
        raise NotSerialisable(str(error)) from error
    return data


def _dumps(value: Any) -> bytes:
    file = io.BytesIO()
    _Pickler(file, protocol=5).dump(value)
    return file.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        return sizes_as_numbers(value) or NotImplemented


def _culprit(result: Any) -> str:
    """Which field of the result does not pickle."""
    fields: dict[str, Any] = vars(result)
    for name, value in fields.items():
        try:
            _dumps(value)
        except Exception:  # noqa: BLE001 - any failure names the field
            return name
    return "the result"
