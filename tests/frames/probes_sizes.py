"""Probes of custom operators whose fakes make a size that depends on data, and of operators that are in no graph: where
the trace ended at them, or asked for nothing but a size; and of kernels for autocast (`torchvision.ops`).
"""

from __future__ import annotations

import torch
from probe import args, put, set_

SOURCE = """
import torch
from torch.library import Library, custom_op, get_ctx
LEAST, WIDE, GAIN, SEEN = 1.0, 2, 3.0, []
def sized(name, fake):
    def made(function):
        op = custom_op("wgsize::" + name, function, mutates_args=())
        op.register_fake(fake)
        return op
    return made
@sized("kept", lambda x: x.new_empty(torch.library.get_ctx().new_dynamic_size()))
def kept(x: torch.Tensor) -> torch.Tensor: return x[x > LEAST].clone()
def some(x): n = get_ctx().new_dynamic_size(); return x.new_empty(n)
@sized("some", some)
def some_of(x: torch.Tensor) -> torch.Tensor: return x[x > LEAST].clone()
@sized("wide", lambda x: x.new_empty(x.shape[0] * WIDE))
def wide(x: torch.Tensor) -> torch.Tensor: return x.repeat(WIDE)
def noted(x): SEEN.append(1); return x.new_empty(get_ctx().new_dynamic_size())
@sized("noted", noted)
def noted_of(x: torch.Tensor) -> torch.Tensor: return x[x > LEAST].clone()
LIBRARY = Library("wgsize_library", "DEF")
LIBRARY.define("cast(Tensor x) -> Tensor")
LIBRARY.impl("cast", lambda x: x * WIDE, "CPU")
LIBRARY.impl("cast", lambda x: x.new_empty(x.shape), "Meta")
def lower(x):
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU)):
        return torch.ops.wgsize_library.cast(x.float() * GAIN)
LIBRARY.impl("cast", lower, "AutocastCPU")
def ends(x): return kept(x * 2) + GAIN
def ends_by_import(x): return some_of(x * 2) + GAIN
def notes(x): return noted_of(x * 2) + GAIN
def asks(x): return x * wide(x).shape[0]
def casts(x): return torch.ops.wgsize_library.cast(x * 2) + 1
def casts_under(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return torch.ops.wgsize_library.cast(x * 2) + 1
"""
UNSEEN = "while it is traced"


def sizes(entry, name, **more):
    put(f"sizes: {entry}, {name}", SOURCE, entry, **({"change": lambda scene: None, "agrees": True} | more))


def refaked(scene):
    scene.m.kept.register_fake(lambda x: x.new_empty(x.shape[0]))


def recast(scene):
    scene.m.LIBRARY.impl("cast", lambda x: scene.m.lower(x) * 2, "AutocastCPU", allow_override=True)


def captured():
    return torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)


for entry in ("ends", "ends_by_import", "asks", "casts"):
    sizes(entry, "nothing", restores=True)
sizes("ends", "in one graph", around=captured)
sizes("notes", "nothing", refused=UNSEEN)
sizes("ends", "a global of the kernel", change=set_("m.LEAST", 3.0), agrees=False)
sizes("ends", "a global behind it", change=set_("m.GAIN", 9.0), agrees=False)
sizes("ends", "other data", change=args(lambda: (torch.arange(2.0, 6.0),)), agrees=False)
sizes("ends", "the fake", change=refaked, after=False)
MINIMUM = ("new_dynamic_size())", "new_dynamic_size(min=0))")
sizes("ends", "in one graph, the code of the fake", around=captured, edit=MINIMUM)
sizes("asks", "a global of the fake", change=set_("m.WIDE", 5), agrees=False, after=False)
sizes("asks", "the fake's code", edit=("x.shape[0] * WIDE", "x.shape[0] * 1 * WIDE"))
sizes("casts", "the kernel for autocast", change=recast)
sizes("casts_under", "nothing", refused=UNSEEN)
