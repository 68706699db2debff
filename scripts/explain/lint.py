"""`warmgraph lint`: what in keys changes on every run or host, so that nothing ever hits. Single misses: `explain`."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath

import click
from warmgraph.cache import EventDict, Reason, StoreUnavailable, journal_dir, settings
from warmgraph.cache import read as read_journal

from ..journal import moment
from ..output import epilog, json_option, plain, print_json, talk
from .differences import differences
from .finding import Finder
from .history import Process, process_of
from .suspects import ADVICE, kind_of, suspects
from .wording import Difference

_SHOWN = 5  # values of one finding
_COMPARED = 6  # runs of one graph, the newest
_NEEDED = ("time", "host", "pid", "rank", "started", "outcome", "reason", "key", "function", "file", "line")
# The graph number `position` that a process compiled at a line of a function: (base name, function, line, position).
Place = tuple[str, str, int, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """kind: of `suspects.ADVICE`. runs: in how many it changed; 0 when it was only seen, in `entries` entries.

    where: the user's function and line. values: as seen, oldest first. key: of the newest.
    """

    kind: str
    part: str
    name: str
    where: str
    values: tuple[str, ...]
    runs: int
    entries: int
    key: str
    advice: str


@click.command(epilog=epilog("warmgraph lint --since 7d", "something was found, or the store cannot be read"))
@click.option("--runs", type=click.IntRange(min=2), default=3, show_default=True, help="Only what changed in so many.")
@click.option("--since", metavar="AGE", callback=moment, help="Only events younger than this: 90s, 15m, 6h, 2d.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Read this folder of journal files instead.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=500, show_default=True, help="Read so many entries' texts."
)
@json_option
def lint(runs: int, since: float | None, folder: Path | None, limit: int, as_json: bool) -> int:
    """What makes keys change on every run?

    Or on every host. Two ways to find it: functions that missed in every run, with what changed each time; and
    lines in the keys of entries that look like paths, addresses, times, identifiers or host names.
    """
    finder = Finder.of_settings()
    journal = read_journal(folder or journal_dir(settings()), since)
    events = [{name: event[name] for name in _NEEDED} for event in journal if event["key"] is not None]
    found = [*_changing(events, finder, runs), *_seen(finder, events, limit)]
    if as_json:
        print_json({"version": 1, "findings": [asdict(one) for one in found]})
    else:
        for one in found:
            _print(one)
    if not found:
        talk("nothing in the keys looks as if it changed from run to run")
    return 1 if found else 0


# -- what changed in every run


def _changing(events: Iterable[EventDict], finder: Finder, runs: int) -> Iterator[Finding]:
    for place, rows in sorted(_by_place(events).items()):
        keys = {event["key"] for event in rows}
        always = all(event["outcome"] == "miss" and event["reason"] == Reason.ABSENT.value for event in rows)
        if len(rows) >= runs and always and len(keys) == len(rows):
            yield from _changed(place, rows[-_COMPARED:], len(rows), finder)


def _by_place(events: Iterable[EventDict]) -> dict[Place, list[EventDict]]:
    """Of each graph that processes compile at a place, what became of it, run by run."""
    counted: dict[tuple[Process, object], int] = defaultdict(int)
    found: dict[Place, list[EventDict]] = defaultdict(list)
    for event in sorted(events, key=lambda event: event["time"]):
        if event["outcome"] not in ("hit", "miss") or event["function"] is None:
            continue
        spot = (PurePath(event["file"] or "").name, event["function"], event["line"] or 0)
        number = counted[process_of(event), spot]
        counted[process_of(event), spot] += 1
        place: Place = (*spot, number)
        found[place].append(event)
    return found


def _changed(place: Place, rows: Sequence[EventDict], runs: int, finder: Finder) -> Iterator[Finding]:
    """What differs between each two runs that followed one another."""
    texts = [(event, finder.texts(event["key"])) for event in rows]
    known = [(event, text) for event, text in texts if text is not None]
    if len(known) < 2:
        return
    steps = [
        {(one.part, one.name): one for one in differences(before, after)}
        for (_, before), (_, after) in itertools.pairwise(known)
    ]
    each = set.intersection(*(set(step) for step in steps))
    for part, name in sorted(each):
        changes = [step[part, name] for step in steps]
        values = [changes[0].before or "", *(one.after or "" for one in changes)]
        if len(set(values)) == len(values):
            yield _finding(place, changes, values, [event for event, _ in known], runs)


def _finding(
    place: Place, changes: Sequence[Difference], values: Sequence[str], events: Sequence[EventDict], runs: int
) -> Finding:
    pids, hosts = [event["pid"] for event in events], [event["host"] for event in events]
    kind = kind_of(values, pids, hosts, [event["rank"] for event in events])
    one, newest = changes[-1], events[-1]
    where = f"{place[1]} ({newest['file']}:{newest['line']})"
    return Finding(kind, one.part, one.name, where, tuple(values[-_SHOWN:]), runs, 0, newest["key"], ADVICE[kind])


# -- what looks as if it would


def _seen(finder: Finder, events: Sequence[EventDict], limit: int) -> Iterator[Finding]:
    """Suspects in the texts of the newest entries, each once for all entries that have it."""
    if finder.folder is None:
        return
    files = sorted(finder.folder.scan(), key=lambda file: -file.last_used)
    keys = list(dict.fromkeys(file.key for file in files))
    if len(keys) > limit:
        talk(f"reading the {limit} entries used last, of {len(keys)} (--limit)")
    places = {event["key"]: event for event in events}
    hosts = sorted({event["host"] for event in events if len(event["host"]) > 3} - {"localhost"})
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for key in keys[:limit]:
        try:
            texts = finder.texts(key) or {}
        except StoreUnavailable as error:
            talk(str(error))
            continue
        for part, text in texts.items():
            for one in suspects(part, text, hosts):
                found[one.kind, one.part, one.name].append((key, one.value))
    for (kind, part, name), rows in sorted(found.items()):
        values = tuple(dict.fromkeys(value for _, value in rows))
        event = places.get(rows[0][0])
        where = f"{event['function']} ({event['file']}:{event['line']})" if event is not None else "-"
        yield Finding(kind, part, name, where, values[:_SHOWN], 0, len(rows), rows[0][0], ADVICE[kind])


def _print(one: Finding) -> None:
    how = f"another in each of {one.runs} runs" if one.runs else f"in {one.entries} entries"
    click.echo(plain(f"{one.kind}: {one.part}: {one.name}, {how}, such as {' -> '.join(one.values)}"))
    click.echo(plain(f"  {one.where}, {one.key[:14]}"))
    click.echo(plain(f"  what to do: {one.advice}"))
