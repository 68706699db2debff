"""A frame's record: what one trace of one frame made, as plain data, and its bytes. Reads and compares nothing live."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..torch_api.frames.plain import Plain, Refused

FORMAT = 13
_MAX_ITEMS = 2_000_000


class Record(Struct):
    """Sources are numbers in `sources`, fingerprints numbers in `texts`.

    code: transformed bytecode. installed: [name, kind, data] of each global that Dynamo installed. imports: alias
    -> module. guards: [source, kind, arguments, fingerprint], in torch's order; None where the guard itself
    says it. facts: the same, of what torch assumes under no guard. surfaces: [source, fingerprint], names and
    keys of guarded values. places: [source, number in the walk] of modules without hooks. asked: names that
    traced code asks for, looked_for: of which it asks whether they are there; spaces: [module or "" for the frame's
    own, fingerprint], which of them it has. inlined: [module, path, fingerprint] of code traced through. sizes:
    [source, sizes, strides, marked] of inputs. key_order: dicts in whose order the frame iterated. alias:
    AOTAutograd's guards. shape: guards on sizes, as evaluated and as shown. state: of the process; program: module
    -> digest of its file. graphs: name -> where its pieces are kept. pgo: sizes seen; scope: by whom, in the user's
    words on which runs belong together. sharing: of tensors and their memory; one: which values are one object; names:
    texts, too. reached: all data that the frame can reach; free: sources of numbers that may vary; everything: traced
    code goes over names of objects.
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
