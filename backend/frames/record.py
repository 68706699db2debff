"""A frame's record: what one trace of one frame made, as plain data; its bytes; and how two of them differ, beside
names and numbers that each process gives anew. Reads and compares nothing live.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct
from warmgraph.hashing import sha256_hex

from ..torch_api.frames.plain import Plain, Refused

FORMAT = 22
_MAX_ITEMS = 2_000_000


class Record(Struct):
    """Sources are numbers in `sources`, fingerprints numbers in `texts`.

    code: transformed bytecode; of a frame that Dynamo gave up, and runs as it is, a text: why. installed: [name, kind,
    data] of each global that Dynamo installed. imports: alias -> module. guards: [source, kind, arguments,
    fingerprint], in torch's order; None where the guard itself says it. facts: the same, of what torch assumes under no
    guard. surfaces: [source, fingerprint], names and keys of guarded values. places: [source, number in the walk] of
    modules without hooks. asked: names that traced code asks for, looked_for: of which it asks whether they are there;
    spaces: [place, fingerprint], which of them globals have (places: `reached/spaces.py`). inlined: [module, path,
    fingerprint] of code traced through. optimizers: [source, [group, number of lists] of each call that made its
    state]. called: [source or name, fingerprint] of the user's functions that a graph calls as they are, and of
    operators in no graph. policies: [how it is made again, fingerprint] of what chose which results of a checkpoint its
    graphs save. assumed: [source, arguments, named ones, result] of functions whose result is taken for a constant.
    sizes: [source, sizes, strides, marked] of inputs. key_order: dicts in whose order the frame iterated. alias:
    AOTAutograd's guards. shape: guards on sizes, as evaluated and as shown. state: of the process; program: module ->
    digest of its file. graphs: name -> where its pieces are kept, with the sources of tensors that they hold. pgo:
    sizes seen; scope: by whom, in the user's words on which runs belong together. sharing: of tensors and their memory;
    one: which values are one object; names: texts, too. reached: all data that the frame can reach; free: sources of
    numbers that may vary; everything: traced code goes over names of objects. around: of a frame without a graph, what
    it was traced under, as a piece of a graph has it.
    """

    code: Plain
    installed: list[Plain]
    imports: dict[str, str]
    sources: list[Plain]
    texts: list[str]
    guards: list[Plain]
    facts: list[Plain]
    surfaces: list[Plain]
    places: list[Plain]
    asked: list[str]
    looked_for: list[str]
    spaces: list[Plain]
    inlined: list[Plain]
    optimizers: list[Plain]
    called: list[Plain]
    policies: list[Plain]
    assumed: list[Plain]
    sizes: list[Plain]
    key_order: list[int]
    alias: list[Plain]
    shape: list[list[str]]
    state: dict[str, str]
    program: dict[str, str]
    builtins: str | None
    graphs: dict[str, Any]
    pgo: Plain
    scope: Plain
    sharing: str
    one: str
    names: bool
    everything: bool
    free: list[int]
    reached: bytes
    seed: int | None
    empty: bool
    side_effects: list[str]
    error_on_graph_break: bool
    around: dict[str, Plain] | None = None

    @property
    def surroundings(self) -> list[dict[str, Plain]]:
        """What each piece of its graphs was compiled under, or it was traced under, with more that is not asked."""
        pieces = [piece for graph in self.graphs.values() for piece in graph["pieces"]]
        return pieces if self.around is None else [*pieces, self.around]

    @property
    def given_up(self) -> str | None:
        """Why Dynamo runs the frame as it is; None where it made code of it."""
        return self.code if isinstance(self.code, str) else None

    @property
    def is_dynamic(self) -> bool:
        """Whether a size or a number in it may vary."""
        return bool(self.shape[0]) or any(None in [*size, *stride] for _, size, stride, _ in self.sizes)


_FIELDS = Record.__struct_fields__


def encode_record(record: Record) -> bytes:
    import msgpack  # type: ignore[import-untyped]

    packed = msgpack.packb([FORMAT, *(getattr(record, name) for name in _FIELDS)], unicode_errors="surrogatepass")
    return bytes(packed)


def decode_record(data: bytes) -> Record:
    """Raises Refused for bytes that are no record of this format. What is in it is checked by who uses it."""
    import msgpack

    try:
        plain = msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogatepass", max_array_len=_MAX_ITEMS)
    except (ValueError, TypeError, OverflowError, RecursionError, msgpack.UnpackException) as error:
        raise Refused(f"not a record: {error}") from None
    if not isinstance(plain, list) or not plain or plain[0] != FORMAT or len(plain) != len(_FIELDS) + 1:
        raise Refused("a record of another format")
    return Record(*plain[1:])


class Texts:
    """Fingerprints, each once."""

    def __init__(self) -> None:
        self.rows: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.rows)
            self.rows.append(text)
        return found


_OF_A_RUN = ("scope",)
# Variables of a resume function and files of generated code, which torch names by counters of the process.
_NUMBERED = re.compile(r"___context_manager_\d+_\d+|<eval_with_key>\.\d+.*", re.DOTALL)
_BY_NUMBER = frozenset(
    """
    sources texts guards facts surfaces places inlined optimizers called policies assumed sizes key_order alias free
    """.split()
)


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
    """Sources and fingerprints in full where numbers stand, and one name for each global that Dynamo installed, and for
    each variable that it numbers.
    """
    names = {name: f"<{number} {kind}>" for number, (name, kind, _) in enumerate(record.installed)}

    def rename(value: Any) -> Any:
        if isinstance(value, dict):
            return {rename(key): rename(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [rename(item) for item in value]
        if isinstance(value, str) and value not in names and _NUMBERED.fullmatch(value):
            names[value] = f"<{len(names)} variable>"
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
        reference["lifted"] = [sources[number] for number in reference["lifted"]]
    whole["installed"] = [
        [name, kind, sources[data] if kind == "optimizer" else data] for name, kind, data in whole["installed"]
    ]
    return {
        **whole,
        "guards": sorted(row(*guard) for guard in record.guards),
        "facts": sorted(row(*fact) for fact in record.facts),
        "surfaces": sorted(f"{sources[number]} {record.texts[text]}" for number, text in record.surfaces),
        "places": sorted(f"{sources[number]} {place}" for number, place in record.places),
        "inlined": sorted(f"{module} {path} {record.texts[text]}" for module, path, text in record.inlined),
        "optimizers": sorted(f"{sources[number]} {calls}" for number, calls in record.optimizers),
        "called": sorted(
            f"{sources[place] if isinstance(place, int) else place} {record.texts[text]}"
            for place, text in record.called
        ),
        "policies": sorted(f"{_within(place, sources)} {record.texts[text]}" for place, text in record.policies),
        "assumed": sorted(f"{sources[number]} {rest}" for number, *rest in record.assumed),
        "sizes": sorted(f"{sources[number]} {rest}" for number, *rest in record.sizes),
        "alias": sorted(repr(_named(guard, sources)) for guard in record.alias),
        "free": sorted(sources[number] for number in record.free),
        "key_order": sorted(sources[number] for number in record.key_order),
    }


def _within(place: Plain, sources: list[str]) -> Any:
    """Of a policy, with its sources in full."""
    if isinstance(place, dict):
        return {key: value if key == "plain" else _within(value, sources) for key, value in place.items()}
    if isinstance(place, list):
        return [_within(item, sources) for item in place]
    return sources[place] if isinstance(place, int) else place


def _named(alias: Any, sources: list[str]) -> Any:
    """A guard of AOTAutograd's, with its sources in full."""
    if isinstance(alias, (list, tuple)):
        return [_named(item, sources) for item in alias]
    return sources[alias] if isinstance(alias, int) else alias


def identity(record: Record) -> str:
    """24 hex digits: equal for records that fit the same frames and give the same."""
    return sha256_hex(repr(sorted(_plain(record).items())).encode("utf-8", "surrogatepass"))[:24]
