"""Probes of tensors whose class has a `__torch_function__`: it is traced, and runs for what a trace asks of them."""

from __future__ import annotations

import torch
from probe import args, put, set_

SOURCE = """
import enum
import torch
from torch._C import DisableTorchFunctionSubclass
FACTOR, LIST, TABLE = 2.0, [1.0], {"by": 3.0}
class Options:
    gain = 4.0
OPTIONS = Options()
def scaled(x, by=1.0): return x * FACTOR * by
class Plain(torch.nn.Parameter):
    BIAS = 0.5
    @staticmethod
    def __new__(cls, data, scale=2.0):
        made = torch.Tensor._make_subclass(cls, data, False)
        made.scale = scale
        return made
    def to(self, *args, **kwargs): return type(self)(super().to(*args, **kwargs), self.scale)
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})
class Other(Plain): pass
class Doubles(Plain):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        return scaled(found) + cls.BIAS + TABLE["by"] if func is torch.mul else found
class Chunks(Plain):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        if func is torch.chunk: return tuple(part * args[0].scale for part in found)
        return found
class Asks(torch.nn.Parameter):
    @staticmethod
    def __new__(cls, data): return torch.Tensor._make_subclass(cls, data, False)
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        return found * OPTIONS.gain if func is torch.mul else found
class Picks(Plain):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        return found * 3 if func in PICKED else found
class Counts(Plain):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        LIST.append(1.0)
        return super().__torch_function__(func, types, args, kwargs or {})
class Replaced(Plain):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        found = super().__torch_function__(func, types, args, kwargs or {})
        return found - 7 if func is torch.mul else found
PICKED = {torch.mul, torch.exp, torch.Tensor.add, torch.Tensor.sub}
def picks(x, w): return torch.mul(x, w) * w.ndim + torch.exp(w) * w.shape[0]
class Format(enum.Enum):
    XYXY = 1
    XYWH = 2
KEPT, WHOLE = {torch.Tensor.clone, torch.Tensor.to, torch.Tensor.detach, torch.Tensor.add}, False
class Boxes(torch.Tensor):
    @staticmethod
    def __new__(cls, data, format=Format.XYXY, size=(4, 6)):
        made = data.as_subclass(cls)
        made.format, made.canvas_size = format, size
        return made
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if isinstance(func, torch._ops.OpOverload):  # Inductor's fallbacks, when the graph is called
            return func(*(one.as_subclass(torch.Tensor) if isinstance(one, cls) else one for one in args))
        with DisableTorchFunctionSubclass(): found = func(*args, **kwargs or {})
        if WHOLE or (func in KEPT and isinstance(args[0], cls)): return found.as_subclass(cls)
        return found.as_subclass(torch.Tensor) if isinstance(found, cls) else found
    @property
    def shape(self):
        with DisableTorchFunctionSubclass(): return super().shape
    @property
    def ndim(self):
        with DisableTorchFunctionSubclass():
            return super().ndim
    @property
    def dtype(self): return super().dtype
def of_boxes(x, w):
    scale = 3 if w.format in {Format.XYXY} else 5
    return torch.mul(w, x) * w.shape[0] * w.canvas_size[0] * w.ndim * scale + (1 if w.dtype == torch.float32 else 2)
def kind_of_boxes(x, w): return x * (2 if isinstance(w.add(1), Boxes) else 3) * (5 if isinstance(w.exp(), Boxes) else 7)
def times(x, w): return torch.mul(x, w)
def chunks(x, w): return [x[:2] * part for part in torch.chunk(w, 2)]
def reads(x, w): return x * w.scale
def gives(x, w): return w + x, w.sin()
def asks(x, w): return x * w.shape[0] if w.dim() == 1 else x
def trains(x, w):
    y = torch.mul(x, w).sum()
    return y
def both(x, w, v): return torch.mul(x, w) + torch.mul(x, v)
class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = Doubles(torch.ones(4))
    def forward(self, x): return torch.mul(x, self.weight)
"""


def given(kind: str = "Doubles", *more: str, data: str = "torch.ones(4)"):
    """Arguments: a tensor, and one of `kind`, and of each in `more`; in the words of the module above."""

    def make(scene):
        return torch.arange(4.0), *(eval(f"{one}({data})", vars(scene.m)) for one in (kind, *more))

    return make


def scaled_by(kind: str, scale: float):
    return lambda scene: (torch.arange(4.0), getattr(scene.m, kind)(torch.ones(4), scale))


def function(entry, name, *edit, made=None, **more):
    held = {"args": made or given(), "as_is": True}
    put(f"torch function: {entry}, {name}", SOURCE, entry, edit=edit or None, **{**held, **more})


def unchanged(entry, name="nothing", **more):
    function(entry, name, restores=True, agrees=True, after=False, **more)


unchanged("times")
unchanged("times", "nothing of a plain one", made=given("Plain"))
unchanged("chunks", made=given("Chunks"))
unchanged("reads")
unchanged("gives", made=given("Plain"))
unchanged("asks")
unchanged("picks", made=given("Picks"))
unchanged("both", made=given("Doubles", "Asks"))
unchanged("model", args=lambda scene: (torch.arange(4.0),))
unchanged("times", "other data", change=args(given(data="torch.full((4,), 3.0)")))

function("times", "what it does", "+ cls.BIAS +", "- cls.BIAS +")
function("times", "what it calls", "return x * FACTOR * by", "return x - FACTOR * by")
function("times", "a default of what it calls", "by=1.0", "by=9.0")
function("times", "a global", "FACTOR, LIST, TABLE = 2.0", "FACTOR, LIST, TABLE = 5.0")
function("times", "a global that is set", change=set_("m.FACTOR", 5.0), after=False)
function("times", "an attribute of the class", "BIAS = 0.5", "BIAS = 1.5")
function("times", "one that is set", change=set_("m.Doubles.BIAS", 2.5), after=False)
function("times", "what a table holds", change=lambda s: s.m.TABLE.update(by=8.0), after=False)
function("times", "what an object's class holds", change=set_("m.Options.gain", 9.0), made=given("Asks"), after=False)
function("times", "what an object holds", change=set_("m.OPTIONS.gain", 9.0), made=given("Asks"), after=False)
function("times", "another class", change=args(given("Replaced")))
function("times", "another class that does the same", change=args(given("Other")), made=given("Plain"), agrees=True)
function("times", "a plain parameter", change=args(lambda s: (torch.arange(4.0), torch.nn.Parameter(torch.ones(4)))))
function("times", "the class passes on", change=args(given("Plain")))
function("times", "it is replaced", change=lambda s: setattr(
    s.m.Doubles, "__torch_function__", vars(s.m.Replaced)["__torch_function__"]), after=False)  # fmt: skip
function("times", "it is gone", change=lambda s: delattr(s.m.Doubles, "__torch_function__"), after=False)
function("chunks", "what it gives", "part * args[0].scale", "part - args[0].scale", made=given("Chunks"))
function("chunks", "an attribute of the tensor", change=args(scaled_by("Chunks", 5.0)), made=given("Chunks"))
function("reads", "an attribute of the tensor", change=args(scaled_by("Doubles", 5.0)))
function("both", "another's code", "found * OPTIONS.gain", "found - OPTIONS.gain", made=given("Doubles", "Asks"))
function("model", "what it does", "+ cls.BIAS +", "- cls.BIAS +", args=lambda s: (torch.arange(4.0),))
function("model", "a plain weight", args=lambda s: (torch.arange(4.0),), change=lambda s: s.model.__setattr__(
    "weight", torch.nn.Parameter(torch.full((4,), 3.0), requires_grad=False)))  # fmt: skip
function("times", "how it is moved", "super().to(", "super().to( ", agrees=True, after=False)
function("times", "nothing, and it counts", made=given("Counts"), random=True, refused="changes what it reads")


def boxes(format: str = "XYXY", size: tuple[int, int] = (4, 6)):
    return lambda scene: (torch.arange(4.0), scene.m.Boxes(torch.ones(4), scene.m.Format[format], size))


# As torchvision's `tv_tensors`, whose properties ask the tensor itself.
BOXES = {"made": boxes(), "after": False}
unchanged("of_boxes", made=boxes())
unchanged("kind_of_boxes", made=boxes())
function("of_boxes", "their format", change=args(boxes("XYWH")), **BOXES)
function("of_boxes", "their canvas", change=args(boxes(size=(5, 6))), **BOXES)
function("of_boxes", "what a property asks", "return super().ndim", "return super().ndim + 1", **BOXES)
function("of_boxes", "another property", "super().shape", "super().shape * 2", agrees=True, **BOXES)
function("of_boxes", "a property is replaced", change=lambda s: setattr(
    s.m.Boxes, "ndim", property(lambda self: 9)), **BOXES)  # fmt: skip
function("of_boxes", "a property is gone", change=lambda s: delattr(s.m.Boxes, "ndim"), agrees=True, **BOXES)
function("of_boxes", "a property is added", change=lambda s: setattr(
    s.m.Boxes, "grad_fn", property(lambda self: None)), agrees=True, **BOXES)  # fmt: skip
function("kind_of_boxes", "what is kept", change=lambda s: s.m.KEPT.discard(torch.Tensor.add), **BOXES)
function("kind_of_boxes", "what is kept, too", change=lambda s: s.m.KEPT.add(torch.Tensor.exp), **BOXES)
function("kind_of_boxes", "all is kept", change=set_("m.WHOLE", True), **BOXES)

function("picks", "another function", "PICKED = {torch.mul", "PICKED = {torch.sin", made=given("Picks"))
function("picks", "one less", change=lambda s: s.m.PICKED.discard(torch.exp), made=given("Picks"), after=False)
function("picks", "one more", change=lambda s: s.m.PICKED.add(
    torch.Tensor.mul), made=given("Picks"), agrees=True, after=False)  # fmt: skip
