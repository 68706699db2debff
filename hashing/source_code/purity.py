"""What torch's and Python's own functions may read beside their arguments: nothing, a fact for a key, or more.

A custom operator's backward runs while the graph is traced, and what it computed from is then part of the code. So
code that comes with torch or Python ends the walk of `source.py` only where it is known to depend on its arguments
and on what every key holds; `torch.distributed.get_rank` is a fact (`facts.py`), `time.time` has no place in a key.
"""

from __future__ import annotations

import types
from typing import Any

# Modules of the standard library all of whose functions and data are the same in every process.
_PURE = frozenset(
    """
    builtins math cmath operator _operator functools _functools itertools collections _collections _collections_abc
    typing types dataclasses enum abc _abc copy copyreg contextlib numbers fractions string _string re _sre textwrap
    bisect _bisect heapq _heapq warnings _warnings logging _struct struct json base64 binascii statistics _statistics
    unicodedata keyword reprlib pprint inspect traceback weakref _weakref _weakrefset array __future__ posixpath
    genericpath hashlib _hashlib _thread threading graphlib colorsys difflib ast dis opcode token tokenize queue
    _queue _py_abc _typing zlib annotationlib
    """.split()
)

# Of other modules, what is.
_PURE_NAMES = frozenset(
    """
    sys.version_info sys.version sys.hexversion sys.platform sys.maxsize sys.byteorder sys.float_info sys.int_info
    sys.intern sys.implementation sys.maxunicode os.path os.fspath os.sep os.linesep os.name
    os.PathLike time.struct_time datetime.timedelta collections.abc
    """.split()
)

# Of the pure ones, what is not: they look at files, threads, or the interpreter's own stack.
_IMPURE_NAMES = frozenset(
    """
    builtins.open builtins.input builtins.eval builtins.exec builtins.compile builtins.globals builtins.__import__
    builtins.breakpoint tokenize.open statistics.NormalDist traceback.format_exc traceback.print_exc io.open _io.open
    inspect.currentframe inspect.stack inspect.trace inspect.getsource inspect.getsourcelines inspect.getsourcefile
    inspect.getfile inspect.getmodule inspect.getouterframes inspect.getclosurevars
    traceback.extract_stack traceback.format_stack traceback.walk_stack
    posixpath.exists posixpath.isfile posixpath.isdir posixpath.islink posixpath.realpath posixpath.abspath
    posixpath.expanduser posixpath.expandvars posixpath.getsize posixpath.getmtime posixpath.ismount posixpath.lexists
    genericpath.exists genericpath.isfile genericpath.isdir genericpath.getsize genericpath.getmtime
    posixpath.relpath posixpath.samefile posixpath.sameopenfile genericpath.getctime genericpath.getatime
    genericpath.samefile genericpath.sameopenfile genericpath.lexists inspect.getabsfile inspect.findsource
    inspect.getframeinfo inspect.getinnerframes
    threading.current_thread threading.get_ident threading.local threading.active_count threading.enumerate
    threading.main_thread threading.get_native_id _thread.get_ident _thread._local _thread.get_native_id
    threading.currentThread threading.activeCount
    torch.Generator torch._C.Generator torch._C.default_generator
    torch.backends.mha.get_fastpath_enabled torch.is_warn_always_enabled torch._C._get_warnAlways
    torch.sparse.check_sparse_tensor_invariants torch._C._check_sparse_tensor_invariants
    torch.utils.checkpoint.DefaultDeviceType torch.__future__.get_overwrite_module_params_on_conversion
    torch.__future__.get_swap_module_params_on_conversion torch._C._is_view_replay_enabled torch._C._get_nnpack_enabled
    torch._tensor_str.get_printoptions
    """.split()
)

# Modules of torch whose functions read files, clocks, memory or random state.
_IMPURE_OF_TORCH = (
    "torch.random",
    "torch.hub",
    "torch.serialization",
    "torch.multiprocessing",
    "torch.utils.data",
    "torch.utils.cpp_extension",
    "torch.utils.collect_env",
    "torch.utils.benchmark",
    "torch.cuda.random",
    "torch.cuda.memory",
    "torch.cuda.nvtx",
    "torch.xpu.random",
    "torch.mps",
    "torch.monitor",
    "torch.package",
    "torch._logging",
)

# Where torch keeps what is a fact of the process, and the fact's name in `facts.py`.
_FACTS_OF_MODULES = {
    "torch.distributed": "distributed",
    "torch._C._distributed_c10d": "distributed",
    "torch._C._distributed_autograd": "distributed",
    "torch._C._distributed_rpc": "distributed",
    "torch.cuda": "accelerator",
    "torch.accelerator": "accelerator",
    "torch.xpu": "accelerator",
}
_FACTS = {
    "torch.distributed.is_available": "initialized",
    "torch.distributed.distributed_c10d.is_initialized": "initialized",
    "torch.distributed.distributed_c10d.get_world_size": "world",
    "torch.amp.autocast_mode.autocast": "autocast",  # without a dtype it takes the one that is set
    "torch.cpu.amp.autocast_mode.autocast": "autocast",
    "torch.cuda.amp.autocast_mode.autocast": "autocast",
    **{
        f"{module}.get_autocast_{device}dtype": "autocast"
        for module in ("torch", "torch._C")
        for device in ("", "cpu_", "gpu_", "xla_", "ipu_", "hpu_")
    },
    "torch.get_num_threads": "threads",
    "torch.get_num_interop_threads": "threads",
    "torch._C.get_num_threads": "threads",
    "torch._C.get_num_interop_threads": "threads",
    "torch._C._cuda_getDevice": "accelerator",
    "torch._C._cuda_getDeviceCount": "accelerator",
}

# Classes of torch.distributed that only say what a tensor is; what is asked of one is asked of an input.
_PLAIN_CLASSES = (
    "torch.distributed.tensor",
    "torch.distributed._tensor",
    "torch.distributed._functional_collectives",
    "torch.distributed.fsdp",
    "torch.distributed._composable",
)

# Attributes through which code sees more than what it was given, whatever they are asked of.
_FRAMES = frozenset(
    """
    __globals__ __subclasses__ __builtins__ __loader__ f_globals f_locals f_back f_code tb_frame gi_frame
    co_filename co_firstlineno co_name co_qualname co_lines co_positions
    """.split()
)


def name_and_module(value: Any) -> tuple[str, str]:
    """Where code of torch or Python is defined, as far as it says so: (module, qualified name)."""
    module = getattr(value, "__module__", None)
    owner = getattr(value, "__self__", None)
    if module is None and isinstance(owner, types.ModuleType):
        module = owner.__name__
    objclass = getattr(value, "__objclass__", None)
    if module is None and objclass is not None:
        module = objclass.__module__
    return str(module or "builtins"), str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))


def is_impure(module: str, name: str) -> bool:
    """Whether what `module.name` of torch or Python gives depends on more than its arguments and the key."""
    full = f"{module}.{name}"
    if full in _IMPURE_NAMES:
        return True
    if module.partition(".")[0] == "torch":
        return _below(module, _IMPURE_OF_TORCH)
    return module not in _PURE and full not in _PURE_NAMES and not module.startswith(("collections.", "json.", "re."))


def is_impure_module(module: str) -> bool:
    """The same of a module as a whole: nothing that is reached in it by an unknown name is known to be pure."""
    if module.partition(".")[0] == "torch":
        return _below(module, _IMPURE_OF_TORCH)
    return module not in _PURE and module.partition(".")[0] not in _PURE


def fact_of(module: str, name: str, *, is_class: bool = False) -> str | None:
    """The fact of this process that `module.name` of torch reads, or None."""
    if is_class and _below(module, _PLAIN_CLASSES):
        return None
    full = f"{module}.{name}"
    if full in _FACTS:
        return _FACTS[full]
    return next((fact for prefix, fact in _FACTS_OF_MODULES.items() if _below(full, (prefix,))), None)


def frames_asked(attributes: frozenset[str]) -> str | None:
    """An attribute among `attributes` that leads to the interpreter's state, or None."""
    return min(_FRAMES & attributes, default=None)


def _below(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == prefix or module.startswith(prefix + ".") for prefix in prefixes)
