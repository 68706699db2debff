"""What Prometheus reads: the journal's numbers, under names from fixed lists, never less than before."""

from __future__ import annotations

import sys

import pytest
from warmgraph.scripts.page import sums as keeping

pytest.importorskip("prometheus_client.parser", reason="pip install 'warmgraph[serve]'")


def test_hostile_labels_fold_into_other(serve, journal, samples):
    """Ten thousand reasons, phases and tiers are one each: who writes a journal cannot fill a monitoring database."""
    event = next(samples.events(1))
    odd = [
        event | {"outcome": outcome, "reason": f'r{n}"}}\n', "tier": f"t{n}", "seconds": {f"p{n}": 0.5}}
        for n, outcome in enumerate(["hit", "miss", "bypass", "sick"] * 250)
    ]
    journal.write(odd)
    here = serve()
    here.read(1000)
    found = here.samples()
    assert found["warmgraph_events_total", ("outcome", "miss"), ("reason", "other")] == 250
    assert found["warmgraph_hits_total", ("tier", "other")] == 250
    assert found["warmgraph_outages_total", ("tier", "other")] == 250
    assert len(found) < 200


def test_the_numbers_are_those_of_the_journal(serve, journal, samples):
    """Counters and histograms equal sums over the events; buckets are cumulative."""
    events = list(samples.events(400))
    journal.write(events)
    here = serve()
    here.read(400)
    found = here.samples()
    for outcome in {event["outcome"] for event in events}:
        assert here.total("warmgraph_events_total", outcome=outcome) == sum(e["outcome"] == outcome for e in events)
    saved = sum(event["seconds_saved"] or 0 for event in events)
    assert found[("warmgraph_seconds_saved_total",)] == pytest.approx(saved)
    hits = [event["seconds"]["load"] for event in events if event["outcome"] == "hit"]
    labels = (("outcome", "hit"), ("phase", "load"))
    assert found[("warmgraph_phase_seconds_count", *labels)] == len(hits)
    assert found[("warmgraph_phase_seconds_sum", *labels)] == pytest.approx(sum(hits))
    under = found[("warmgraph_phase_seconds_bucket", ("le", "0.05"), *labels)]
    assert under == sum(seconds <= 0.05 for seconds in hits)
    assert found[("warmgraph_store_entries",)] == 0


def test_counters_never_fall_over_a_restart(serve, journal, samples):
    """Not even when the oldest events were pruned meanwhile; events that came meanwhile count when nothing was."""
    journal.write(samples.events(100), day="2026-11-01")
    here = serve()
    here.read(100)
    before = here.samples()
    here.stop()

    journal.write(samples.events(10, seed=2))
    here = serve()
    here.read(110)
    assert here.total("warmgraph_events_total") == 110
    here.stop()

    (journal.dir / "2026-11-01.somehost.jsonl").unlink()
    here = serve()
    here.read(10)
    after = here.samples()
    growing = [key for key in before if key[0].endswith(("_total", "_bucket", "_count", "_sum"))]
    assert growing
    assert all(after[key] >= before[key] for key in growing)
    assert here.total("warmgraph_events_total") == 110
    journal.write(samples.events(5, seed=3))
    here.read(15)
    assert here.total("warmgraph_events_total") == 115


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"version": 1}',
        '{"version":1,"events":{"a":"x"},"hits":{},"outages":{},"saved":{"":0},"phases":{}}',
        '{"version":1,"events":{},"hits":{},"outages":{},"saved":{"":NaN},"phases":{}}',
    ],
)
def test_a_damaged_file_of_sums_is_as_none(text, tmp_path):
    """Counting begins anew."""
    (tmp_path / "sums").write_text(text)
    assert keeping.load(tmp_path / "sums") is None


def test_without_prometheus_client_the_rest_is_served(serve, monkeypatch):
    """And /metrics says what to install."""
    for name in [name for name in sys.modules if name.startswith("prometheus_client")]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "warmgraph.scripts.page.metrics", raising=False)
    here = serve()
    answer = here.ask("/metrics")
    assert (answer.status, "pip install 'warmgraph[serve]'" in answer.body) == (501, True)
    assert here.ask("/").status == 200
