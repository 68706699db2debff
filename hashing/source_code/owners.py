"""Which attributes of modules, classes and functions count for a piece of code: those that it may ask for."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Iterable
from typing import Any

import torch

from ..encoding.targets import TORCH_NAMESPACES
from ..encoding.values import in_order
from ..origin import foreign, is_torch_or_stdlib, named_by_torch
from .once import given, note_asked, once_per_key
from .references import Reach
from .saying import SAYING, is_code

_ASKING = ("asks", "asks_any", "goes_over")
_BETWEEN = re.compile(r"\.|::|/")  # names in a text that leads to something


class Owners:
    """What has attributes, and the names by which code asks for some. Both grow while the code is followed.

    An attribute asked of one value may belong to any owner, since they may be handed from one function to the next.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()  # attributes that the code asks for
        self.words: set[str] = set()  # strings in code and data, which name attributes if `asks`
        self.parts: set[str] = set()  # with which names begin or end that code puts together
        self.asks = False  # whether code asks for attributes by strings
        self.asks_any = False  # and by strings that stand nowhere
        self.goes_over = False  # whether code may go over sets
        self.used: set[str] = set()  # names that it loads for anything but `... in X`
        self._sets: list[tuple[str, Any]] = []
        self._owners: list[Any] = []
        self._taken: set[tuple[int, str]] = set()
        for kind, name in given():
            if kind in _ASKING:
                setattr(self, kind, True)
            else:
                getattr(self, kind).add(name)

    def note(self) -> None:
        """Tell the key's other code what this asks for."""
        found = {("names", name) for name in self.names} | {("parts", part) for part in self.parts}
        found |= {(kind, "") for kind in _ASKING if getattr(self, kind)}
        if self.asks:
            found |= {("words", word) for word in self.words}
        if self.goes_over:
            found |= {("used", name) for name in self.used}
        note_asked(frozenset(found), matters=bool(self._owners or self._sets))

    def add(self, owner: Any) -> None:
        """A module that is passed on, a class, or a function with attributes."""
        self._owners.append(owner)

    def hold(self, name: str, value: Any) -> None:
        """A value that code reaches, under this name if it has one: sets are kept."""
        if type(value) in (set, frozenset) and len(value) > 1:
            self._sets.append((name, value))

    def orders(self) -> list[list[int]]:
        """Of each set that code may go over, how its items lie: their places in the order of what they are called."""
        counts = [found for name, found in self._sets if not name or name in self.used] if self.goes_over else []
        return [_places(found) for found in counts]

    def of_code(self, reach: Reach) -> None:
        """Names that a function asks for."""
        self.names |= reach.attributes
        self.words |= reach.words
        self.parts |= reach.parts
        self.used |= reach.used
        for one in reach.sets:
            self.hold("", one)
        self.goes_over = self.goes_over or reach.goes_over
        self.asks = self.asks or reach.asks
        self.asks_any = self.asks_any or reach.asks_any

    def take(self) -> list[tuple[int, Any, str]]:
        """(number, owner, attribute) for all that counts and was not taken before."""
        found = []
        for number, owner in enumerate(self._owners):
            for name in self._in_order(owner, self._asked_of(owner)):
                if (number, name) not in self._taken:
                    self._taken.add((number, name))
                    found.append((number, owner, name))
        return found

    def asked_by_words(self) -> list[types.ModuleType]:
        """Modules that are passed on, where code may ask for an attribute by a name that it puts together."""
        return [owner for owner in self._owners if isinstance(owner, types.ModuleType)] if self.asks_any else []

    def _in_order(self, owner: Any, names: set[str]) -> list[str]:
        """As they were defined, where code may iterate over them."""
        if not self.asks_any and isinstance(owner, types.ModuleType):
            return sorted(names)
        there = [name for name in vars(owner) if name in names]
        return there + sorted(names.difference(there))

    def _asked_of(self, owner: Any) -> set[str]:
        names = {*self.names, "__getattr__", "keys"}  # the last: `**value`
        if isinstance(owner, types.ModuleType):
            return self._of_module(owner, names)
        slots = {name for name, value in vars(owner).items() if isinstance(value, types.MemberDescriptorType)}
        there: set[str] = {*vars(owner)} - BOOKKEEPING - _ALREADY_SAID - slots
        torchs = _is_torchs_own(owner)
        if self.asks_any and not torchs and isinstance(owner, (type, types.FunctionType)):
            names |= there
        found = (there & names) | self._by_words(there)
        if torchs:  # what a user hung on it; its own is said by its name
            found = {name for name in found if not is_torchs_attribute(vars(owner)[name])}
        return found | {name for name in SAYING & names if hasattr(owner, name)}

    def _of_module(self, owner: types.ModuleType, names: set[str]) -> set[str]:
        there = vars(owner).keys() - _OF_MODULES
        if type(owner) is not types.ModuleType and owner is not torch.ops and is_torch_or_stdlib(owner.__name__):
            there |= {name for name in names if hasattr(owner, name)}  # a setting, which its class looks up
        if owner is torch.ops:
            there = {name for name in there if isinstance(vars(owner)[name], types.ModuleType)}
            if self.asks_any:
                names = names | (there - TORCH_NAMESPACES)
        elif self.asks_any and not is_torch_or_stdlib(owner.__name__):
            return there
        return (there & names) | self._by_words(there) | ({"__file__", "__doc__"} & self.names & vars(owner).keys())

    def _by_words(self, there: Iterable[str]) -> set[str]:
        if not self.asks:
            return set()
        words = {part for word in self.words for part in _BETWEEN.split(word)}
        begins = tuple(self.parts | {word for word in words if word.endswith("_") and word.strip("_")})
        ends = tuple(self.parts | {word for word in words if word.startswith("_") and word.strip("_")})
        return {name for name in there if name in words or name.startswith(begins) or name.endswith(ends)}


def _places(items: Collection[Any]) -> list[int]:
    """By identity: to compare them would run code of theirs."""
    places = {id(item): place for place, item in enumerate(in_order(items))}
    return [places[id(item)] for item in items]


def _is_torchs_own(owner: Any) -> bool:
    return isinstance(owner, (type, types.FunctionType)) and named_by_torch(owner)


def is_torchs_attribute(value: Any) -> bool:
    """Whether an attribute of torch's own class or function is torch's: code of its, or a descriptor."""
    if is_code(value) or isinstance(value, (staticmethod, classmethod, property)):
        return foreign(value) is None
    return hasattr(type(value), "__get__") and is_torch_or_stdlib(type(value).__module__)


@once_per_key
def given_with_data() -> list[type]:
    """Classes of what torch hands to code, with data on them, which is a program's: any code may ask for it."""
    kinds = (torch.Tensor, torch.nn.Parameter, torch.autograd.function.FunctionCtx)
    return [kind for kind in kinds if any(map(_is_data, vars(kind), vars(kind).values()))]


def _is_data(name: str, held: Any) -> bool:
    return not (name.startswith("__") or hasattr(type(held), "__get__"))


# What Python and torch keep on classes for themselves: what is said otherwise or has no behaviour, `abc`'s registry,
# what `copyreg` noted when an instance was first copied or pickled, and the node class that autograd makes of a
# Function (it has a number that counts them).
BOOKKEEPING = frozenset(
    """
    __doc__ __dict__ __weakref__ __module__ __qualname__ __annotations__ __annotate__ __annotate_func__ __orig_bases__
    __parameters__ __type_params__ __dataclass_fields__ __dataclass_params__ __abstractmethods__ __static_attributes__
    __firstlineno__ __signature__ __slotnames__ __annotations_cache__ __classdictcell__ _abc_impl _backward_cls
    """.split()
)

# What Python keeps on an enumeration.
OF_ENUMS = frozenset(
    """
    _member_map_ _member_names_ _value2member_map_ _member_type_ _value_repr_ _use_args_ _unhashable_values_
    _hashable_values_ _unhashable_values_map_ _new_member_ __new_member__ _singles_mask_ _flag_mask_ _all_bits_
    _boundary_ _inverted_
    """.split()
)

# What a module says of itself and of where it lies.
_OF_MODULES = frozenset("__file__ __path__ __spec__ __loader__ __cached__ __doc__ __builtins__".split())
_ALREADY_SAID = frozenset({"__wrapped__"})


def names_of_protocol(protocol: type) -> set[str]:
    """Its members; also those that are only annotated, which are computed when they are asked for since Python 3.14."""
    annotated = vars(protocol).get("__protocol_attrs__") or vars(protocol).get("__annotations__", ())  # since 3.12
    return {*vars(protocol), *annotated}
