"""Frozen graphs as data: how their constants are made of the weights (`torch_api/generated_code/frozen.py`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from msgspec import Struct
from torch.fx import GraphModule
from warmgraph.cache import Role
from warmgraph.hashing import for_current_device, lifted_tensors

from ..torch_api.generated_code.frozen import FrozenCode, Made, as_torch_folds, kind_of, parts_of
from ..typing import NotSerialisable, Run
from .graph_codec import BadGraph, dump_graph, load_graph
from .tensor_codec import MAX_BYTES


class Frozen(Struct, frozen=True):
    """constants: as torch's loader takes them. kept: positions of the inputs that the code takes."""

    constants: Made
    kept: Sequence[int]

    def taking(self, code: Run) -> Run:
        """What AOTAutograd calls with all inputs, weights among them."""

        def run(inputs: list[Any]) -> Any:
            taken = [inputs[position] for position in self.kept]
            inputs.clear()
            return code(taken)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run


def without_constants(result: Any) -> tuple[Any, tuple[tuple[Role, str, bytes], ...]]:
    """A copy of `result` with Inductor's code in the place of frozen code, and how to make its constants.

    Raises NotSerialisable.
    """
    frozen = result.compiled_fw.result
    if not isinstance(frozen, FrozenCode):
        return result, ()
    if frozen.making is None:
        raise NotSerialisable(str(frozen.problem))
    if for_current_device():
        raise NotSerialisable("frozen weights in code for whichever device is current")
    own = sum(one.nbytes for one in (frozen.code.constants or {}).values() if isinstance(one, torch.Tensor))
    if own > MAX_BYTES:
        raise NotSerialisable(f"code that packed {own} bytes of weights by itself")
    result, holder = copy.copy(result), copy.copy(result.compiled_fw)
    result.compiled_fw, holder.result = holder, frozen.code
    making = frozen.making
    facts = {"names": making.names, "kinds": making.kinds, "read": making.read, "kept": frozen.kept}
    data = dump_graph(making.graph, facts, {})
    return result, ((Role.GRAPH, "constants", data),)


def constants_of(data: bytes, gm: GraphModule) -> Frozen:
    """Made of the weights that `gm` holds. Raises BadGraph."""
    making, facts = load_graph(data)
    match facts:
        case {"names": list(names), "kinds": list(kinds), "read": list(read), "kept": list(kept)}:
            pass
        case _:
            raise BadGraph("constants without names")
    weights = parts_of([*lifted_tensors(gm).values()])
    with as_torch_folds():
        made = making([weights[position] for position in read])
    if (others := [*map(kind_of, made)]) != kinds:  # code would read past them
        raise BadGraph(f"constants are {others}, and were {kinds}")
    return Frozen(Made(dict(zip(names, made, strict=True))), kept)
