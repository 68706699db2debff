"""Text that tells nothing but what has guards: such frames are restored. What is refused: `data/probes_data_7.py`."""

from __future__ import annotations

from probe import put, set_

SOURCE = """
import enum
import torch
UNUSED = 0
class Kind(enum.Enum):
    PLAIN = "plain"
def of_dict(x): return x * len(repr({"a": 1, "b": [1, "c"]}))
def of_list(x): return x * len(str([1, ("b", None)]))
def of_keys(x, **options): return x * len(str(list(options)))
def of_shape(x): return x * len(f"{x.shape} {x.dtype} {x.device}")
def of_limits(x): return x * len(f"{torch.finfo(x.dtype)}")
def of_member(x): return x * len(str(Kind.PLAIN))
def by_percent(x): return x * len("%s of %d" % (x.dtype, x.dim()))
"""

for entry in "of_dict of_list of_keys of_shape of_limits of_member by_percent".split():
    put(f"text: {entry}, nothing", SOURCE, entry, change=set_("m.UNUSED", 1), restores=True)

put(
    "text: a global without one, beside a function that is made before a break",
    """
import torch
UNUSED = 0
class Wordless:
    def __repr__(self): raise RuntimeError("whoever records a frame asks no object of the program's for its text")
WORDLESS = Wordless()
def step(x):
    def add(y): return y + 1
    x = x * 2
    torch._dynamo.graph_break()
    return add(x)
""",
    "step",
    change=set_("m.UNUSED", 1),
    restores=True,
)
