"""Commands about the store as a whole: stats, verify, prune, config. Single entries: `entries`."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import click
from warmgraph.cache import (
    DiskStore,
    Keyring,
    RemoteUrl,
    VerifyReport,
    as_plain,
    describe,
    journal_dir,
    local_verifier,
    parse_size,
    read,
    settings,
    store_root,
    summarise,
)

from ..output import epilog, json_option, percent, plain, print_json, seconds, size, table, talk

COUNTED = (
    *("hits", "misses", "bypasses", "failures", "verified", "skipped"),
    *("restored", "traced", "seconds_saved"),
)
TIP = 'TIP: run a model with torch.compile(model, backend="warmgraph"), or set WARMGRAPH_DIR to where a store is'


def find_store(*, readonly: bool = True) -> DiskStore | None:
    """The disk store of the current settings. None, and a word on stderr, when there is none yet."""
    root = store_root(settings())
    verifier = local_verifier(settings())
    store = DiskStore(root, readonly=True, verifier=verifier)  # raises StoreUnavailable; creates nothing
    if not root.is_dir():
        talk(f"there is no store at {root} yet. {TIP}")
        return None
    return store if readonly else DiskStore(root, verifier=verifier)


@click.command(epilog=epilog("warmgraph stats --json", "the store cannot be read"))
@json_option
def stats(as_json: bool) -> int:
    """Hits, misses, seconds saved, entries and bytes.

    Counted from the journal that lies beside the store, which goes back 30 days.
    """
    store = find_store()
    usage = store.usage() if store is not None else None
    counts = summarise(read(journal_dir(settings())))
    plain_counts = as_plain(counts)
    found: dict[str, Any] = {"version": 1} | {name: plain_counts[name] for name in COUNTED}
    found |= {"entries": usage.entries if usage else 0, "bytes": usage.bytes if usage else 0}
    if as_json:
        print_json(found)
        return 0
    looked = found["hits"] + found["misses"]
    rate = f"{percent(found['hits'] / looked)} of lookups" if looked else "no lookups yet"
    rows = [
        ("store", store_root(settings())),
        ("entries", f"{found['entries']}, {size(found['bytes'])} of {size(settings().max_size)}"),
        ("hits", f"{found['hits']} ({rate})"),
        ("misses", found["misses"]),
        ("bypasses", found["bypasses"]),
        ("failures", found["failures"]),
        ("hits verified", found["verified"]),
        ("CUDA graphs skipped", found["skipped"]),
        ("frames restored", f"{found['restored']}, {found['traced']} traced"),
        ("compile time saved", seconds(found["seconds_saved"])),
    ]
    if counts.reasons:
        rows.append(("reasons", ", ".join(f"{name} {count}" for name, count in sorted(counts.reasons.items()))))
    if counts.frames:
        rows.append(("frames traced", ", ".join(f"{name} {count}" for name, count in sorted(counts.frames.items()))))
    if usage and usage.quarantined:
        rows.append(("quarantined", f"{usage.quarantined} in {store_root(settings()) / 'quarantine'}"))
    table([("", "left"), ("", "left")], rows)
    return 0


@click.command(epilog=epilog("warmgraph verify --fix", "something is wrong and was not fixed"))
@click.option("--fix", is_flag=True, help="Quarantine damaged entries; remove damaged and left-over files.")
@json_option
def verify(fix: bool, as_json: bool) -> int:
    """Read every entry and blob and check it."""
    store = find_store(readonly=not fix)
    report = VerifyReport(0, 0, 0, ())
    if store is not None:
        usage = store.usage()
        talk(f"checking {usage.entries} entries and {usage.blobs} blobs, {size(usage.bytes)}, in {store.root}")
        report = store.verify(fix=fix)
    if as_json:
        print_json(_verified(report))
    else:
        for finding in report.findings:
            done = " (fixed)" if finding.fixed else ""
            click.echo(plain(f"{finding.flaw.value}: {finding.path}: {finding.detail}{done}"))
    if report.ok and store is not None:
        talk("nothing that a lookup would trip over")
    elif not report.ok and not fix:
        talk("what is damaged is never loaded, and costs a compile. TIP: warmgraph verify --fix")
    return 0 if report.ok or fix else 1


def _verified(report: VerifyReport) -> dict[str, Any]:
    return {
        "version": 1,
        "ok": report.ok,
        "entries": report.entries,
        "blobs": report.blobs,
        "bytes": report.bytes,
        "findings": [
            {"path": str(found.path), "flaw": found.flaw.value, "detail": found.detail, "fixed": found.fixed}
            for found in report.findings
        ],
    }


@click.command(epilog=epilog("warmgraph prune --max-size 5GB", "the store cannot be written"))
@click.option("--max-size", metavar="SIZE", help="Evict down to this size, such as 5GB. [WARMGRAPH_MAX_SIZE]")
@json_option
def prune(max_size: str | None, as_json: bool) -> int:
    """Evict the least recently used, and sweep up leftovers."""
    bound = settings().max_size if max_size is None else parse_size("--max-size", max_size)
    store = find_store(readonly=False)
    fields = ("entries", "blobs", "bytes_freed", "leftovers", "bytes", "files", "bytes_waiting")
    if store is None:
        done = dict.fromkeys(fields, 0)
    else:
        report = store.prune(bound, settings().max_files)
        done = {name: getattr(report, name) for name in fields}
    if as_json:
        print_json({"version": 1} | done)
        return 0
    click.echo(
        f"removed {done['entries']} entries and {done['blobs']} blobs, {size(done['bytes_freed'])}; "
        f"{size(done['bytes'])} stay, of at most {size(bound)}"
    )
    if done["bytes_waiting"]:
        talk(f"{size(done['bytes_waiting'])} more can go when they are ten minutes old")
    return 0


@click.command(epilog=epilog("WARMGRAPH_DIR=/mnt/cache warmgraph config"))
@json_option
def config(as_json: bool) -> int:
    """Every setting, its value, and where it comes from."""
    current = settings()
    rows = describe(current)
    if as_json:
        values = {name: {"value": _typed(getattr(current, name)), "origin": origin} for name, _, origin in rows}
        print_json({"version": 1, "settings": values})
        return 0
    table([("setting", "left"), ("value", "left"), ("from", "left")], rows)
    return 0


def _typed(value: object) -> object:
    """A setting's value as JSON has it. No secret is in it."""
    if isinstance(value, RemoteUrl):
        return value.masked
    if isinstance(value, Keyring):
        return value.ids()
    return value.value if isinstance(value, Enum) else str(value) if isinstance(value, Path) else value
