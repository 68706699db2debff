"""`warmgraph explain` and `diff`: why lookups missed, and how two keys differ. How that is found out: `explaining`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from warmgraph.cache import NOT_COMPILED, EventDict, Reason, journal_dir, settings

from ..journal import moment
from ..output import ago, epilog, json_option, plain, print_json, seconds, talk
from .explaining import Compared, Explanation, compare, explained
from .finding import Finder, the_one, with_prefix
from .history import Run, last_run, past_of, select

_LINES = 8  # of one part, unless all are asked for

all_option = click.option("--all", "everything", is_flag=True, help="Every line that differs, not the first of a part.")
_EXPLAIN_ALL = "Every line that differs, not the first of a part; and each frame that is traced in every process."


@click.command(epilog=epilog("warmgraph explain", "the journal or store cannot be read, or nothing is known of KEY"))
@click.argument("key", required=False)
@click.option(
    "--since", metavar="AGE", callback=moment, help="All misses younger than this, not the last run's: 6h, 2d."
)
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Read this folder of journal files instead.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Explain only so many.")
@click.option("--all", "everything", is_flag=True, help=_EXPLAIN_ALL)
@json_option
def explain(
    key: str | None, since: float | None, folder: Path | None, limit: int, everything: bool, as_json: bool
) -> int:
    """Why did the last run miss, or KEY?

    Each miss, newest first, beside the entry that was nearest to it, line by line; what was bypassed or ran without
    CUDA graphs, and why. The last run is the newest process in the journal, or all ranks of its job. A beginning of
    KEY is enough; a miss's line in the log and in `warmgraph journal` has it. Neither torch nor the model is needed.
    """
    place, finder = folder or journal_dir(settings()), Finder.of_settings()
    if key is not None:
        return _explain_key(with_prefix(key), place, finder, limit, everything, as_json)
    run = last_run(place, since)
    chosen = [event for event in reversed(run.events) if _is_told(event) or (everything and _is_for_good(event))]
    past = past_of(place, [event["key"] for event in chosen if event["key"] is not None])
    found = [explained(event, finder, past) for event in _first_of_each(chosen, limit)]
    if as_json:
        print_json({"version": 1, "run": _run(run), "explained": [one.as_plain() for one in found]})
    else:
        _tell_run(run, found, place)
        _print_all(found, everything)
    return 0


@click.command(epilog=epilog("warmgraph diff 4f1c 9a2b", "no such entry, or its texts are gone"))
@click.argument("before")
@click.argument("after")
@all_option
@json_option
def diff(before: str, after: str, everything: bool, as_json: bool) -> int:
    """The lines in which two keys differ.

    Of any two entries, in the folder or else on the server at WARMGRAPH_URL. A beginning of each key is enough if no
    other begins with it.
    """
    finder = Finder.of_settings()
    keys = []
    for given in (before, after):
        key = finder.full_key(with_prefix(given))
        if key is None:
            raise click.ClickException(
                f"no entry has a key that begins with {with_prefix(given)!r:.80}. TIP: warmgraph ls"
            )
        keys.append(key)
    compared = compare(finder, *keys)
    if compared.lines is None:
        raise click.ClickException(
            f"the texts of {keys[0][:14]} or {keys[1][:14]} are not there. TIP: warmgraph verify"
        )
    if as_json:
        print_json({"version": 1, "before": keys[0], "after": keys[1]} | compared.as_plain() | {"key": keys[0]})
    else:
        _print_lines(compared, everything, indent="")
        if not compared.lines:
            talk("they do not differ")
    return 0


# -- one key


def _explain_key(prefix: str, place: Path, finder: Finder, limit: int, everything: bool, as_json: bool) -> int:
    events = select(place, lambda event: event["key"] is not None and event["key"].startswith(prefix))
    key = the_one(prefix, {event["key"] for event in events}) or finder.full_key(prefix)
    if key is None:
        raise click.ClickException(f"neither the journal nor the store knows {prefix!r:.80}. TIP: warmgraph journal")
    past = past_of(place, [key])
    told = [event for event in events if _is_told(event)][:limit]
    found = [explained(event, finder, past, relatives=3) for event in told]
    hits = [event for event in events if event["outcome"] == "hit"]
    others = [] if found else _beside(key, finder)
    if as_json:
        body: dict[str, Any] = {"key": key, "hits": len(hits), "explained": [one.as_plain() for one in found]}
        print_json({"version": 1} | body | {"nearest": [one.as_plain() for one in others]})
        return 0
    if hits:
        talk(f"{key[:14]} hit {len(hits)} times, the last time {ago(hits[0]['time'])} from {hits[0]['tier'] or '-'}")
    if not found and not hits:
        talk(f"{key[:14]} is in the store, and the journal has no lookup of it")
    for one in others:
        click.echo(plain(f"beside {one.key[:14]}:"))
        _print_lines(one, everything, indent="  ")
    _print_all(found, everything)
    return 0


def _beside(key: str, finder: Finder) -> list[Compared]:
    """A key that never missed, beside what resembles it."""
    for entry in finder.entries(key)[:1]:
        relatives = finder.relatives(key, entry.parts, entry.facts)
        return [compare(finder, one.key, key) for one in relatives[:3]]
    return []


# -- printing


def _is_told(event: EventDict) -> bool:
    """Whatever was not as it should be: all but hits, and hits that were verified and found right. Of no outage.

    Of frames, those that were traced though there was a record.
    """
    if event["outcome"] in ("hit", "sick", "restored"):
        return False
    if event["outcome"] == "traced":
        return bool(event["reason"] == Reason.FRAME_CHANGED.value)
    return event["outcome"] != "verified" or event["reason"] is not None


def _is_for_good(event: EventDict) -> bool:
    """A frame that is traced in every process, as without records of frames: counted, and told in one line."""
    return bool(event["outcome"] == "traced" and event["reason"] == Reason.NOT_RESTORABLE.value)


def _first_of_each(events: Iterable[EventDict], limit: int) -> list[EventDict]:
    """The newest `limit`; of a key that several ranks missed, or that missed twice for one reason, the newest."""
    seen: set[tuple[object, ...]] = set()
    chosen: list[EventDict] = []
    for event in events:
        name = (event["outcome"], event["reason"], event["key"] or (event["function"], event["line"], event["detail"]))
        if name not in seen and len(chosen) < limit:
            seen.add(name)
            chosen.append(event)
    return chosen


def _run(run: Run) -> dict[str, Any]:
    counts = Counter(event["outcome"] for event in run.events)
    return {
        "processes": len(run.processes),
        "hosts": sorted({host for host, *_ in run.processes}),
        "from": run.events[0]["time"] if run.events else None,
        "to": run.events[-1]["time"] if run.events else None,
        "outcomes": dict(counts),
    }


def _tell_run(run: Run, found: Sequence[Explanation], place: Path) -> None:
    if not run.events:
        talk(f'no events in {place}. TIP: run a model with torch.compile(model, backend="warmgraph")')
        return
    about = _run(run)
    who = f"{about['processes']} process{'es' * (about['processes'] > 1)} on {', '.join(about['hosts'][:3])}"
    counts = ", ".join(f"{count} {name}" for name, count in sorted(about["outcomes"].items()))
    talk(f"{who}, {ago(about['to'])}: {counts}")
    if not found:
        talk("nothing missed")
    frames = Counter(event["detail"] or "" for event in run.events if _is_for_good(event))
    if frames:
        why = "; ".join(f"{detail:.120}" for detail, _ in frames.most_common(2)) + "; ..." * (len(frames) > 2)
        talk(f"{frames.total()} frames are traced in each process (docs/frames.md, explain --all): {why}")
    left = Counter(
        f"{event['detail'].removeprefix(NOT_COMPILED)} in {event['function']}"
        for event in run.events
        if event["detail"] is not None and event["detail"].startswith(NOT_COMPILED)
    )
    if left:
        why = "; ".join(f"{one:.120}" for one, _ in left.most_common(3)) + "; ..." * (len(left) > 3)
        count = f"{len(left)} frame{'s' * (len(left) > 1)}"
        talk(f"{count} not compiled, since Dynamo cannot (TORCH_LOGS=graph_breaks says where): {why}")


def _print_all(found: Sequence[Explanation], everything: bool) -> None:
    """Those that say the same are told once."""
    groups: dict[tuple[object, ...], list[Explanation]] = {}
    for one in found:
        groups.setdefault(one.alike, []).append(one)
    for number, group in enumerate(groups.values()):
        if number:
            click.echo()
        for one in group[: None if everything else 4]:
            click.echo(plain(_headline(one.event)))
        if len(group) > 4 and not everything:
            click.echo(f"and {len(group) - 4} more graphs alike")
        _print_one(group[0], everything)


def _headline(event: EventDict) -> str:
    compiled = event["seconds"].get("compile")
    words = [f"{event['function'] or 'a graph'}", f"({event['file']}:{event['line']})" if event["file"] else ""]
    words += [
        f"{event['outcome']} {(event['key'] or '')[:14]}".rstrip(),
        f"({event['reason']})" if event["reason"] else "",
    ]
    words += [f"compiled in {seconds(compiled)}" if compiled else "", f"on {event['host']}/{event['pid']}"]
    return " ".join(word for word in [*words, ago(event["time"])] if word)


def _print_one(one: Explanation, everything: bool) -> None:
    click.echo(plain(f"  {one.cause}"))
    for guards in one.guards:
        click.echo(plain(f"    guards: {guards}"))
    for compared in one.compared:
        click.echo(plain(f"  nearest {compared.key[:14]}:"))
        _print_lines(compared, everything, indent="    ")
    if one.advice:
        click.echo(plain(f"  what to do: {one.advice}"))


def _print_lines(compared: Compared, everything: bool, indent: str) -> None:
    if compared.lines is None:
        for part in compared.parts:
            click.echo(
                f"{indent}{plain(part)}: differs; the texts of one of them are gone, so the lines cannot be shown"
            )
        return
    shown: Counter[str] = Counter()
    for line in compared.lines:
        shown[line.part] += 1
        if everything or shown[line.part] <= _LINES:
            click.echo(f"{indent}{plain(line.text)}")
    for part, count in shown.items():
        if count > _LINES and not everything:
            click.echo(f"{indent}{plain(part)}: and {count - _LINES} more lines (--all)")
