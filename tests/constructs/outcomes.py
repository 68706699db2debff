"""What the cache made of a case's graphs, held against what its decorator promises. Compares no values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from listing import Listed

Events = Sequence[Mapping[str, Any]]


def broken_promises(case: Listed, cold: Events, warm: Events) -> list[str]:
    """One line each. Cold: compiled, found (an equal graph of another case) or bypassed as promised. Warm: found."""
    first, second = _outcomes(cold), _outcomes(warm)
    if case.uncompiled is not None:
        return [f"graphs reached the backend: {first} {second}"] if first or second else []
    bypasses = [_reason(event) for event in cold if event["outcome"] == "bypass"]
    found = []
    if not first or "failed" in first:
        found.append(f"cold: {first}")
    if case.bypass is None and bypasses:
        found.append(f"cold: bypassed: {bypasses}")
    if case.bypass is not None and not any(case.bypass in reason for reason in bypasses):
        found.append(f"cold: no bypass because of {case.bypass}: {bypasses or first}")
    if second != ["bypass" if outcome == "bypass" else "hit" for outcome in first]:
        found.append(f"warm: {second} after {first}")
    if bypasses != [_reason(event) for event in warm if event["outcome"] == "bypass"]:
        found.append("warm: bypassed for another reason")
    return found


def _outcomes(events: Events) -> list[str]:
    """Of lookups of graphs: neither whether one runs in CUDA graphs, nor whether its frame was traced."""
    return [event["outcome"] for event in events if event["outcome"] not in ("skipped", "restored", "traced")]


def _reason(event: Mapping[str, Any]) -> str:
    return f"{event['reason']}: {event['detail']}"
