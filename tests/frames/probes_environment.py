"""Probes of what is around a call: modes, defaults, settings, the environment, torch's own tables."""

from __future__ import annotations

import os

import torch
from probe import put
from probes_modules import MLP
from torch.utils._device import DeviceContext

SMALL = """
import os, torch
def scaled(x): return x * 2
def makes(x): return x + torch.ones(4)
def counts(x): return x * torch.get_num_threads()
def default_type(x): return x * 5 if torch.get_default_dtype() is torch.float64 else x * 1.5
def has_grad(x): return x * 2 if torch.is_grad_enabled() else x * 3
def autocast_on(x): return x * 2 if torch.is_autocast_enabled("cpu") else x * 3
def autocast_type(x): return x * 2 if torch.get_autocast_dtype("cpu") is torch.float16 else x * 3
def deterministic(x): return x * 2 if torch.are_deterministic_algorithms_enabled() else x * 3
def inference(x): return x * 2 if torch.is_inference_mode_enabled() else x * 3
def from_env(x): return x * float(os.environ.get("WG_FACTOR", "1"))
def from_getenv(x): return x * float(os.getenv("WG_FACTOR", "1"))
def in_env(x): return x * 2 if "WG_FACTOR" in os.environ else x * 3
def product(x): return x[:, None] * torch.ones(1, 4) @ x
def within_no_grad(x):
    with torch.no_grad(): y = x * 2
    return y + x
def within_autocast(x):
    with torch.autocast("cpu", torch.bfloat16): return x[None] @ x[:, None]
def is_compiling(x): return x * 2 if torch.compiler.is_compiling() else x * 3
def matmul_precision(x): return x * 2 if torch.get_float32_matmul_precision() == "medium" else x * 3
def cudnn(x): return x * 2 if torch.backends.cudnn.enabled else x * 3
def mkldnn(x): return x * 2 if torch.backends.mkldnn.enabled else x * 3
def rank(x): return x * 2 if torch.distributed.is_initialized() else x * 3
def default_device(x): return x * 2 if torch.get_default_device().type == "meta" else x * 3
def makes_and_breaks(x):
    y = x + torch.ones(4)
    torch._dynamo.graph_break()
    return y + torch.arange(4)
def device_within(x):
    with torch.device("cpu"): y = torch.ones(4)
    return x + y
def sets_device(x):
    torch.set_default_device("cpu")
    return x + torch.ones(4)
"""


# An autocast that is there before the frame: a decorator's, accelerate's, a module's.
AUTOCASTS = """
import torch
saved = torch.autocast("cpu", torch.bfloat16)
other = saved
def held(x):
    with saved: return (x[None] @ x[:, None]).float() * 1.001
def both(x):
    with saved: y = x[None] @ x[:, None]
    with other: return (y + x[None] @ x[:, None]).float() * 1.001
@torch.autocast("cpu", torch.bfloat16)
def decorated(x): return (x[None] @ x[:, None]).float() * 1.001
"""


def model(name, **more):
    put(f"around: {name}", MLP, "model", **{"args": lambda: (torch.randn(4, 8),), **more})


def small(entry, name, **more):
    put(f"around: {entry}, {name}", SMALL, entry, **more)


def factor(value):
    return lambda scene: os.environ.__setitem__("WG_FACTOR", value)


put(
    "around: an error on a graph break",
    "import torch\ndef broken(x):\n    y = x * 2\n    torch._dynamo.graph_break()\n    return y + 1\n",
    "broken",
    around=lambda: torch._dynamo.error_on_graph_break(True),
)
model("no_grad", around=torch.no_grad, agrees=True)
model("inference_mode", around=torch.inference_mode, agrees=True)
model("autocast", around=lambda: torch.autocast("cpu", torch.bfloat16))
model("autocast to half", around=lambda: torch.autocast("cpu", torch.float16))
model("deterministic algorithms", change=lambda s: torch.use_deterministic_algorithms(True), agrees=True)
model("default device", around=lambda: torch.device("cpu"), agrees=True)
model("default dtype", change=lambda s: torch.set_default_dtype(torch.float64), agrees=True)
model("threads", change=lambda s: torch.set_num_threads(2), agrees=True)
model("matmul precision", change=lambda s: torch.set_float32_matmul_precision("medium"), agrees=True)
model("anomaly mode", around=lambda: torch.autograd.set_detect_anomaly(True), agrees=True)
model("denormals", change=lambda s: torch.set_flush_denormal(True), agrees=True, after=False)
model(
    "saved-tensors hooks",
    around=lambda: torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x),
    restores=True,
)
model(
    "saved-tensors hooks that are graphs",
    around=lambda: torch.autograd.graph.saved_tensors_hooks(
        *map(torch.fx.symbolic_trace, (lambda x: -x, lambda x: -x))
    ),
    agrees=True,
)
model(
    "a setting of Dynamo", change=lambda s: setattr(torch._dynamo.config, "capture_scalar_outputs", True), agrees=True
)
model("specialize_float", change=lambda s: setattr(torch._dynamo.config, "specialize_float", False), agrees=True)
model(
    "a setting of Inductor",
    change=lambda s: setattr(torch._inductor.config, "emulate_precision_casts", True),
    agrees=True,
)
model("a setting of functorch", change=lambda s: setattr(torch._functorch.config, "cse", False), agrees=True)
model("fullgraph", options={"fullgraph": True}, restores=True)
model("dynamic", options={"dynamic": True}, restores=True)


class Doubling(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), options=None):
        out = function(*args, **(options or {}))
        return out * 2 if function is torch.relu else out


model("a torch-function mode", around=Doubling)


class Logged(torch.utils._python_dispatch.TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), options=None):
        return function(*args, **(options or {}))


model("a dispatch mode", around=Logged, agrees=True)

small("scaled", "nothing", restores=True)
small("makes", "default dtype", change=lambda s: torch.set_default_dtype(torch.float64))
small("makes", "default device", around=lambda: torch.device("meta"))
small("counts", "threads", change=lambda s: torch.set_num_threads(2), after=False)
small("default_type", "default dtype", change=lambda s: torch.set_default_dtype(torch.float64))
small("has_grad", "no_grad", around=torch.no_grad)
small("autocast_on", "autocast", around=lambda: torch.autocast("cpu", torch.bfloat16))
small(
    "autocast_type",
    "its type where it is off",
    change=lambda s: torch.set_autocast_dtype("cpu", torch.float16),
    after=False,
)
small("deterministic", "switched on", change=lambda s: torch.use_deterministic_algorithms(True))
small("inference", "inference mode", around=torch.inference_mode, agrees=True)
small("from_env", "a variable", change=factor("5"))
small("from_env", "a variable of the same length", change=factor("5"), before=lambda: factor("2")(None))
small("from_env", "another variable", change=lambda s: os.environ.__setitem__("WG_OTHER", "5"), agrees=True)
small("from_getenv", "a variable", change=factor("5"))
small("in_env", "a variable", change=factor("5"))
small("product", "matmul precision", change=lambda s: torch.set_float32_matmul_precision("medium"), agrees=True)
small("within_no_grad", "no_grad", around=torch.no_grad, agrees=True)
small("within_autocast", "autocast", around=lambda: torch.autocast("cpu", torch.float16), agrees=True)
small("is_compiling", "nothing", restores=True)
small("matmul_precision", "medium", change=lambda s: torch.set_float32_matmul_precision("medium"), after=False)
small("cudnn", "off", change=lambda s: setattr(torch.backends.cudnn, "enabled", False), after=False)
small("mkldnn", "off", change=lambda s: torch.backends.mkldnn.set_flags(False), after=False, agrees=True)
small("rank", "nothing", restores=True)


def autocast(entry, name, **more):
    put(f"around: an autocast that is {entry}, {name}", AUTOCASTS, entry, args=lambda: (torch.rand(4),), **more)


def half():
    return torch.autocast("cpu", torch.float16)


autocast("held", "nothing", restores=True)
autocast("decorated", "nothing", restores=True)
autocast("both", "nothing", restores=True)
cached = {"after": False, "since": (2, 13)}  # before, this product is one of float32, whatever is asked
autocast("held", "another type", change=lambda s: setattr(s.m.saved, "fast_dtype", torch.float16), **cached)
autocast("held", "off", change=lambda s: setattr(s.m.saved, "_enabled", False), **cached)
autocast("held", "its cache", change=lambda s: setattr(s.m.saved, "_cache_enabled", False), agrees=True, after=False)
autocast("held", "another", change=lambda s: setattr(s.m, "saved", half()), since=(2, 13))
autocast("both", "the other of another type", change=lambda s: setattr(s.m, "other", half()))
EDITED = ('@torch.autocast("cpu", torch.b', '@torch.autocast("cpu", torch.')
autocast("decorated", "edited", edit=EDITED, since=(2, 13))

# Found by a hunt: a variable whose name is put together, an operator that is looked for, an address as text.
PUT_TOGETHER = """
import os, torch
START = "WG_"
def variable(x): return x * float(os.environ.get(START + "FACTOR", "1"))
def variable_there(x): return x * 2 if START + "FACTOR" in os.environ else x * 3
def operator(x): return x * 5 if hasattr(torch.ops.wg_probe, "foo") else x * 1.5
def helper(x): return x
def as_text(x): return x * 2, "%s" % helper
def in_text(x): return x * len("{}".format(helper))
"""
_kept = []


def define(scene):
    library = torch.library.Library("wg_probe", "FRAGMENT")
    library.define("foo(Tensor x) -> Tensor")
    _kept.append(library)


def asked(entry, name, **more):
    put(f"around: what is asked for by {entry}, {name}", PUT_TOGETHER, entry, **more)


asked("variable", "nothing", restores=True)
asked("variable", "it is set", change=factor("5"))
asked("variable_there", "it is set", change=factor("5"))
asked("operator", "nothing", restores=True)
asked("operator", "it is there", change=define, after=False)
asked("as_text", "nothing", refused="an address as text", random=True)
asked("in_text", "nothing", refused="an address as text", agrees=True)

# Found by a reader: who goes over the environment is given no guard but how many variables there are.
ALL_OF_IT = """
import os, torch
os.environ["WG_FIRST"] = "1"
os.environ.pop("WG_SECOND", None)
def goes_over(x):
    for name in os.environ:
        if name.endswith("_SECOND"): x = x * 2
    return x * 3
def listed(x): return x * 2 if "WG_" + "SECOND" in list(os.environ) else x * 3
def any_of(x): return x * 2 if any(name == "WG_" + "SECOND" for name in os.environ) else x * 3
def any_value(x): return x * 2 if any(value == "wg" for value in os.environ.values()) else x * 3
def any_item(x): return x * 2 if any(name + value == "WG_FIRSTwg" for name, value in os.environ.items()) else x * 3
def greatest(x): return x * 2 if max(name for name in os.environ if name.startswith("WG_")) == "WG_FIRST" else x * 3
def counted(x): return x * len([name for name in os.environ if name.startswith("WG_SEC")])
"""


def other_name(scene):
    del os.environ["WG_FIRST"]
    os.environ["WG_SECOND"] = "1"


def other_value(scene):
    os.environ["WG_FIRST"] = "wg"


for entry in ("goes_over", "listed", "any_of", "greatest", "counted"):
    put(f"all variables: {entry}, another name", ALL_OF_IT, entry, change=other_name, after=False)
for entry in ("any_value", "any_item"):
    put(f"all variables: {entry}, another value", ALL_OF_IT, entry, change=other_value, after=False)
put("all variables: goes_over, nothing", ALL_OF_IT, "goes_over", change=lambda s: None, agrees=True, restores=True)


def device(entry, name, **more):
    """With a default device, which is a mode of `__torch_function__`. Recorded since 2.13, where Dynamo takes modes
    down while it compiles.
    """
    more = {"before": lambda: torch.set_default_device("cpu"), "since": (2, 13), **more}
    put(f"around: a default device, {entry}, {name}", SMALL, entry, **more)


def other(name):
    return lambda scene: torch.set_default_device(name)


for entry in ("scaled", "makes", "makes_and_breaks", "default_device", "sets_device"):
    device(entry, "nothing", restores=True)
device("makes", "another", change=other("meta"))
device("makes", "none", change=other(None), agrees=True)
device("makes", "another around the call", around=lambda: torch.device("meta"))
device("makes", "the same around the call", around=lambda: torch.device("cpu"), agrees=True)
device("makes", "a mode besides", around=Logged, agrees=True)
device("makes", "default dtype", change=lambda s: torch.set_default_dtype(torch.float64))
device("default_device", "another", change=other("meta"))
device("default_device", "none", change=other(None), agrees=True)
device("device_within", "another", change=other("meta"), agrees=True)
device("sets_device", "another", change=other("meta"), agrees=True)
device("sets_device", "none", change=other(None), agrees=True)


class Doubled(DeviceContext):
    def __torch_function__(self, function, types, args=(), options=None):
        out = super().__torch_function__(function, types, args, options)
        return out * 2 if function is torch.ones else out


device("makes", "a class of it", around=lambda: Doubled("cpu"))
