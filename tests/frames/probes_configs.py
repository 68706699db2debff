"""Probes of objects that find their attributes by `super().__getattribute__`, as transformers' configurations do."""

from __future__ import annotations

from probe import put, set_

SOURCE = """
import functools, types, torch
KIND = "sdpa"
TABLE = {"a": 2.0}
COUNT = []
def decides(c): return c.gain if KIND == "sdpa" else 7.0
class Part:
    def __init__(self, v): self.v = v
class Mapped:
    attribute_map = {"alias": "gain"}
    def __getattribute__(self, key):
        if key != "attribute_map" and key in super().__getattribute__("attribute_map"):
            key = super().__getattribute__("attribute_map")[key]
        return super().__getattribute__(key)
class Config(Mapped):
    def __init__(self):
        self.gain = 2.0
        self._kind = "sdpa"
        self.parts = [1.0, 2.0]
    @property
    def kind(self): return self._kind
    @property
    def kind_of_all(self): return KIND
    @property
    def decided(self): return decides(self)
    @property
    def table(self): return dict(TABLE)
    @property
    def part(self): return Part(self.gain)
    @property
    def counted(self):
        COUNT.append(1)
        return 2.0
    @functools.cached_property
    def cached(self): return TABLE["a"]
CONFIG = Config()
class Plain:
    def __init__(self): self.v = 3.0
    def __getattribute__(self, key): return super().__getattribute__(key)
    @property
    def kind(self): return KIND
PLAIN = Plain()
def by_alias(x): return x * CONFIG.alias
def by_kind(x): return x * 2 if CONFIG.kind == "sdpa" else x * 3
def by_kind_of_all(x): return x * 2 if CONFIG.kind_of_all == "sdpa" else x * 3
def by_decided(x): return x * CONFIG.decided
def by_table(x): return x * CONFIG.table["a"]
def by_table_size(x): return x * len(CONFIG.table)
def by_part(x): return x * CONFIG.part.v
def by_counted(x): return x * CONFIG.counted
def by_cached(x): return x * CONFIG.cached
def by_new(x): return x * 2 if Plain().kind == "sdpa" else x * 3
def by_plain(x): return x * 2 if PLAIN.kind == "sdpa" else x * PLAIN.v
def by_has(x): return x * 2 if hasattr(CONFIG, "kind") else x * 3
"""


def config(entry: str, what: str, **more: object) -> None:
    put(f"a configuration: {entry}, {what}", SOURCE, entry, **more)


# Before 2.13 getters run while a frame is traced, and what they call is refused.
TRACED = {"since": (2, 13)}


config("by_alias", "another attribute", edit=('"alias": "gain"', '"alias": "_kind"'), agrees=True)
config(
    "by_alias",
    "what it means",
    change=lambda s: s.m.CONFIG.attribute_map.update(alias="other") or setattr(s.m.CONFIG, "other", 9.0),
)
config("by_alias", "a value", change=set_("m.CONFIG.gain", 9.0))
config("by_kind", "a value", change=set_("m.CONFIG._kind", "eager"))
config("by_kind", "its getter", edit=("return self._kind", 'return "eager"'))
config("by_kind", "another getter", change=lambda s: setattr(s.m.Config, "kind", property(lambda self: "eager")))
config("by_kind", "a value instead", change=lambda s: setattr(s.m.Config, "kind", "eager"))
config("by_kind_of_all", "a global", change=set_("m.KIND", "eager"))
config("by_kind_of_all", "a global of the file", edit=('KIND = "sdpa"', 'KIND = "eager"'))
config("by_decided", "what a function reads", change=set_("m.KIND", "eager"), **TRACED)
config("by_decided", "a function", change=set_("m.decides", lambda c: 5.0), **TRACED)
config("by_table", "an item", change=lambda s: s.m.TABLE.update(a=9.0))
config("by_table_size", "one more", change=lambda s: s.m.TABLE.update(b=9.0))
config("by_part", "a value", change=set_("m.CONFIG.gain", 9.0), **TRACED)
config(
    "by_part",
    "its class",
    change=lambda s: setattr(s.m, "Part", type("Part", (), {"__init__": lambda self, v: setattr(self, "v", 9.0)})),
    **TRACED,
)
config("by_counted", "what it counts in", change=lambda s: setattr(s.m, "COUNT", [1, 2, 3]), agrees=True)
config("by_cached", "what it reads", change=lambda s: s.m.TABLE.update(a=9.0), **TRACED)
config("by_new", "a global", change=set_("m.KIND", "eager"))
config("by_plain", "a global", change=set_("m.KIND", "eager"))
config("by_has", "it is not there", change=lambda s: delattr(s.m.Config, "kind"))
