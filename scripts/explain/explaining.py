"""Why one lookup missed: from its event, the entries and the journal to a cause in words. Prints nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warmgraph.cache import EventDict, Reason, Scalar, differing

from ..grammar import sources, with_sources
from ..output import ago
from ..reasons import advice_about, advice_for, meaning
from .differences import differences
from .finding import Finder
from .history import Past
from .wording import Difference

_RELATIVES = 3


@dataclass(frozen=True, slots=True)
class Compared:
    """A key beside another. parts: those that differ. lines: how; None where the texts of either are gone."""

    key: str
    parts: tuple[str, ...]
    lines: tuple[Difference, ...] | None

    def as_plain(self) -> dict[str, Any]:
        lines = None if self.lines is None else [as_plain(one) for one in self.lines]
        return {"key": self.key, "parts": list(self.parts), "differences": lines}


@dataclass(frozen=True, slots=True)
class Explanation:
    """cause: one sentence. compared: with the nearest entries, nearest first. guards: of the entries under the key."""

    event: EventDict
    cause: str
    advice: str | None
    compared: tuple[Compared, ...] = ()
    guards: tuple[str, ...] = ()

    def as_plain(self) -> dict[str, Any]:
        names = (
            "outcome",
            "reason",
            "key",
            "time",
            "host",
            "pid",
            "rank",
            "function",
            "file",
            "line",
            "nodes",
            "detail",
        )
        plain = {name: self.event[name] for name in names}
        plain |= {"compile_seconds": self.event["seconds"].get("compile"), "cause": self.cause, "advice": self.advice}
        nearest = [one.as_plain() for one in self.compared]
        return plain | {"guards": list(self.guards), "nearest": nearest}

    @property
    def alike(self) -> tuple[object, ...]:
        """Equal for explanations that say the same: of many graphs, or ranks."""
        first = self.compared[0] if self.compared else None
        lines = first and (tuple(one.text for one in first.lines) if first.lines is not None else first.parts)
        return self.event["outcome"], self.event["reason"], self.cause, lines, self.guards


def as_plain(one: Difference) -> dict[str, Any]:
    return {"part": one.part, "name": one.name, "before": one.before, "after": one.after, "text": one.text}


def explained(event: EventDict, finder: Finder, past: Past, relatives: int = 1) -> Explanation:
    """Why this event's lookup missed. relatives: with how many of the nearest entries to compare."""
    reason, cause = event["reason"], meaning(event["reason"])
    if event["outcome"] != "miss" or event["key"] is None:
        return Explanation(event, _with_detail(cause, event), advice_for(reason))
    if reason == Reason.GUARDS.value:
        return Explanation(event, cause, advice_for(reason), guards=tuple(_guards(event, finder)))
    if reason != Reason.ABSENT.value:
        return Explanation(event, _with_detail(cause, event), advice_for(reason))
    gone = _gone(event, finder, past)
    if gone is not None:
        return Explanation(event, *gone)
    compared = tuple(_nearest(event, finder, relatives))
    if compared:
        parts = compared[0].parts
        cause = f"the nearest entry differs in {_listed(parts)}"
        names = [one.name for one in compared[0].lines or ()]
        return Explanation(event, cause, advice_about(parts, names, event["detail"]), compared)
    namespaces = finder.namespaces_with(event["key"])
    if namespaces:
        cause = f"this namespace has nothing like it; the same key is in namespace {_listed(namespaces)}"
        return Explanation(event, cause, "set WARMGRAPH_NAMESPACE alike for all who are to share results")
    advice = advice_about((), (), event["detail"]) or "a graph that is new compiles once"
    return Explanation(event, _with_detail("nothing like it in the store", event), advice)


def compare(finder: Finder, before: str, after: str, parts: Sequence[str] | None = None) -> Compared:
    """Two keys, from the texts of their entries. parts: those known to differ, where the texts are not to be had."""
    old, new = finder.texts(before), finder.texts(after)
    if old is None or new is None:
        return Compared(before, tuple(parts or ()), None)
    lines = tuple(differences(old, new))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return Compared(before, tuple(names), lines)


def facts_of(event: EventDict) -> dict[str, Scalar]:
    return {name: event[name] for name in ("function", "file", "line")}


def _nearest(event: EventDict, finder: Finder, count: int) -> list[Compared]:
    """The entry that the miss itself found nearest; then others that were there at that time."""
    found: list[Compared] = []
    if event["nearest"] is not None and event["nearest"] != event["key"]:
        found.append(compare(finder, event["nearest"], event["key"], event["differs"]))
    if count > 1 or not found or found[0].lines is None:
        known = finder.relatives(event["key"], event["parts"], facts_of(event))
        others = [one for one in known if _older(one.time, event) and one.key not in {one.key for one in found}]
        found += [
            compare(finder, one.key, event["key"], differing(event["parts"], one.parts))
            for one in others[: max(count, _RELATIVES)]
        ]
    # One that is gone tells parts only, and is behind any that is still there with its lines.
    found.sort(key=lambda one: one.lines is None)
    return found[:count]


def _guards(event: EventDict, finder: Finder) -> list[str]:
    """Those of the entries that were there, with the sizes they speak of under their sources' names."""
    inputs = (finder.texts(event["key"]) or {}).get("inputs", "")
    names = sources((finder.texts(event["key"]) or {}).get("symbols", ""))
    sizes = [with_sources(match[1], names) for match in re.finditer(r"^p\d+ SymInt (.+)$", inputs, re.MULTILINE)]

    def named(match: re.Match[str]) -> str:
        number = int(match[1])
        return sizes[number] if number < len(sizes) else match[0]

    found = [entry for entry in finder.entries(event["key"]) if _older(entry.facts.get("created"), event)]
    return [re.sub(r"L\['t(\d{1,6})'\]", named, entry.guards) for entry in found if entry.guards]


def _gone(event: EventDict, finder: Finder, past: Past) -> tuple[str, str | None] | None:
    """(cause, advice) when this very key was in the store before."""
    before = past.before(event)
    if before is None and event["nearest"] != event["key"]:
        return None
    when = f", {ago(before[0])} on {before[2]}" if before is not None else ""
    was = "it was compiled before" if before is not None and before[1] == "miss" else "it was there before"
    why = finder.set_aside(event["key"])
    if why is not None:
        return f"{was}{when}, and was set aside: {why}", "`warmgraph verify` reads all others"
    return (
        f"{was}{when}, and is gone: evicted, expired or never written",
        "give the store more room (WARMGRAPH_MAX_SIZE; maxmemory of the server) or time (WARMGRAPH_TTL)",
    )


def _older(created: object, event: Mapping[str, Any]) -> bool:
    """Whether an entry was there when the event's compile began."""
    begun = event["time"] - sum(event["seconds"].values())
    return not isinstance(created, (int, float)) or created <= begun + 1e-3


def _with_detail(cause: str, event: EventDict) -> str:
    detail = event["detail"]
    return cause if not detail or detail in cause else f"{cause}: {detail}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "nothing"
