"""The state around a frame that a trace may read under no guard, in Dynamo's own words. Describes; compares nothing."""

from __future__ import annotations

import builtins
import decimal
import functools
import locale
import os
import sys
import types
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch._functorch.pyfunctorch
from torch._C._dynamo import eval_frame
from torch._dynamo import convert_frame, trace_rules
from torch._dynamo.bytecode_transformation import unique_id
from torch._dynamo.code_context import code_context
from torch._dynamo.eval_frame import _get_error_on_graph_break, innermost_backend
from torch._dynamo.output_graph import get_builtins_dict
from torch._dynamo.utils import CleanupHook
from torch._functorch._aot_autograd.utils import saved_tensors_hooks_are_inlineable, top_saved_tensors_hooks
from torch._ops import HigherOrderOperator
from warmgraph.hashing import (
    Uncacheable,
    comes_with_torch,
    encode,
    fact,
    for_current_device,
    foreign,
    is_of_ranks,
    sha256_hex,
)

from ..compile import ranks_compile_together
from ..ranks.ddp import within_buckets
from ..settings import values_of
from .devices import devices_text, modes_around, refuse_devices, refuse_other_modes
from .plain import NotServed, Refused
from .seen import note_ranks
from .sizes import spec_text

__all__ = [
    "HigherOrderOperator", "convert_frame", "fresh_name", "get_builtins_dict", "install_global", "marks_of",
    "named_backend", "refuse_modes", "settings", "words",
]  # fmt: skip


def refuse_modes() -> None:
    """Raises Refused in surroundings that no record speaks of."""
    refuse_other_modes()
    if torch._C._len_torch_dispatch_stack():
        raise Refused("a __torch_dispatch__ mode is on")
    if saved_tensors_hooks_are_inlineable(top_saved_tensors_hooks()):  # others (a checkpoint's) run beside the graph
        raise Refused("saved-tensors hooks that go into the graph are on")
    if torch._functorch.pyfunctorch.retrieve_all_functorch_interpreters():
        raise Refused("inside a transform of torch.func")
    compiled = torch._dynamo.compiled_autograd
    if compiled.in_compiled_autograd_region or compiled.compiled_autograd_enabled:
        raise Refused("compiled autograd is on")
    module = torch.nn.modules.module  # read by a trace under no guard
    if any(value for name, value in vars(module).items() if name.startswith("_global_") and name.endswith("hooks")):
        raise Refused("hooks for all modules are registered")
    if (together := ranks_compile_together()) is not None:
        raise NotServed(together)
    if _is_rank() and _guards_are_collective():
        raise NotServed("ranks tell each other whether their guards hold, and count which code they have compiled")
    meshes = getattr(sys.modules.get("torch.distributed.device_mesh"), "_mesh_resources", None)
    if getattr(meshes, "mesh_stack", None):
        raise Refused("inside `with` of a device mesh")
    if for_current_device():
        raise NotServed("compile_on_one_rank makes other guards on devices")
    refuse_devices()
    logs = torch._logging._internal.log_state
    of_traces = logs.artifact_names - {"recompiles", "recompiles_verbose"}  # these tell which guards failed
    if of_traces or logs.log_qname_to_level or os.environ.get("TORCH_TRACE"):
        raise NotServed("torch is asked to log what it traces (TORCH_LOGS, TORCH_TRACE)")
    if convert_frame._bytecode_hooks:
        raise Refused("hooks that change Dynamo's bytecode are registered")
    _refuse_registered()


def refuse_taught(code: types.CodeType) -> None:
    """Raises Refused for a frame that Dynamo was told to make dynamic by calls that it did not trace."""
    if code_context.has_context(code) and code_context.get_context(code).get("dynamism"):
        raise Refused("its sizes were learnt from calls that were not traced (the stance eager_then_compile)")


_COMPARED_AT_ONCE = ("datetime", "decimal", "re")


def _refuse_registered() -> None:
    """What a program has registered with Dynamo: all but torch's own, and optree's for its own functions."""
    from torch._dynamo import side_effects
    from torch._dynamo.variables import user_defined
    from torch._dynamo.variables.functions import PolyfilledFunctionVariable

    slots = getattr(user_defined, "_SAFE_C_SLOTS", None) or ()  # comparisons in C that Dynamo runs while it traces
    if any(one.__objclass__.__module__ not in _COMPARED_AT_ONCE for one in slots):
        raise Refused("torch._dynamo.allow_c_slot was used: what these classes hold is compared under no guard")
    handlers = getattr(getattr(side_effects, "_side_effect_replay_registry", None), "handlers", ())  # since 2.15
    if any(foreign((one.matcher, one.codegen)) is not None for one in handlers):
        raise Refused("register_side_effect_replay_handler was used")
    for one in PolyfilledFunctionVariable._get_polyfill_handlers().values():
        of = one.__torch_dynamo_original__ if one.__module__.startswith("optree.") else one
        if foreign(one) is not None or not of.__module__.startswith(("torch._dynamo", "optree")):
            raise Refused("torch.compiler.substitute_in_graph was used")


def words() -> dict[str, str]:
    """Name -> text, all that a guard of the whole process is about and what is folded in beside it."""
    state = convert_frame.initial_global_state
    return {
        "global state": str(state.__getstate__()) if state is not None else "",
        "device": f"{torch.utils._device.CURRENT_DEVICE} {torch._C._get_default_device()}",  # of default_tensor_type
        "default device": " ".join(str(mode.device) for mode in modes_around()),
        "GPUs": devices_text(),
        "dual level": str(torch.autograd.forward_ad._current_level),
        "overwrite params": str(torch.__future__.get_overwrite_module_params_on_conversion()),
        "anomaly": f"{torch.is_anomaly_enabled()} {torch.is_anomaly_check_nan_enabled()}",
        "checkpoint": str(torch.autograd._is_checkpoint_valid()),
        "error on a graph break": str(_get_error_on_graph_break()),
        "attention": str(torch._C._get_overrideable_sdp_enabled()),
        "dispatch keys": f"{torch._C._dispatch_tls_local_include_set()} {torch._C._dispatch_tls_local_exclude_set()}",
        "autograd fallback": str(torch._C._get_autograd_fallback_mode()),
        "UTF-8": str(sys.flags.utf8_mode),  # which `io.text_encoding` folds in since 2.14
        "CUDA graphs": str(getattr(torch._dynamo.utils, "_cudagraph_override", None)),  # of a `with`, since 2.14
        "numbers as text": f"{sorted(locale.localeconv().items())} {_most_digits()}",
        "decimals": _decimals(),
        "import": " ".join(type(getattr(builtins, name)).__name__ for name in ("__import__", "__build_class__")),
        "what is traced through": _trace_rules(),
        "numpy": _numpy_dtypes(),
        "trees": _users_nodes(),
        "ranks": encode(fact("distributed")) if _is_rank() else "",  # and all groups of this process
    }


_most_digits = getattr(sys, "get_int_max_str_digits", int)  # of a number as text, since Python 3.10.7


def _decimals() -> str:
    """What decides how decimals are computed and compared, which a trace does at once."""
    context = decimal.getcontext()
    traps = sorted(signal.__name__ for signal, is_set in context.traps.items() if is_set)
    return f"{context.prec} {context.rounding} {context.Emin} {context.Emax} {context.capitals} {context.clamp} {traps}"


def _is_rank() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _guards_are_collective() -> bool:
    """Whether `torch.compiler.set_enable_guard_collectives` is on. Nothing but setting it says what it was."""
    hook = eval_frame.set_guard_complete_hook(None)
    if hook is not None:
        eval_frame.set_guard_complete_hook(hook)
    return hook is not None


def ranks_text(value: Any) -> str | None:
    """A process group, a device mesh or how a tensor is spread over one by all that a trace can ask it; None for
    anything else. Raises Refused.
    """
    if not is_of_ranks(value):
        return None
    note_ranks()
    try:
        return encode(value)
    except Uncacheable as why:
        raise Refused(str(why)) from None
    except (LookupError, RuntimeError, ValueError) as error:  # of a mesh that this rank is not in, a destroyed group
        raise Refused(f"{type(value).__name__} does not say what it is: {type(error).__name__}") from None


def _numpy_dtypes() -> str:
    """Default dtypes of torch's version of numpy, where they are not what Dynamo's settings say."""
    module: Any = sys.modules.get("torch._numpy._dtypes_impl")
    kinds = ("float", "complex", "int")
    said = [getattr(torch, getattr(torch._dynamo.config, f"numpy_default_{kind}")) for kind in kinds]
    held = module and [getattr(module.default_dtypes(), f"{kind}_dtype") for kind in kinds]
    return "" if held in (None, said) else str(held)


def _trace_rules() -> str:
    """Files that Dynamo skips (`trace_rules.add`), from the folder of torch, and modules that it inlines."""
    inlined = (getattr(trace_rules, name, ()) for name in ("LEGACY_MOD_INLINELIST", "MOD_INLINELIST"))
    named = (name for name in trace_rules.manual_torch_name_rule_map if not name.startswith("torch."))
    return _rules_text(tuple(trace_rules.SKIP_DIRS), *map(tuple, inlined), tuple(named))


@functools.lru_cache(maxsize=8)
def _rules_text(skipped: tuple[str, ...], *inlined: tuple[str, ...]) -> str:
    site, library = Path(torch.__file__).parent.parent, Path(os.__file__).parent
    folders = sorted(folder.replace(str(site), "<site>").replace(str(library), "<library>") for folder in skipped)
    return sha256_hex(repr((folders, sorted(map(sorted, inlined)))).encode())[:16]


def settings() -> Iterator[tuple[str, Any]]:
    """Settings of Dynamo, and of torch.compiler, that reach a trace."""
    for name, value in sorted(values_of(torch._dynamo.config).items()):
        if name not in _SHOW_ONLY and not name.startswith("log_"):
            yield name, spec_text(value) if name == "_dynamic_shapes_spec" and value is not None else value
    for name, value in sorted(values_of(torch.compiler.config).items()):
        if name not in _OF_CACHES:
            yield f"compiler.{name}", value


_SHOW_ONLY = frozenset("verbose base_dir debug_dir_root debug_disable_compile_counter".split())
# Which runs belong together, and torch's own caches.
_OF_CACHES = frozenset(
    "job_id pgo_extra_read_key pgo_extra_write_key cache_key_tag force_disable_caches verbose log_file_name".split()
)


def marks_of(function: Any) -> str:
    """What decorators of torch told Dynamo to do with a function (disable, allow in graph, ...)."""
    space = getattr(function, "__dict__", {})
    # Not of a class: its metaclass may raise anything.
    code = None if isinstance(function, type) else getattr(function, "__code__", None)
    said = [name for name in space if name.startswith(("_torchdynamo", "_dynamo"))]
    said += [name for name in _tables() if id(function) in getattr(trace_rules, name)]
    if isinstance(code, types.CodeType) and _is_skipped(code.co_filename):
        said.append("in a folder that is skipped")
    return ",".join(sorted(said))


_skipped: dict[int, dict[str, Any]] = {}  # by the id of the rule, by file


def _is_skipped(file: str) -> bool:
    rule = trace_rules.SKIP_DIRS_RE
    known = _skipped.setdefault(id(rule), {"": rule})  # kept alive
    if file not in known:
        known[file] = bool(rule.match(file))
    return bool(known[file])


@functools.cache
def _tables() -> tuple[str, ...]:
    names = ("_allowed_callable_ids", "_disallowed_callable_ids", "_nonstrict_trace_callable_ids", "_leaf_function_ids")
    return tuple(name for name in names if hasattr(trace_rules, name))


def named_backend(compiler_fn: Any) -> str:
    """Name, mode, options and `dynamic` as given to torch.compile, and how DDP cuts graphs. Raises Refused."""
    backend, buckets = within_buckets(compiler_fn)
    inner: Any = innermost_backend(backend)
    if isinstance(inner, torch._TorchCompileInductorWrapper):  # under `warmgraph run`
        return repr(("inductor", sorted(inner.config.items()), inner.dynamic, buckets))
    if not isinstance(inner, torch._TorchCompileWrapper):
        raise Refused("the backend was given as a function")
    options = sorted((inner.kwargs.get("options") or {}).items())
    return repr((inner.compiler_name, options, inner.kwargs.get("mode"), inner.dynamic, buckets))


_AUTOCASTS = (torch.autocast, torch.cpu.amp.autocast, torch.cuda.amp.autocast)


def autocast_text(value: Any) -> str | None:
    """What Dynamo reads of an autocast that was made before the frame (a decorator's); None for anything else."""
    if type(value) not in _AUTOCASTS:
        return None
    return f"{value.device} {value.fast_dtype} {value._enabled} {value._cache_enabled}"


def _users_nodes() -> str:
    """Which classes are nodes of a tree beside torch's own and Python's containers: a trace asks for it natively."""
    known = torch.utils._pytree.SUPPORTED_NODES
    kinds = (kind for kind in known if kind.__module__.partition(".")[0] not in ("torch", "builtins", "collections"))
    return sha256_hex(str(sorted(f"{kind.__module__}.{kind.__qualname__}" for kind in kinds)).encode())[:16]


def is_pytree_registry(value: Any) -> bool:
    return value is torch.utils._pytree.SUPPORTED_NODES


# A set of containers, in the order of their addresses; it is only asked for what is in it.
PYTREE_TYPES = torch.utils._pytree.BUILTIN_TYPES


def is_loaded_again(module: types.ModuleType) -> bool:
    """Whether it is Python's `operator` or `heapq` without its part in C, which torch loads for itself, to trace it."""
    places = (("operator", "py_operator"), ("heapq", "py_heapq"))
    polyfills = [getattr(sys.modules.get(f"torch._dynamo.polyfills.{name}"), attr, None) for name, attr in places]
    return any(module is one for one in polyfills) and comes_with_torch(module.__file__ or "")


def is_namespace_of_operators(value: Any) -> bool:
    """Whether it is `torch.ops.<name>`."""
    if not isinstance(value, types.ModuleType):
        return False
    name = str(getattr(value, "__name__", ""))
    return name.startswith("torch.ops.") and getattr(torch.ops, name.removeprefix("torch.ops."), None) is value


def operators_in(namespace: types.ModuleType, asked: Collection[str]) -> str:
    """Which of these names are operators there. torch's own do not change."""
    space = str(namespace.__name__).removeprefix("torch.ops.")
    if space in ("aten", "prims", "prim", "higher_order"):
        return ""
    there = {name.partition(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    return f"operators {[name for name in sorted(asked) if f'{space}::{name}' in there]}"


_PREFIXES = {
    "graph": "__compiled_fn",
    "builtins": "__builtins_dict__",
    "resume": "__resume_at",
    "module": "___module",
    "named": "___module",
    "scope": "___unnamed_scope",
    "optimizer": "__optimizer",
}


def fresh_name(kind: str) -> str:
    """For a global that Dynamo would install under a name of its own, unique in this process."""
    return str(unique_id(_PREFIXES[kind], with_uuid=True))


def install_global(space: dict[str, Any], name: str, value: Any) -> Callable[..., None]:
    """Returns what removes it again."""
    hook: Callable[..., None] = CleanupHook.create(space, name, value)
    return hook
