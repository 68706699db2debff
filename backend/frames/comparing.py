"""Two records of one frame, compared: what differs beside names that each process numbers anew."""

from __future__ import annotations

from typing import Any

from warmgraph.hashing import sha256_hex

from .record import Record, decode_record, encode_record

_OF_A_RUN = ("scope",)
_BY_NUMBER = frozenset("sources texts guards facts surfaces places inlined sizes key_order alias free".split())


def differences(was: Record, now: Record) -> str | None:
    """The first field that differs, in words; None where all are the same."""
    one, other = (_plain(decode_record(encode_record(record))) for record in (was, now))
    for name, value in one.items():
        if value != other[name] and name not in _OF_A_RUN:
            return f"{name}: {_first(value, other[name])}"
    return None


def _first(was: Any, now: Any) -> str:
    if isinstance(was, list) and isinstance(now, list):
        gone = next((item for item in was if item not in now), None)
        new = next((item for item in now if item not in was), None)
        return f"was {gone!r:.150}, is {new!r:.150}"
    return f"was {was!r:.150}, is {now!r:.150}"


def _plain(record: Record) -> dict[str, Any]:
    """Sources and fingerprints in full where numbers stand, and one name for each global that Dynamo installed."""
    names = {name: f"<{number} {kind}>" for number, (name, kind, _) in enumerate(record.installed)}

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {rename(key): rename(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [rename(item) for item in value]
        return names.get(value, value) if isinstance(value, str) else value

    sources: list[str] = []
    for kind, *fields in record.sources:
        said = [sources[item[1]] if item[0] == "source" else rename(item) for item in fields]
        sources.append(f"{kind} {sha256_hex(repr(said).encode())[:16]}")

    def row(number: int, kind: str, arguments: dict[str, Any], text: int | None) -> str:
        more = {k: sources[v[1]] if v[0] == "source" else v for k, v in sorted(arguments.items())}
        return f"{sources[number]} {kind} {more} {'' if text is None else record.texts[text]}"

    whole = {name: rename(getattr(record, name)) for name in record.__struct_fields__ if name not in _BY_NUMBER}
    references = [piece for reference in whole["graphs"].values() for piece in reference["pieces"]]
    for reference in references:  # slots are in the order of the graph's symbols
        reference["slots"] = sorted(reference["slots"].values())
    return {
        **whole,
        "guards": sorted(row(*guard) for guard in record.guards),
        "facts": sorted(row(*fact) for fact in record.facts),
        "surfaces": sorted(f"{sources[number]} {record.texts[text]}" for number, text in record.surfaces),
        "places": sorted(f"{sources[number]} {place}" for number, place in record.places),
        "inlined": sorted(f"{module} {path} {record.texts[text]}" for module, path, text in record.inlined),
        "sizes": sorted(f"{sources[number]} {rest}" for number, *rest in record.sizes),
        "alias": sorted(repr(_named(guard, sources)) for guard in record.alias),
        "free": sorted(sources[number] for number in record.free),
        "key_order": sorted(sources[number] for number in record.key_order),
    }


def _named(alias: Any, sources: list[str]) -> Any:
    """A guard of AOTAutograd's, with its sources in full."""
    if isinstance(alias, (list, tuple)):
        return [_named(item, sources) for item in alias]
    return sources[alias] if isinstance(alias, int) else alias


def identity(record: Record) -> str:
    """24 hex digits: equal for records that fit the same frames and give the same."""
    return sha256_hex(repr(sorted(_plain(record).items())).encode("utf-8", "surrogatepass"))[:24]
