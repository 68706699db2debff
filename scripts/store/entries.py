"""Commands about single entries: ls and show. They read the disk store and decode nothing but texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from warmgraph.cache import (
    CorruptEntry,
    DiskStore,
    Entry,
    EntryFile,
    Role,
    Scalar,
    Store,
    StoreUnavailable,
    Untrusted,
    decode_blob,
)

from ..drawing.command import Wanted, draw, picture_options, wanted_picture
from ..output import ago, epilog, json_option, plain, print_json, seconds, size, table, talk
from .command import TIP, find_store

Row = dict[str, Any]

NOTES = "nodes"  # among the readable graphs: what pictures say of nodes, for no one to read as it is


class UnreadableText(Exception):
    """The readable texts of an entry are gone or damaged. The entry itself may be good."""


@click.command(epilog=epilog("warmgraph ls --limit 20", "the store cannot be read"))
@click.option("--limit", type=click.IntRange(min=1), help="Show only so many.")
@json_option
def ls(limit: int | None, as_json: bool) -> int:
    """List entries, last used first."""
    store = find_store()
    rows: list[Row] = []
    for file, entry in _entries(store) if store is not None else ():
        rows.append(_row(file, entry))
        if len(rows) == limit:
            break
    if as_json:
        print_json({"version": 1, "entries": rows})
    elif rows:
        _print_rows(rows)
    elif store is not None:
        talk(f"no entries in {store.root} yet. {TIP}")
    return 0


@click.command(epilog=epilog("warmgraph show wg13f9a --texts", "no such entry, or it is damaged"))
@click.argument("key")
@click.option("--texts", is_flag=True, help="Print the key's parts in full: every line that was hashed.")
@click.option("--graph", is_flag=True, help="Print the graphs that were compiled.")
@picture_options
@json_option
def show(key: str, texts: bool, graph: bool, as_json: bool, **picture: Any) -> int:
    """Everything about the entries of KEY.

    A beginning of the key is enough if no other key begins with it. With --json, texts and graphs that were
    asked for and cannot be read are null. A picture (--dot, --svg, --text) is all that is printed then; all entries
    of a key have the same graph.
    """
    wanted_one = wanted_picture(**picture)
    if wanted_one.form is not None and (texts or graph or as_json):
        raise click.UsageError("a picture (--dot, --svg or --text) comes alone, without --texts, --graph or --json")
    store = find_store()
    if store is None:
        return 1
    found = _find(store, key)
    if wanted_one.form is not None:
        return _draw(store, found[0][1], wanted_one)
    wanted = [("texts", Role.PART_TEXTS)] * texts + [("graphs", Role.GRAPH_TEXT)] * graph
    shown, unread = [], 0
    for file, entry in found:
        details = _details(file, entry)
        for name, role in wanted:
            try:
                details[name] = {n: text for n, text in texts_of(store, entry, role).items() if n != NOTES}
            except UnreadableText as error:
                details[name], unread = None, unread + 1
                talk(f"the {name} of {entry.key[:14]} cannot be shown: {error}. TIP: warmgraph verify")
        shown.append(details)
    if as_json:
        print_json({"version": 1, "entries": shown})
    else:
        for one in shown:
            _print_entry(one)
    return 1 if unread else 0


def _draw(store: DiskStore, entry: Entry, wanted: Wanted) -> int:
    try:
        parts = texts_of(store, entry, Role.PART_TEXTS)
    except UnreadableText as error:
        raise click.ClickException(f"{entry.key[:14]} is not drawn: {error}. TIP: warmgraph verify") from error
    if "graph" not in parts:
        raise click.ClickException(f"{entry.key[:14]} holds no graph")
    try:
        notes = texts_of(store, entry, Role.GRAPH_TEXT).get(NOTES, "")
    except UnreadableText as error:
        talk(f"drawn without shapes and modules: {error}. TIP: warmgraph verify")
        notes = ""
    return draw(entry, parts, notes, wanted)


def _find(store: DiskStore, key: str) -> list[tuple[EntryFile, Entry]]:
    """The entries of the one key that begins with `key`. Raises ClickException when it is none or several."""
    prefix = key if key.startswith("wg") else f"wg1{key}"
    found = list(_entries(store, prefix))
    if not found:
        raise click.ClickException(f"no readable entry has a key that begins with {prefix!r:.80}. TIP: warmgraph ls")
    keys = sorted({entry.key for _, entry in found})
    if len(keys) > 1:
        listed = ", ".join(name[:20] for name in keys[:5])
        raise click.ClickException(f"{len(keys)} keys begin with {prefix!r}: {listed}. TIP: give more of it")
    return found


def _entries(store: DiskStore, prefix: str = "") -> Iterator[tuple[EntryFile, Entry]]:
    """Every readable entry whose key begins with `prefix`, last used first. Damaged ones are told of on stderr."""
    for file in sorted(store.scan(), key=lambda file: (-file.last_used, file.key)):
        if not file.key.startswith(prefix):
            continue
        try:
            read = store.read_entry(file.key, file.variant)
        except Untrusted as error:
            talk(f"{file.key[:14]} is passed by: it is {error}. TIP: warmgraph config lists the keys known here")
            continue
        except CorruptEntry as error:
            talk(f"{file.key[:14]} is damaged ({error}). TIP: warmgraph verify --fix")
            continue
        if read is not None:  # None: evicted since it was listed
            yield file, read[0]


def _row(file: EntryFile, entry: Entry) -> Row:
    facts = entry.facts
    return {
        "key": entry.key,
        "variant": entry.variant,
        "function": _text(facts.get("function")),
        "file": _text(facts.get("file")),
        "line": _number(facts.get("line")),
        "nodes": _number(facts.get("nodes")),
        "guards": entry.guards,
        "bytes": file.size + sum(ref.size for ref in entry.blobs),
        "kernels": sum(ref.role is Role.CPP_KERNEL for ref in entry.blobs),
        "compile_seconds": _number(facts.get("compile_seconds")),
        "host": _text(facts.get("host")),
        "torch": _text(facts.get("torch")),
        "created": _number(facts.get("created")),
        "last_used": file.last_used,
    }


def _details(file: EntryFile, entry: Entry) -> Row:
    blobs = [{"role": ref.role.value, "name": ref.name, "bytes": ref.size, "digest": ref.digest} for ref in entry.blobs]
    return _row(file, entry) | {"parts": dict(entry.parts), "symbols": dict(entry.symbols), "blobs": blobs}


# A fact may be any scalar, whatever its name suggests: it comes from the store.
def _text(fact: Scalar) -> str | None:
    return fact if isinstance(fact, str) else None


def _number(fact: Scalar) -> int | float | None:
    return fact if isinstance(fact, (int, float)) and not isinstance(fact, bool) else None


def texts_of(store: Store, entry: Entry, role: Role) -> dict[str, str]:
    """The texts of a role by name; none when the entry has no such blob. Raises UnreadableText."""
    import msgpack  # type: ignore[import-untyped]  # imported late: 5 ms

    texts: dict[str, str] = {}
    for ref in entry.blobs:
        if ref.role is not role:
            continue
        try:
            data = store.blob(ref)
            if data is None:
                raise UnreadableText("its blob is gone")
            found = msgpack.unpackb(decode_blob(ref, data), unicode_errors="surrogatepass")
        except (CorruptEntry, StoreUnavailable) as error:
            raise UnreadableText(str(error)) from error
        except (ValueError, TypeError, RecursionError, MemoryError, msgpack.UnpackException) as error:
            raise UnreadableText(f"not msgpack ({error or type(error).__name__})") from error
        if not isinstance(found, dict) or not all(isinstance(text, str) for pair in found.items() for text in pair):
            raise UnreadableText("not a mapping of names to texts")
        texts |= found
    return texts


def _print_rows(rows: list[Row]) -> None:
    columns = [("key", "left"), ("function", "left"), ("nodes", "right"), ("kernels", "right"), ("size", "right")]
    columns += [("compile", "right"), ("guards", "left"), ("last used", "left")]
    cells = [
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
    ]
    table(columns, cells)


def _print_entry(one: Row) -> None:
    rows = [
        ("key", one["key"]),
        ("variant", one["variant"]),
        ("compiled from", f"{one['function'] or '-'} ({one['file'] or '-'}:{one['line'] or '-'})"),
        ("guards", one["guards"] or "none"),
        ("compiled in", f"{seconds(one['compile_seconds'])} on {one['host'] or '-'}, torch {one['torch'] or '-'}"),
        ("created", ago(one["created"])),
        ("last used", ago(one["last_used"])),
        *[(f"part {name}", digest[:16]) for name, digest in one["parts"].items()],
        *[(f"blob {blob['role']}", f"{blob['name'][:12]} {size(blob['bytes'])}") for blob in one["blobs"]],
    ]
    table([("", "left"), ("", "left")], rows)
    for name, text in (*(one.get("texts") or {}).items(), *(one.get("graphs") or {}).items()):
        click.echo(f"\n--- {plain(name)}")
        for line in text.splitlines():
            click.echo(plain(line.expandtabs()))
    click.echo()
