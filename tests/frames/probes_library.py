"""Probes of libraries' objects: native values and comparisons, getters, trees, builtins, functions that are marked."""

from __future__ import annotations

from probe import put

SOURCE = """
import builtins, collections, functools, operator, torch, xml
import torch.utils._pytree as pytree
from datetime import timedelta as Delta
from decimal import Decimal
LIMIT = 1.0
TABLE = {"z": 1}
class Config:
    def __init__(self, v=2.0, w=3.0): self.v = v; self.w = w
CONFIG = Config()
LOW, HIGH = Decimal("0.5"), Decimal("0.7")
SHORT, LONG = Delta(seconds=3), Delta(seconds=5)
BYTES = bytearray(b"ab")
class Tag(bytes): pass
TAG = Tag(b"ab")
def decimals(x): return x * 5 if HIGH > LOW else x * 1.5
def deltas(x): return x * 5 if LONG > SHORT else x * 1.5
def delta_truth(x): return x * 5 if SHORT else x * 1.5
def delta_key(x): return x * {Delta(seconds=5): 2.0, Delta(seconds=1): 3.0}[LONG]
def byte_array(x): return x * 5 if BYTES == b"ab" else x * 1.5
def bytes_subclass(x): return x * 5 if TAG == b"ab" else x * 1.5
GET = operator.attrgetter("v")
ITEM = operator.itemgetter(0)
PAIR = [2.0, 7.0]
part = functools.partial(Config, 1.0); part.flag = 2.0
def getter(x): return x * GET(Config(2.0, 8.0))
def getter_of_global(x): return x * GET(CONFIG)
def item_getter(x): return x * ITEM(PAIR)
def partial_attribute(x): return x * part.flag
def has_submodule(x): return x * 5 if hasattr(xml, "sax") else x * 1.5
builtins.WG_FACTOR = 2.0
def of_builtins(x): return x * WG_FACTOR
INFO = torch.finfo(torch.float16)
INFOS = {"whole": torch.iinfo(torch.int8), "half": [INFO]}
class Masks:
    info = torch.finfo(torch.bfloat16)
    infos = INFOS
def limits(x): return x.clamp(1.0 - INFO.max / 1e5, INFO.max / 3e4) + INFOS["whole"].max + Masks.info.eps
def limits_of_class(x): return x + Masks.infos["half"][0].max
def counted(x): return x * collections.Counter(["a", "b", "a"])["a"]
def casts(x): return x * 5 if torch.can_cast(x.dtype, torch.float16) and not torch.is_anomaly_enabled() else x * 1.5
META = torch.nn.Linear(4, 3, device="meta")
def on_meta(x):
    given = {"weight": x.new_ones(3, 4), "bias": x.new_ones(3)}
    return torch.func.functional_call(META, given, (x,)) + META.weight.shape[0]
class Pair:
    def __init__(self, a, b): self.a = a; self.b = b
def flat(p): return [p.a, p.b], None
def turned(p): return [p.b, p.a], None
pytree.register_pytree_node(Pair, flat, lambda v, c: Pair(*v))
def mapped(x):
    p = pytree.tree_map(lambda t: t * 2, Pair(x, x + 1))
    return p.a - 3 * p.b
def leaves(x): return pytree.tree_leaves(Pair(x, x + 1))[0]
@torch._dynamo.nonstrict_trace
def untraced(x): return x * LIMIT
def calls_untraced(x): return untraced(x) + 1
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
def causal(b, h, q, k): return q >= k
def masked(x):
    q = torch.arange(2048.0).reshape(1, 1, 128, 16).sin() + x[0]
    return flex_attention(q, q, q, block_mask=create_block_mask(causal, None, None, 128, 128, device="cpu"))
"""

HIGH = ('Decimal("0.7")', 'Decimal("0.3")')
LONG = ("Delta(seconds=3), Delta(seconds=5)", "Delta(seconds=3), Delta(seconds=1)")
LIMIT = ("LIMIT = 1.0", "LIMIT = 4.0")


def library(entry, name, old, new, **more):
    put(f"library: {entry}, {name}", SOURCE, entry, edit=(old, new), **more)


library("decimals", "another value", *HIGH)
library("deltas", "another value", *LONG)
library("delta_truth", "zero", "Delta(seconds=3), ", "Delta(0), ", since=(2, 12))
library("delta_key", "another value", *LONG)
library("byte_array", "other bytes", 'bytearray(b"ab")', 'bytearray(b"cd")', since=(2, 13))
library("bytes_subclass", "other bytes", 'Tag(b"ab")', 'Tag(b"cd")', since=(2, 13))
library("getter", "another attribute", 'attrgetter("v")', 'attrgetter("w")')
library("getter_of_global", "another attribute", 'attrgetter("v")', 'attrgetter("w")')
library("item_getter", "another item", "itemgetter(0)", "itemgetter(1)")
for one in ("limits", "limits_of_class", "counted", "casts"):
    put(f"library: {one}, nothing", SOURCE, one, restores=True, agrees=True, after=False)
put("library: on_meta, nothing", SOURCE, "on_meta", restores=True, agrees=True, after=False)
library("on_meta", "other sizes", "torch.nn.Linear(4, 3,", "torch.nn.Linear(4, 5,")
library("on_meta", "of another dtype", '3, device="meta")', '3, device="meta").half()', agrees=True)
library("limits", "of another dtype", "INFO = torch.finfo(torch.float16)", "INFO = torch.finfo(torch.float32)")
library("limits", "in a table", "torch.iinfo(torch.int8)", "torch.iinfo(torch.int16)")
library("limits", "of a class", "torch.finfo(torch.bfloat16)", "torch.finfo(torch.float16)")
library("limits_of_class", "of another dtype", "INFO = torch.finfo(torch.float16)", "INFO = torch.finfo(torch.float32)")
library("partial_attribute", "another", "part.flag = 2.0", "part.flag = 8.0")
library("has_submodule", "it is imported", "operator, torch, xml", "operator, torch, xml.sax")
library("of_builtins", "another", "WG_FACTOR = 2.0", "WG_FACTOR = 5.0", refused="among Python's builtins")
library("mapped", "another order of leaves", "(Pair, flat,", "(Pair, turned,")
library("leaves", "another order of leaves", "(Pair, flat,", "(Pair, turned,")
library("calls_untraced", "a global", *LIMIT)
library("masked", "another mask, which is made inside", "q >= k", "q <= k")
