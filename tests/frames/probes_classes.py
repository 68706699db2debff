"""Probes of what Python runs itself while a frame is traced: isinstance, ABCs, enums, fields of dataclasses."""

from __future__ import annotations

import re

from probe import put, set_

SOURCE = """
import abc, argparse, attrs, collections.abc, dataclasses, enum, functools, re, sys, types, typing, torch
LIMIT = 1.0
TABLE = {"z": 1}
def decides(o): return o.v > LIMIT
class Thing:
    def __init__(self): self.v = 2.0; self.run = decides
THING = Thing()
class ByState(type):
    def __instancecheck__(cls, o): return o.v > 1.0
class ByHelper(type):
    def __instancecheck__(cls, o): return decides(o)
class Large(metaclass=ByState): pass
class Larger(metaclass=ByHelper): pass
class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other): return decides(THING)
class Runs(abc.ABC): pass
class RunsIndeed(Runs): pass
@typing.runtime_checkable
class HasRun(typing.Protocol):
    def run(self): ...
class Proxy:
    def __init__(self, t): self.t = t
    @property
    def __class__(self): return self.t
PROXY = Proxy(RunsIndeed)
def by_state(x): return x * 5 if isinstance(THING, Large) else x * 1.5
def by_helper(x): return x * 5 if isinstance(THING, Larger) else x * 1.5
def by_hook(x): return x * 5 if isinstance(THING, Hooked) else x * 1.5
def by_protocol(x): return x * 5 if isinstance(THING, HasRun) else x * 1.5
def is_sequence(x): return x * 5 if isinstance(THING, collections.abc.Sequence) else x * 1.5
def is_sequence_class(x): return x * 5 if issubclass(Thing, collections.abc.Sequence) else x * 1.5
def is_registered(x): return x * 5 if isinstance(THING, Runs) else x * 1.5
def is_proxy(x): return x * 5 if isinstance(PROXY, Runs) else x * 1.5
class Mode(enum.Enum):
    A = 1
    B = 2
    def __init__(self, v): self.gain = v * LIMIT
class Loose(enum.Enum):
    A = 1
    B = 2
    @classmethod
    def _missing_(cls, value): return cls(TABLE[value])
MODE = Mode.A
def enum_call(x): return x * Mode(1).gain
def enum_item(x): return x * Mode["A"].gain
def enum_loop(x):
    for m in Mode: x = x * m.gain
    return x
def enum_missing(x): return x * 2 if Loose("z") is Loose.A else x * 3
class Strict(str, enum.Enum):
    A = "a"
    B = "b"
    @classmethod
    def _missing_(cls, value): raise ValueError(f"{value} is none of {TABLE}")
STRICT = Strict.A
def enum_strict(x): return x * 2 if STRICT == Strict.A and STRICT in (Strict.A, Strict.B) else x * 3
class Grown(enum.Enum):
    A = 1
    @classmethod
    def _missing_(cls, value):
        one = object.__new__(cls)
        one._name_ = one._value_ = value
        one.gain = TABLE[value]
        return cls._value2member_map_.setdefault(value, one)
Grown("z")
class Cached(enum.Enum):
    A = 1
    B = 2
    @classmethod
    @functools.cache
    def _missing_(cls, value): return cls(TABLE[value])
Cached("z")
def enum_cached(x): return x * 2 if Cached("z") is Cached.A else x * 3
class Holds:
    KIND = Cached
    def is_a(self): return self.KIND("z") is self.KIND.A
def enum_held(x): return x * 2 if Holds().is_a() else x * 3
exec('''
class Made(enum.Enum):
    A = 1
    B = 2
    @classmethod
    def _missing_(cls, value): return cls(TABLE[value])
''')
def enum_made(x): return x * 2 if Made("z") is Made.A else x * 3
class Remembers(enum.EnumMeta):
    @functools.cache
    def __call__(cls, value, *more, **named): return super().__call__(TABLE.get(value, value), *more, **named)
class Remembered(enum.Enum, metaclass=Remembers):
    A = 1
    B = 2
Remembered("z")
def enum_remembered(x): return x * 2 if Remembered("z") is Remembered.A else x * 3
def enum_grown(x): return x * Grown("z").gain
def enum_truth(x): return x * 5 if MODE else x * 1.5
@dataclasses.dataclass(init=False, repr=False, eq=False)
class Bare:
    a: float
BARE = Bare()
def fields(x): return x * (len(dataclasses.fields(BARE)) + 1)
ARGS = argparse.Namespace(scale=2.0)
class Elsewhere(type): __module__ = vars(type)["__name__"]  # as metaclasses of compiled code have it: no text
class Placed(metaclass=Elsewhere): gain = 2.0
def metatype(x): return x * Placed.gain
@attrs.define
class Attrs:
    gain: float = 2.0
ATTRS = Attrs()
def attrs_made(x): return x * ATTRS.gain
def attrs_hashed(x): return x * 2 if ATTRS_KEY.__hash__() else x
@attrs.frozen
class Frozen:
    gain: float = 2.0
ATTRS_KEY = Frozen()
@attrs.define
class Output:
    value: torch.Tensor
    gain: float = 2.0
    more: list = attrs.field(factory=list)
@attrs.define
class Result:
    value: torch.Tensor
    gain: float = 2.0
    def __attrs_post_init__(self): self.gain += LIMIT
def attrs_output(x):
    made = Result(x * 3)
    return made.value * made.gain
def attrs_plain(x): return Plainest(x * 3).value
@attrs.define
class Plainest:
    value: torch.Tensor
    gain: float = 2.0
def attrs_default(x):
    made = Plainest(x)
    return made.value * made.gain
def attrs_factory(x): return Output(x).value * Output(x).gain
KEYS, ORDERED_KEYS = {"a": 1, "b": 2}.keys(), collections.OrderedDict(a=1, b=2).keys()
def plain_keys(x): return x * 2 if "b" in KEYS else x * len(list(KEYS))
def ordered_keys(x): return x * 2 if "b" in ORDERED_KEYS else x * len(list(ORDERED_KEYS))
def first_of_keys(x): return x * 2 if list(ORDERED_KEYS)[0] == "a" else x * 3
WORD, SAME_WORD, OTHER_WORD = re.compile("(al)pha"), re.compile("(al)pha"), re.compile("beta")
class Words:
    known = re.compile("al.*")
def by_pattern(x): return x * 2 if WORD.match("alpha") else x * 3
def by_pattern_of_class(x): return x * 2 if Words.known.fullmatch("alpha") else x * 3
def by_case(x): return x * 2 if WORD.match("ALPHA") else x * 3
def by_group(x): return x * len(WORD.match("alpha").group(1))
def which_pattern(x): return x * 2 if WORD is SAME_WORD else x * 3
WEIGHT = torch.nn.Parameter(torch.ones(()))
def class_place(x): return x * 5 if type(WEIGHT).__module__.startswith("wg") else x * WEIGHT
def class_name(x): return x * 5 if type(WEIGHT).__name__.startswith("wg") else x * WEIGHT
def library_class(x):
    try: return x * ARGS.wg_extra
    except AttributeError: return x * 1.5
OTHER = types.ModuleType("wg_other"); sys.modules["wg_other"] = OTHER
class Lazy(types.ModuleType): pass
LAZY = Lazy("wg_lazy"); sys.modules["wg_lazy"] = LAZY
def lazy_has(x): return x * 5 if hasattr(OTHER, "wg_x") else x * 1.5
def lazy_class(x): return x * getattr(LAZY, "wg_y", 1.5)
@functools.singledispatch
def show(v, x): return x * 2
@show.register
def _(v: float, x): return x * 3
def dispatched(x): return show(1, x)
"""

OPPOSITE = ("return o.v > LIMIT", "return o.v < LIMIT")
LARGER = ("LIMIT = 1.0", "LIMIT = 4.0")
SEQUENCE = ("THING = Thing()", "THING = Thing(); collections.abc.Sequence.register(Thing)")
LAZY_CLASS = """class Lazy(types.ModuleType):
    def __getattr__(self, name):
        if name == "wg_y": return 7.0
        raise AttributeError(name)"""
INT_TOO = "@show.register\ndef _(v: int, x): return x * 7\ndef dispatched(x)"


def klass(entry, name, **more):
    put(f"classes: {entry}, {name}", SOURCE, entry, **more)


def lazily(scene):
    scene.m.OTHER.__getattr__ = lambda name: 7.0


def doubling(scene):
    scene.m.Plainest.__init__ = lambda made, value, gain=2.0: setattr(made, "value", value * 2)


# -- isinstance and issubclass
klass("by_state", "the state that it reads", change=set_("m.THING.v", 0.5), after=False, refused="isinstance")
klass("by_helper", "what it calls", edit=OPPOSITE, refused="isinstance")
klass("by_helper", "a global of what it calls", edit=LARGER, refused="isinstance")
klass("by_hook", "what it calls", edit=OPPOSITE, refused="isinstance")
klass("by_protocol", "a method is None", change=set_("m.THING.run", None), after=False)
klass("is_sequence", "registered", edit=SEQUENCE)
klass("is_sequence_class", "registered", edit=SEQUENCE)
klass("is_registered", "with a subclass", edit=("PROXY = Proxy", "RunsIndeed.register(Thing); PROXY = Proxy"))
klass(
    "is_proxy",
    "what __class__ says",
    edit=("PROXY = Proxy(RunsIndeed)", "PROXY = Proxy(Thing)"),
    refused="what its class is",
)

# -- enums and dataclasses
klass("enum_call", "an attribute made of a global", edit=LARGER)
klass("enum_call", "an attribute that is set", change=set_("m.Mode.A.gain", 9.0), after=False)
klass("enum_item", "an attribute made of a global", edit=LARGER)
klass("enum_loop", "an attribute made of a global", edit=LARGER)
TABLE = ('TABLE = {"z": 1}', 'TABLE = {"z": 2}')
klass("enum_missing", "what it reads", edit=TABLE, refused="_missing_", since=(2, 12))
klass("enum_strict", "another member", edit=("STRICT = Strict.A", "STRICT = Strict.B"))
klass("enum_strict", "a global that nobody asks for", change=set_("m.UNUSED", 1), restores=True)
for entry in ("enum_cached", "enum_held", "enum_made", "enum_remembered"):
    refused = "unseen" if entry != "enum_made" else "runs while it is traced"
    klass(entry, "what it reads", edit=TABLE, refused=refused, since=(2, 12))
klass("enum_grown", "what made it a member", edit=TABLE)
klass(
    "enum_truth",
    "a method on enum.Enum",
    edit=("MODE = Mode.A", "MODE = Mode.A; enum.Enum.__bool__ = lambda self: False"),
)
klass("fields", "one more", edit=("    a: float\nBARE", "    a: float\n    b: float\nBARE"))

# -- what is asked for and not there
klass(
    "library_class",
    "it appears on the class",
    edit=("ARGS = argparse", "argparse.Namespace.wg_extra = 7.0; ARGS = argparse"),
)
klass("metatype", "another number", edit=("metaclass=Elsewhere): gain = 2.0", "metaclass=Elsewhere): gain = 3.0"))
klass("metatype", "one that is set", change=set_("m.Placed.gain", 5.0), after=False)
klass("metatype", "nothing", restores=True, agrees=True, after=False)
klass(
    "attrs_made", "another default", edit=("class Attrs:\n    gain: float = 2.0", "class Attrs:\n    gain: float = 3.0")
)
klass("attrs_made", "nothing", restores=True, agrees=True, after=False)
klass("attrs_hashed", "nothing", agrees=True, after=False, refused="__hash__")
for entry in ("attrs_output", "attrs_plain", "attrs_default"):
    klass(entry, "nothing", restores=True, agrees=True, after=False)
klass("attrs_factory", "nothing", agrees=True, after=False)
klass(
    "attrs_default",
    "another default",
    edit=(
        "class Plainest:\n    value: torch.Tensor\n    gain: float = 2.0",
        "class Plainest:\n    value: torch.Tensor\n    gain: float = 3.0",
    ),
)
klass("attrs_default", "one that is set", change=set_("m.Plainest.__init__.__defaults__", (7.0,)), after=False)
klass("attrs_plain", "__init__ replaced", change=doubling, after=False)
klass("attrs_output", "what it calls then", change=set_("m.LIMIT", 7.0), after=False)
for entry in ("class_place", "class_name"):
    klass(entry, "nothing", restores=True, agrees=True, after=False)
for entry in ("plain_keys", "ordered_keys", "first_of_keys"):
    klass(entry, "nothing", restores=True, agrees=True, after=False)
klass("plain_keys", "another key", edit=('"b": 2}.keys()', '"c": 2, "d": 3}.keys()'))
klass("ordered_keys", "another key", edit=("OrderedDict(a=1, b=2).keys()", "OrderedDict(a=1, c=2, d=3).keys()"))
klass("first_of_keys", "another order", edit=("OrderedDict(a=1, b=2).keys()", "OrderedDict(b=2, a=1).keys()"))
for entry in ("by_pattern", "by_pattern_of_class", "by_group", "which_pattern"):
    klass(entry, "nothing", agrees=True, after=False)
klass("by_pattern", "another pattern", edit=('re.compile("(al)pha"), re.compile', 're.compile("(be)ta"), re.compile'))
klass("by_pattern", "another object", change=lambda scene: setattr(scene.m, "WORD", scene.m.OTHER_WORD), after=False)
klass("by_case", "other flags", edit=('re.compile("(al)pha"),', 're.compile("(al)pha", re.IGNORECASE),'))
klass("by_pattern_of_class", "another pattern", change=set_("m.Words.known", re.compile("b")), after=False)
klass("by_group", "another pattern", edit=('re.compile("(al)pha"),', 're.compile("(alp)ha"),'))
klass(
    "which_pattern", "another one", change=lambda scene: setattr(scene.m, "SAME_WORD", scene.m.OTHER_WORD), after=False
)
klass("class_place", "another place", change=set_("m.torch.nn.Parameter.__module__", "wg"), after=False)
klass("class_name", "another name", change=set_("m.torch.nn.Parameter.__name__", "wg"), after=False)
klass("lazy_has", "a module's __getattr__ appears", change=lazily, after=False)
klass("lazy_class", "__getattr__ on the module's class", edit=("class Lazy(types.ModuleType): pass", LAZY_CLASS))
klass("dispatched", "one more", edit=("def dispatched(x)", INT_TOO), since=(2, 12))

FLAGS = """
import enum
class Mode(enum.Flag):
    A = 1
    B = 2
    C = 4
    AB = 3
class Bits(enum.IntFlag):
    A = 1
    B = 2
    C = 4
WANTED = 2
def made_there(x): return x + 1 if (Mode.A | Mode.C) & Mode.C else x - 1
def turned(x): return x + 1 if ~Mode.A & Mode.B else x - 1
def inverted(x): return x + (~Bits.A).value
def of_bits(x, bits=Bits.A): return x + 1 if (bits | Bits(WANTED)) & Bits.B else x - 1
"""


def _combined(scene):
    """Made before the frame is restored, by other code: it lies in the class from then on."""
    assert ~scene.m.Mode.C and scene.m.Mode.B | scene.m.Mode.C


put("flags: a combination that the frame makes", FLAGS, "made_there", change=lambda s: None, restores=True)
put("flags: one that others made", FLAGS, "made_there", change=_combined, restores=True)
put("flags: what is left out", FLAGS, "turned", change=_combined, restores=True)
put("flags: all other bits", FLAGS, "inverted", change=lambda s: None, restores=True)
put("flags: bits", FLAGS, "of_bits", change=lambda s: None, restores=True)
put("flags: other bits", FLAGS, "of_bits", change=set_("m.WANTED", 4))
put("flags: another member", FLAGS, "made_there", edit=("C = 4", "C = 8"), agrees=True)
put(
    "flags: two members are one",
    FLAGS,
    "made_there",
    edit=("    C = 4\n    AB", "    C = 1\n    D = 4\n    AB"),
    agrees=True,
)

# Members that nothing of the program's names at run time: the frame's own code has them as constants.
MEMBERS = """
import dataclasses, enum
class Mode(enum.Enum):
    ONE = 1
    TWO = 2
    @property
    def gain(self): return self.value * 3
@dataclasses.dataclass
class How:
    mode: Mode = Mode.ONE
class Scope(enum.Flag):
    A = 1
    B = 2
def gives(x):
    how = How()
    return x * how.mode.gain, how
def of_object(x):
    how = How()
    torch._dynamo.graph_break()
    return x * how.mode.gain
def given_over(x):
    found = [x + 1, ~Scope.A]
    torch._dynamo.graph_break()
    return found[0] * (2 if found[1] is Scope.B else 5)
import torch
"""
for entry in ("gives", "of_object"):
    put(f"members: {entry}, a value", MEMBERS, entry, edit=("ONE = 1", "ONE = 5"))
    put(f"members: {entry}, what it does", MEMBERS, entry, edit=("self.value * 3", "self.value * 4"))
    put(f"members: {entry}, another default", MEMBERS, entry, edit=("= Mode.ONE", "= Mode.TWO"))
put("members: what is left over", MEMBERS, "given_over", edit=("B = 2", "B = 2\n    C = 4"))
put("members: another name", MEMBERS, "given_over", edit=("    B = 2", "    C = 4\n    B = 2"))

# Combinations that are more than Python makes of them: of a process's own.
COMBINED = """
import enum
class Perm(enum.Flag):
    R = 1
    W = 2
    X = 4
    @classmethod
    def _missing_(cls, value):
        made = super()._missing_(value)
        made.scale = 10.0 * made._value_
        return made
class Marked(enum.IntFlag):
    R = 1
    W = 2
PERM = [Perm.R | Perm.W]
MARKED = Marked.R | Marked.W
MARKED.scale = 3.0
def of_made(x):
    found = Perm.R | Perm.W
    return x * found.scale
def of_marked(x): return x * (Marked.R | Marked.W).scale
def over(x):
    found = ~Perm.R & Perm.W | Perm.X
    torch._dynamo.graph_break()
    return x * found.scale
import torch
"""


def _rescaled(scene):
    """Other attributes on what was made."""
    perm = scene.m.Perm
    for one in (scene.m.MARKED, perm.R | perm.W, perm.W | perm.X):
        one.scale = 7.0


for entry in ("of_made", "of_marked"):
    put(f"flags: {entry}, an attribute on a combination", COMBINED, entry, change=_rescaled, after=False)
put("flags: over, made while traced", COMBINED, "over", change=_rescaled, after=False, refused="_missing_")
