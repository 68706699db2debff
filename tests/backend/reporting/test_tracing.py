"""Tracing: what torch's structured trace and OpenTelemetry are told of a real process, and what they cost when off."""

import importlib.util
import json
import logging
import sys
import types

import pytest
from warmgraph.backend.reporting import fail_open as fallback
from warmgraph.backend.reporting import tracing
from warmgraph.cache import Event, Outcome

PROGRAM = """
import json, sys, torch
torch._inductor.config.fallback_by_default = True

if sys.argv[1] == "spans":
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    step = trace.get_tracer("user").start_as_current_span("step")
else:
    import contextlib
    step = contextlib.nullcontext()

@torch.compile(backend="warmgraph")
def twice(x):
    return (x * 2).sin()

with step:
    twice(torch.ones(4))

if sys.argv[1] == "spans":
    from warmgraph.backend.reporting.tracing import trace as show
    from warmgraph.cache import Event, Outcome
    show(Event(Outcome.FAILED, reason="internal", detail="load: it broke", differs=("graph", "hooks")))
    print(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
"""


@pytest.fixture
def artifacts(tmp_path):
    """`artifacts("cold")`: name -> payload of our artifacts in the trace of that folder, each with its metadata."""

    def read(folder):
        found = []
        (path,) = (tmp_path / folder).glob("*.log")
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if '"artifact"' not in line or "warmgraph_" not in line:
                continue
            told = json.loads(line[line.index("] ") + 2 :])
            payload = []
            for more in lines[number + 1 :]:
                if not more.startswith("\t"):
                    break
                payload.append(more)
            found.append((told, json.loads("\n".join(payload))))
        return found

    return read


needs_sdk = pytest.mark.skipif(
    importlib.util.find_spec("opentelemetry.sdk") is None, reason="pip install 'warmgraph[otel]' opentelemetry-sdk"
)


@pytest.mark.exhaustive
@needs_sdk
def test_a_cold_and_a_warm_process_are_seen_by_torchs_trace_and_as_spans(run_python, tmp_path, artifacts):
    """One artifact per outcome, under the compile's frame; a span with its phases, inside the user's own span."""
    frames = {"WARMGRAPH_FRAMES": 0}  # each would say, too, that it is traced for the trace
    run_python(PROGRAM, "plain", TORCH_TRACE=tmp_path / "cold", **frames)
    spans = run_python(PROGRAM, "spans", TORCH_TRACE=tmp_path / "warm", **frames)

    ((metadata, miss),) = artifacts("cold")
    assert metadata["artifact"] == {"name": "warmgraph_miss", "encoding": "json"}
    assert (metadata["frame_id"], metadata["frame_compile_id"]) == (0, 0)
    assert (miss["outcome"], miss["reason"], miss["function"]) == ("miss", "absent", "twice")
    assert {"hash", "fetch", "compile", "publish"} <= miss["seconds"].keys()

    (metadata, hit), (_, failed) = artifacts("warm")
    assert metadata["artifact"]["name"] == "warmgraph_hit"
    assert (hit["key"], hit["parts"], hit["tier"]) == (miss["key"], miss["parts"], "disk")
    assert (failed["outcome"], failed["detail"]) == ("failed", "load: it broke")

    (step,) = [span for span in spans if span["name"] == "step"]
    whole, broken = [span for span in spans if span["name"] == "warmgraph.compile"]
    assert whole["parent_id"] == step["context"]["span_id"]
    told = whole["attributes"]
    assert (told["warmgraph.outcome"], told["warmgraph.tier"], told["warmgraph.key"]) == ("hit", "disk", hit["key"])
    assert (told["warmgraph.function"], told["warmgraph.seconds.load"]) == ("twice", hit["seconds"]["load"])
    phases = [span for span in spans if span["parent_id"] == whole["context"]["span_id"]]
    assert [span["name"] for span in phases] == [f"warmgraph.{name}" for name in hit["seconds"]]
    assert whole["start_time"] == phases[0]["start_time"]
    assert [span["end_time"] for span in phases[:-1]] == [span["start_time"] for span in phases[1:]]
    assert broken["status"] == {"status_code": "ERROR", "description": "load: it broke"}
    assert broken["attributes"]["warmgraph.differs"] == ["graph", "hooks"]


def test_an_exporter_that_raises_costs_nothing_but_a_line(monkeypatch, caplog):
    """A tracer that is broken, or torch's trace on a full disk, is said once and stops nothing."""

    def broken(*_args, **_named):
        raise OSError("no space left")

    api = types.SimpleNamespace(get_tracer=broken)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", api)
    monkeypatch.setattr(tracing.compat, "trace_structured", broken)
    monkeypatch.setattr(fallback, "_warned", set())
    with caplog.at_level(logging.WARNING, "warmgraph.backend"):
        tracing.trace(Event(Outcome.HIT))
        tracing.trace(Event(Outcome.HIT))
    said = [record.getMessage() for record in caplog.records if record.name == fallback.log.name]
    assert said == [
        "an event was not shown in torch's trace: OSError: no space left",
        "an event was not shown in OpenTelemetry: OSError: no space left",
    ]


def test_nothing_is_put_together_when_nobody_listens(monkeypatch):
    """Without TORCH_TRACE and OpenTelemetry an event is not even turned into text."""
    monkeypatch.delitem(sys.modules, "opentelemetry.trace", raising=False)
    trace_log = logging.getLogger("torch.__trace")
    monkeypatch.setattr(trace_log, "handlers", [])
    asked = []
    monkeypatch.setattr(tracing, "_plain", asked.append)
    tracing.trace(Event(Outcome.HIT))
    assert asked == []
