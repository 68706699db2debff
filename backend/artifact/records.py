"""A pickle as inert records: names, arguments and states, of which nothing was looked up, called or written to.

Before it is decoded every opcode is looked at: only those that pickle's protocol 5 writes for data pass, and none that
reserves more memory than its own bytes. (`LONG_BINPUT` with a large number, or a call of `bytes` with one, reserves
gigabytes.) What a pickle names is a class of ours that keeps what it is given; nothing that lies on its stack can be
called beside these, and nothing of these does anything. Turning records into objects is `unpickle`'s.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from typing import Any, ClassVar, NoReturn


class NotAllowed(pickle.UnpicklingError):
    """A stored result asks for something that no result is made of. `str()` says for what."""


def refuse(what: str, name: object) -> NoReturn:
    raise NotAllowed(f"a stored result asks for {what} that no result is made of: {name!s:.200}")


class _Inert(type):
    """Classes that cannot be written to."""

    def __setattr__(cls, name: str, value: Any) -> None:
        refuse("a change", f"{cls.__name__}.{name}")


class Record(metaclass=_Inert):
    """What a pickle made of a name: `args` and `kwargs` of its call; `state`, `items` and `values` that came after."""

    __slots__ = ("args", "items", "kwargs", "state", "values")
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    state: tuple[Any] | None
    items: list[tuple[Any, Any]]
    values: list[Any]
    place: ClassVar[tuple[str, str]] = ("", "")

    def __new__(cls, *args: Any, **kwargs: Any) -> Record:
        self = object.__new__(cls)
        self.args, self.kwargs, self.state = args, kwargs, None
        self.items, self.values = [], []
        return self

    def __setstate__(self, state: Any) -> None:
        if self.state is not None:
            refuse("a second state", self.place)
        self.state = (state,)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.items.append((key, value))

    def append(self, value: Any) -> None:
        self.values.append(value)


class _Reader(pickle.Unpickler):
    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self._names: dict[tuple[str, str], type[Record]] = {}

    def find_class(self, module: str, name: str) -> type[Record]:
        place = module, name
        if place not in self._names:
            made: Any = _Inert("Record", (Record,), {"place": place, "__slots__": ()})
            self._names[place] = made
        return self._names[place]


def read(data: bytes) -> Any:
    """What is in `data`: plain values, and records. Raises NotAllowed, and whatever pickle raises for what is none."""
    if _end(data, 0, _DATA_OPS) != len(data):
        refuse("bytes behind its end", len(data))
    return _Reader(data).load()


# -- opcodes

_ONE = {code.code.encode("latin-1")[0]: code for code in pickletools.opcodes}
_DATA_OPS = frozenset(
    "PROTO FRAME STOP MARK POP POP_MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE "
    "SHORT_BINUNICODE BINBYTES SHORT_BINBYTES EMPTY_LIST APPEND APPENDS EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 "
    "EMPTY_DICT SETITEM SETITEMS EMPTY_SET ADDITEMS FROZENSET MEMOIZE BINGET LONG_BINGET STACK_GLOBAL REDUCE NEWOBJ "
    "NEWOBJ_EX BUILD".split()
)
# Of a storage, as torch saves it: in pickles of protocol 2, that name one type and call nothing.
_STORAGE_OPS = frozenset(
    "PROTO STOP MARK NONE NEWTRUE NEWFALSE BININT BININT1 BININT2 LONG1 BINUNICODE EMPTY_LIST APPEND APPENDS "
    "EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_DICT SETITEM SETITEMS BINPUT BINGET GLOBAL BINPERSID".split()
)
_STORAGE_TYPE = re.compile(rb"ctorch\n[A-Z][A-Za-z0-9]*Storage\n")


def _length_of(name: str) -> int:
    """How many bytes follow an opcode; negative: a number of so many bytes follows, and then as many as it says."""
    argument = next(code.arg for code in pickletools.opcodes if code.name == name)
    if argument is None:
        return 0
    counted = {pickletools.TAKEN_FROM_ARGUMENT1: -1, pickletools.TAKEN_FROM_ARGUMENT4U: -4}
    return counted.get(argument.n, argument.n)


_LENGTHS = {
    code: _length_of(opcode.name)
    for code, opcode in _ONE.items()
    if opcode.name in _DATA_OPS | _STORAGE_OPS and opcode.name != "GLOBAL"
}
_STOP, _GLOBAL = ord("."), ord("c")


def _end(data: bytes, at: int, allowed: frozenset[str]) -> int:
    """Where the pickle that begins at `at` ends. Raises NotAllowed for an opcode that is not allowed."""
    codes = {code: _LENGTHS[code] for code in _LENGTHS if _ONE[code].name in allowed}
    names = "GLOBAL" in allowed
    size = len(data)
    while at < size:
        code = data[at]
        length = codes.get(code)
        if length is None:
            match = _STORAGE_TYPE.match(data, at) if names and code == _GLOBAL else None
            if match is None:
                refuse("an opcode", _ONE[code].name if code in _ONE else code)
            at = match.end()
            continue
        at += 1
        if code == _STOP:
            return at
        if length < 0:
            at += int.from_bytes(data[at : at - length], "little") - length
        else:
            at += length
    refuse("a pickle without an end", size)


# -- storages

_ELEMENTS = dict.fromkeys(("UntypedStorage", "ByteStorage", "CharStorage", "BoolStorage"), 1)  # bytes of each
_ELEMENTS |= dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2)
_ELEMENTS |= dict.fromkeys(("FloatStorage", "IntStorage"), 4)
_ELEMENTS |= dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8) | {"ComplexDoubleStorage": 16}


class _Header(pickle.Unpickler):
    """The pickles before a storage's bytes."""

    def find_class(self, module: str, name: str) -> Any:
        return name

    def persistent_load(self, pid: Any) -> Any:
        return pid


def check_storage(data: bytes) -> None:
    """Raise NotAllowed unless `data` is one storage as torch saves it, with as many bytes as it says."""
    at, parts = 0, []
    for _ in range(5):  # a magic number, the protocol, the machine, the storage, the list of storages
        end = _end(data, at, _STORAGE_OPS)
        parts.append(_Header(io.BytesIO(data[at:end])).load())
        at = end
    said = parts[3]
    if not (isinstance(said, tuple) and len(said) == 6 and said[0] == "storage" and parts[4] == [said[2]]):
        refuse("a storage", said)
    count, element = said[4], _ELEMENTS.get(said[1])
    if element is None or type(count) is not int or count < 0 or len(data) != at + 8 + count * element:
        refuse("a storage", f"{said[1]} of {count} with {len(data) - at} bytes")
