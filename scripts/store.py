"""Commands about the store: stats, ls, show, verify, prune, config. They read the disk store; no torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from warmgraph.cache import (
    CorruptEntry,
    DiskStore,
    Entry,
    Role,
    as_plain,
    configure,
    decode_blob,
    describe,
    read,
    settings,
    store_root,
    summarise,
)

from .output import ago, json_option, plain, print_json, seconds, size, table

COUNTED = ("hits", "misses", "bypasses", "failures", "seconds_saved")


def open_store(*, readonly: bool = True) -> DiskStore:
    """The disk store of the current settings. Raises ClickException when there is none yet."""
    root = store_root(settings())
    if not root.is_dir():
        raise click.ClickException(
            f"there is no store at {root}. TIP: run a model with torch.compile(backend='warmgraph'), "
            "or set WARMGRAPH_DIR to where one is"
        )
    return DiskStore(root, readonly=readonly)


@click.command(epilog="Example: warmgraph stats --json")
@json_option
def stats(as_json: bool) -> int:
    """Hits, misses, bypasses and failures journaled here, seconds saved, and what the store holds."""
    root = store_root(settings())
    counts = summarise(read(root / "journal"))
    usage = open_store().usage() if root.is_dir() else None
    found: dict[str, Any] = {
        "version": 1,
        **{name: as_plain(counts)[name] for name in COUNTED},
        "entries": usage.entries if usage else 0,
        "bytes": usage.bytes if usage else 0,
    }
    if as_json:
        print_json(found)
        return 0
    looked = found["hits"] + found["misses"]
    rate = f"{found['hits'] / looked:.0%} of lookups" if looked else "no lookups yet"
    rows = [
        ("store", root),
        ("entries", f"{found['entries']}, {size(found['bytes'])} of {size(settings().max_size)}"),
        ("hits", f"{found['hits']} ({rate})"),
        ("misses", found["misses"]),
        ("bypasses", found["bypasses"]),
        ("failures", found["failures"]),
        ("compile time saved", seconds(found["seconds_saved"])),
    ]
    if usage and usage.quarantined:
        rows.append(("quarantined", f"{usage.quarantined} (see `warmgraph verify`)"))
    table([("", "left"), ("", "left")], rows)
    return 0


def _entries(store: DiskStore, prefix: str = "") -> Iterator[tuple[Any, Entry]]:
    """(file, entry) of every readable entry whose key begins with `prefix`, last used first."""
    for file in sorted(store.scan(), key=lambda file: -file.last_used):
        if file.key.startswith(prefix):
            try:
                read = store.read_entry(file.key, file.variant)
            except CorruptEntry as error:
                click.echo(f"{file.key[:14]} is damaged ({error}). TIP: warmgraph verify --fix", err=True)
                continue
            if read is not None:
                yield file, read[0]


def _row(file: Any, entry: Entry) -> dict[str, Any]:
    facts = entry.facts
    return {
        "key": entry.key,
        "variant": entry.variant,
        "function": facts.get("function"),
        "file": facts.get("file"),
        "line": facts.get("line"),
        "nodes": facts.get("nodes"),
        "guards": entry.guards,
        "bytes": file.size + sum(ref.size for ref in entry.blobs),
        "kernels": sum(ref.role is Role.CPP_KERNEL for ref in entry.blobs),
        "compile_seconds": facts.get("compile_seconds"),
        "host": facts.get("host"),
        "torch": facts.get("torch"),
        "created": facts.get("created"),
        "last_used": file.last_used,
    }


@click.command(epilog="Example: warmgraph ls --limit 20")
@click.option("--limit", type=click.IntRange(min=1), help="Show only so many.")
@json_option
def ls(limit: int | None, as_json: bool) -> int:
    """List entries, last used first."""
    rows = []
    for file, entry in _entries(open_store()):
        rows.append(_row(file, entry))
        if len(rows) == limit:
            break
    if as_json:
        print_json({"version": 1, "entries": rows})
        return 0
    columns = [
        ("key", "left"),
        ("function", "left"),
        ("nodes", "right"),
        ("kernels", "right"),
        ("size", "right"),
    ]
    columns += [("compile", "right"), ("guards", "left"), ("last used", "left")]
    table(
        columns,
        [
            [
                row["key"][:14],
                f"{row['function'] or '-'}:{row['line'] or '-'}",
                row["nodes"] or "-",
                row["kernels"],
                size(row["bytes"]),
                seconds(row["compile_seconds"]),
                "dynamic" if row["guards"] else "-",
                ago(row["last_used"]),
            ]
            for row in rows
        ],
    )
    return 0


@click.command(epilog="Example: warmgraph show wg13f9a --texts")
@click.argument("key")
@click.option("--texts", is_flag=True, help="Print the key's parts in full: every line that was hashed.")
@click.option("--graph", is_flag=True, help="Print the graphs that were compiled.")
@json_option
def show(key: str, texts: bool, graph: bool, as_json: bool) -> int:
    """Everything about the entries of KEY (a unique beginning is enough)."""
    store = open_store()
    found = list(_entries(store, key if key.startswith("wg") else f"wg1{key}"))
    if not found:
        raise click.ClickException(f"no entry has a key that begins with {key}. TIP: warmgraph ls")
    keys = sorted({entry.key for _, entry in found})
    if len(keys) > 1:
        listed = ", ".join(name[:20] for name in keys[:5])
        raise click.ClickException(f"{len(keys)} keys begin with {key}: {listed}. TIP: give more of it")
    shown = [_details(store, file, entry, texts, graph) for file, entry in found]
    if as_json:
        print_json({"version": 1, "entries": shown})
        return 0
    for one in shown:
        _print_entry(one)
    return 0


def _details(store: DiskStore, file: Any, entry: Entry, texts: bool, graph: bool) -> dict[str, Any]:
    details = _row(file, entry) | {
        "parts": dict(entry.parts),
        "symbols": dict(entry.symbols),
        "blobs": [
            {"role": ref.role.value, "name": ref.name, "bytes": ref.size, "digest": ref.digest} for ref in entry.blobs
        ],
    }
    if texts:
        details["texts"] = _texts(store, entry, Role.PART_TEXTS)
    if graph:
        details["graphs"] = _texts(store, entry, Role.GRAPH_TEXT)
    return details


def _texts(store: DiskStore, entry: Entry, role: Role) -> dict[str, str]:
    import msgpack

    for ref in entry.blobs:
        if ref.role is role and (data := store.blob(ref)) is not None:
            return dict(msgpack.unpackb(decode_blob(ref, data)))
    return {}


def _print_entry(one: dict[str, Any]) -> None:
    place = f"{one['function'] or '-'} ({one['file'] or '-'}:{one['line'] or '-'})"
    rows = [
        ("key", one["key"]),
        ("variant", one["variant"]),
        ("compiled from", place),
        ("guards", one["guards"] or "none"),
        ("compiled in", f"{seconds(one['compile_seconds'])} on {one['host']}, torch {one['torch']}"),
        ("created", ago(one["created"])),
        ("last used", ago(one["last_used"])),
        *[(f"part {name}", digest[:16]) for name, digest in one["parts"].items()],
        *[(f"blob {blob['role']}", f"{blob['name'][:12]} {size(blob['bytes'])}") for blob in one["blobs"]],
    ]
    table([("", "left"), ("", "left")], rows)
    for name, text in (*one.get("texts", {}).items(), *one.get("graphs", {}).items()):
        click.echo(f"\n--- {plain(name)}")
        for line in text.splitlines():
            click.echo(plain(line))
    click.echo()


@click.command(epilog="Example: warmgraph verify --fix")
@click.option("--fix", is_flag=True, help="Quarantine damaged entries, remove damaged and left-over files.")
@json_option
def verify(fix: bool, as_json: bool) -> int:
    """Read every entry and blob and check it. Exit status 1 when something is wrong and was not fixed."""
    report = open_store(readonly=not fix).verify(fix=fix)
    if as_json:
        findings = [
            {"path": str(f.path), "flaw": f.flaw.value, "detail": f.detail, "fixed": f.fixed} for f in report.findings
        ]
        print_json(
            {
                "version": 1,
                "ok": report.ok,
                "entries": report.entries,
                "blobs": report.blobs,
                "bytes": report.bytes,
                "findings": findings,
            }
        )
    else:
        for finding in report.findings:
            done = " (fixed)" if finding.fixed else ""
            click.echo(plain(f"{finding.flaw.value}: {finding.path}: {finding.detail}{done}"))
        click.echo(f"{report.entries} entries and {report.blobs} blobs checked, {size(report.bytes)}", err=True)
    return 0 if report.ok or fix else 1


@click.command(epilog="Example: warmgraph prune --max-size 5GB")
@click.option(
    "--max-size",
    metavar="SIZE",
    help="Evict, least recently used first, down to this size. [WARMGRAPH_MAX_SIZE]",
)
@json_option
def prune(max_size: str | None, as_json: bool) -> int:
    """Evict the least recently used entries, and remove what nothing refers to."""
    bound = configure(max_size=max_size).max_size
    report = open_store(readonly=False).prune(bound, settings().max_files)
    if as_json:
        fields = ("entries", "blobs", "bytes_freed", "leftovers", "bytes", "files", "bytes_waiting")
        print_json({"version": 1, **{name: getattr(report, name) for name in fields}})
        return 0
    click.echo(
        f"removed {report.entries} entries and {report.blobs} blobs, {size(report.bytes_freed)}; "
        f"{size(report.bytes)} stay"
    )
    if report.bytes_waiting:
        click.echo(f"{size(report.bytes_waiting)} more go once they are ten minutes old", err=True)
    return 0


@click.command(epilog="Example: WARMGRAPH_DIR=/mnt/cache warmgraph config")
@json_option
def config(as_json: bool) -> int:
    """Every setting, its value, and where the value comes from."""
    rows = describe(configure())
    if as_json:
        values = {name: {"value": value, "origin": origin} for name, value, origin in rows}
        print_json({"version": 1, "settings": values})
        return 0
    table([("setting", "left"), ("value", "left"), ("from", "left")], rows)
    return 0
