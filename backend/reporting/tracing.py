"""Events as others' tools see them: torch's structured trace (tlparse) and OpenTelemetry. Not the journal.

Both are looked for where the user has them, and never imported here: when neither is on, an event costs two
look-ups and no import.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from warmgraph.cache import Event, Outcome

from ..torch_api import compile as compat
from .fail_open import Failure, attempt, warn_once

_NANOSECONDS = 1_000_000_000


def trace(event: Event) -> None:
    """Show `event` to whoever traces this process. Never raises: a broken exporter must not cost a compile."""
    for what, show in (("torch's trace", _to_torch), ("OpenTelemetry", _to_opentelemetry)):
        done = attempt("trace", False, show, event)
        if isinstance(done, Failure):
            warn_once(f"trace {what}", "an event was not shown in %s: %s", what, done.why)


def _to_torch(event: Event) -> None:
    """An artifact of the compile that is going on; torch calls neither function when nobody listens."""
    compat.trace_structured(
        "artifact",
        metadata_fn=lambda: {"name": f"warmgraph_{event.outcome.value}", "encoding": "json"},
        payload_fn=lambda: json.dumps(_plain(event), indent=1),
        expect_trace_id=False,  # a hit is verified, and CUDA graphs are skipped, when no compile goes on any more
    )


def _plain(event: Event) -> dict[str, Any]:
    """What there is to say, in types that JSON and OpenTelemetry have in common, but for the two mappings."""
    found = {item.name: getattr(event, item.name) for item in fields(event)}
    found["outcome"] = event.outcome.value
    found |= {name: dict(found[name]) for name in ("parts", "seconds")}
    return {name: value for name, value in found.items() if value is not None}


def _to_opentelemetry(event: Event) -> None:
    """A span that ends now, with one span per phase, under the span that the user's code is in."""
    api = sys.modules.get("opentelemetry.trace")
    if api is None:
        return
    tracer = api.get_tracer("warmgraph")
    end = int(event.time * _NANOSECONDS)
    begin = end - int(sum(event.seconds.values()) * _NANOSECONDS)
    span = tracer.start_span("warmgraph.compile", start_time=begin)
    if not span.is_recording():  # no provider was configured, or this trace is not sampled
        return
    for name, value in _attributes(_plain(event)).items():
        span.set_attribute(name, value)
    if event.outcome is Outcome.FAILED:
        span.set_status(api.Status(api.StatusCode.ERROR, event.detail))
    context = api.set_span_in_context(span)
    # Only the phases' lengths are known; they follow each other, and one that came twice is one span.
    for name, seconds in event.seconds.items():
        then = begin + int(seconds * _NANOSECONDS)
        phase = tracer.start_span(f"warmgraph.{name}", context=context, start_time=begin)
        phase.set_attribute("warmgraph.seconds", seconds)
        phase.end(end_time=then)
        begin = then
    span.end(end_time=end)


def _attributes(plain: Mapping[str, Any]) -> dict[str, Any]:
    """`warmgraph.outcome` and so on; `warmgraph.seconds.hash` per phase, `warmgraph.parts.graph` per digest."""
    found: dict[str, Any] = {}
    for name, value in plain.items():
        if isinstance(value, Mapping):
            found |= {f"warmgraph.{name}.{inner}": item for inner, item in value.items()}
        else:
            found[f"warmgraph.{name}"] = list(value) if isinstance(value, (tuple, list)) else value
    return found
