"""The graphs of a frame: where each is kept, what it was compiled under, and how it is loaded without the graph."""

from __future__ import annotations

from .policies import policy_at, policy_rows
from .references import load_graph, note_graph, reference_of, with_lifted
from .surroundings import around_no_graph, check_around, operator_named, operators_left, plain_operator

__all__ = [
    "around_no_graph", "check_around", "load_graph", "note_graph", "operator_named", "operators_left", "plain_operator",
    "policy_at", "policy_rows", "reference_of", "with_lifted",
]  # fmt: skip
