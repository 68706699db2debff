"""The sums as Prometheus reads them. Counts nothing; needs prometheus_client, which comes with `warmgraph[serve]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from .sums import BUCKETS, Sums, split


@dataclass(frozen=True, slots=True)
class Gauges:
    """entries, bytes: of the store, None while it is not listed. last: Unix seconds of the last event."""

    version: str
    up: bool
    entries: int | None
    bytes: int | None
    last: float | None
    skipped: int


def exposition(sums: Sums, gauges: Gauges, accept: str) -> tuple[bytes, str]:
    """The text and its content type, in the format that the `Accept` header asks for."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Once([*_counters(sums), *_gauges(gauges)]))
    encoder, content_type = choose_encoder(accept)
    return encoder(registry), content_type


class _Once(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def _counters(sums: Sums) -> Iterator[Metric]:
    yield _counter("events", "Outcomes of the cache, by reason.", ("outcome", "reason"), sums.events)
    yield _counter("hits", "Hits, by the tier that had it.", ("tier",), sums.hits)
    yield _counter("outages", "Times that a tier stopped working.", ("tier",), sums.outages)
    saved = CounterMetricFamily("warmgraph_seconds_saved", "Seconds of compiling that hits spared.")
    saved.add_metric([], sums.saved[""])
    yield saved
    phases = HistogramMetricFamily(
        "warmgraph_phase_seconds", "Seconds by phase, each time it was gone through.", labels=["phase", "outcome"]
    )
    for name, row in sorted(sums.phases.items()):
        counts = accumulate(row[:-1])
        bounds = [*(str(float(bound)) for bound in BUCKETS), "+Inf"]
        phases.add_metric(split(name), list(zip(bounds, counts, strict=True)), sum_value=row[-1])
    yield phases


def _counter(name: str, about: str, labels: tuple[str, ...], table: Mapping[str, float]) -> Metric:
    family = CounterMetricFamily(f"warmgraph_{name}", about, labels=labels)
    for key, value in sorted(table.items()):
        family.add_metric(split(key) if len(labels) == 2 else (key,), value)
    return family


def _gauges(gauges: Gauges) -> Iterator[Metric]:
    info = GaugeMetricFamily("warmgraph_build_info", "The version, as a label.", labels=["version"])
    info.add_metric([gauges.version], 1)
    yield info
    for name, about, value in (
        ("up", "1 while the journal can be read.", float(gauges.up)),
        ("store_entries", "Entries in the store.", gauges.entries),
        ("store_bytes", "Bytes in the store.", gauges.bytes),
        ("last_event_timestamp_seconds", "When the last event happened.", gauges.last),
        ("journal_lines_skipped", "Lines of the journal that were no events.", gauges.skipped),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"warmgraph_{name}", about, value=value)
