"""Every replacement of torch's code: where it is made, what is expected there, and which feature needs it.

Nothing is replaced on import: a feature calls `install` when it is first used. `uninstall` puts torch back as it was.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from warmgraph.cache import fork_safe_lock

from . import versions

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


class Patch(Struct, frozen=True):
    """One attribute of torch's that is replaced.

    module, path: where it is. parameters: names with which the original's signature begins; None for what is no
    function. everywhere: modules of torch that imported it under its own name are given the replacement, too.
    elsewhere: its path in other versions, where `path` is gone.
    """

    module: str
    path: str
    parameters: tuple[str, ...] | None
    needed_for: str
    everywhere: bool = False
    elsewhere: str | None = None


_AOT_CACHE = "torch._functorch._aot_autograd.autograd_cache"
_TREES = "torch._inductor.cudagraph_trees"
_MESH = "torch.distributed.device_mesh"
_GROUPS = "torch.distributed.distributed_c10d"
_TUNING = "torch._inductor.runtime.triton_heuristics"
_CHOICES = "Triton's choices"
_RANKS = "results that ranks share"
_FRAMES = "restored frames"
_VERIFIED = "verified hits"
_FREEZING = "frozen weights"
_BUILDER = "torch._dynamo.variables.builder"
_MISC = "torch._dynamo.variables.misc"
_OPTIMIZER = "torch._dynamo.variables.optimizer"
_BUILTIN = "torch._dynamo.variables.builtin"
_DICTS = "torch._dynamo.variables.dicts"
_FUNCTIONS = "torch._dynamo.variables.functions"
_USERS = "torch._dynamo.variables.user_defined"
_PROTOCOL = "torch._dynamo.variables.object_protocol"
_HERE = versions.here()
SETS = _HERE.module("torch._dynamo.variables.sets")
_HASHABLE = _HERE.module("torch._dynamo.variables.hashable")

_OF_ALL = {
    "try_load": Patch(_AOT_CACHE, "AOTAutogradCache.try_load", ("mod", "args", "aot_config"), "keeping results"),
    "save": Patch(_AOT_CACHE, "AOTAutogradCache.save", ("key", "entry", "remote"), "keeping results"),
    "kernels": Patch(
        "torch._inductor.codecache", "CppPythonBindingsCodeCache.load_pybinding_async", ("cls",), "C++ kernels"
    ),
    "post_compile": Patch(
        "torch._inductor.output_code",
        "CompiledFxGraph.post_compile",
        ("self", "example_inputs", "constants", "graph_kwargs"),
        "reasons of skipped CUDA graphs",
    ),
    "late_generation": Patch(
        "torch._inductor.output_code",
        "maybe_handle_backward_generation",
        ("compiled_graph", "boxed_forward_device_index"),
        "a backward loaded before its forward has run",
    ),
    "partitions": Patch(
        "torch._inductor.scheduler", "Scheduler.graph_partition", ("self",), "reasons of skipped CUDA graphs"
    ),
    "freezing": Patch("torch._inductor.compile_fx", "fw_compiler_freezing", ("aot_autograd_model",), _FREEZING),
    "constants of weights": Patch(
        "torch._inductor.constant_folding", "replace_node_with_constant", ("gm", "node"), _FREEZING, everywhere=True
    ),
    "skips": Patch(_TREES, "log_cudagraph_skip_and_bump_counter", ("msg",), "reasons of skipped CUDA graphs"),
    "bundling": Patch(
        "torch._inductor.triton_bundler", "TritonBundler.put_static_autotuner", ("cls", "key", "kernel"), _CHOICES
    ),
    "choices": Patch(_TUNING, "CachingAutotuner.autotune_to_one_config", ("self",), _CHOICES),
    "choices by descent": Patch(_TUNING, "CachingAutotuner.coordinate_descent_tuning", ("self", "launcher"), _CHOICES),
    "late configurations": Patch(_TUNING, "CachingAutotuner._precompile_config", ("self", "cfg"), _CHOICES),
    "sizes": Patch("torch._dynamo.pgo", "update_automatic_dynamic", ("tx", "name", "entry"), "profiles of sizes"),
    "frames": Patch(
        "torch._dynamo.convert_frame",
        "compile_frame",
        ("code", "globals", "locals", "builtins", "closure", "compiler_fn", "one_graph", "restart_reasons"),
        _FRAMES,
    ),
    "inlining": Patch("torch._dynamo.symbolic_convert", "InliningInstructionTranslator.__init__", ("self",), _FRAMES),
    "values": Patch(_BUILDER, "VariableBuilder.__call__", ("self", "value"), _FRAMES),
    "static inputs": Patch(_BUILDER, "VariableBuilder.mark_static_input", ("self", "value", "guard"), _FRAMES),
    "groups of optimizers": Patch(_OPTIMIZER, "OptimizerVariable._set_capturable", ("self", "tx"), _FRAMES),
    "state of optimizers": Patch(_OPTIMIZER, "OptimizerVariable.update_list_args", ("self", "tx"), _FRAMES),
    "guards left out": Patch("torch._dynamo.guards", "install_guard", ("guards", "skip"), _FRAMES, everywhere=True),
    "nodes that run": Patch("torch._dynamo.utils", "run_node", ("tracer", "node", "args", "kwargs"), _FRAMES),
    "attributes by super": Patch(_MISC, "SuperVariable.call_method", ("self", "tx", "name", "args", "kwargs"), _FRAMES),
    "installed globals": Patch(
        "torch._dynamo.output_graph", "OutputGraph.install_global_unsafe", ("self", "name", "value"), _FRAMES
    ),
    "values without a source": Patch(_BUILDER, "SourcelessBuilder.create", ("tx", "value"), _FRAMES),
    "text of objects": Patch(_PROTOCOL, "generic_repr", ("tx", "obj"), _FRAMES, everywhere=True),
    "text of values": Patch(_PROTOCOL, "generic_str", ("tx", "obj"), _FRAMES, everywhere=True),
    "text by a builtin": Patch(_BUILTIN, "BuiltinVariable.call_function", ("self", "tx", "args", "kwargs"), _FRAMES),
    "sets of sets": Patch(
        SETS, "BaseSetVariable.__init__", ("self", "items"), _FRAMES, elsewhere="SetVariable.__init__"
    ),  # elsewhere: until 2.14
    "sets by a method": Patch(
        SETS, "BaseSetVariable._fast_set_method", ("self", "tx"), _FRAMES, elsewhere="SetVariable._fast_set_method"
    ),
    "folded functions": Patch(
        _FUNCTIONS, "PolyfilledFunctionVariable.call_function", ("self", "tx", "args", "kwargs"), _FRAMES
    ),
    "ordered sets": Patch(SETS, "OrderedSetVariable.reconstruct", ("self", "codegen"), _FRAMES),
    "items of sets": Patch(SETS, "SetVariable.set_items", None, _FRAMES),
    "names by getattr": Patch(
        _BUILTIN, "GetAttrBuiltinVariable.call_function", ("self", "tx", "args", "kwargs"), _FRAMES
    ),
    "names by hasattr": Patch(
        _BUILTIN, "HasAttrBuiltinVariable.call_function", ("self", "tx", "args", "kwargs"), _FRAMES
    ),
    "functions that are not traced": Patch(
        _FUNCTIONS, "SkipFunctionVariable.call_function", ("self", "tx", "args", "kwargs"), _FRAMES
    ),
    "assumed constants": Patch(
        _FUNCTIONS, "invoke_and_store_as_constant", ("tx", "fn", "name", "args"), _FRAMES, everywhere=True
    ),
    "names in modules": Patch(
        _MISC,
        "PythonModuleVariable.var_getattr",
        ("self", "tx", "name"),
        _FRAMES,
        elsewhere="PythonModuleVariable.tp_getattro_impl",
    ),
    "whether names are in modules": Patch(
        _MISC, "PythonModuleVariable.call_obj_hasattr", ("self", "tx", "name"), _FRAMES
    ),
    "attributes read at once": Patch(_MISC, "GetAttrVariable.as_python_constant", ("self",), _FRAMES),
    "constants": Patch("torch._dynamo.variables.constant", "ConstantVariable.__init__", ("self", "value"), _FRAMES),
    "keys of tables": Patch(
        _HASHABLE,
        "HashableTracker.__init__",
        ("self", "vt"),
        _FRAMES,
        elsewhere="ConstDictVariable._HashableTracker.__init__",  # on 2.11
    ),
    "items of tables": Patch(
        _DICTS, "ConstDictVariable.getitem_const_raise_exception_if_absent", ("self", "tx", "arg"), _FRAMES
    ),
    "whether items are in tables": Patch(_DICTS, "ConstDictVariable.__contains__", ("self", "vt"), _FRAMES),
    "methods of classes": Patch(
        _USERS, "UserDefinedClassVariable.call_method", ("self", "tx", "name", "args", "kwargs"), _FRAMES
    ),
    "attributes on classes": Patch(
        _USERS, "UserDefinedClassVariable.get_source_by_walking_mro", ("self", "tx", "name"), _FRAMES
    ),
    "attributes on classes of objects": Patch(
        _USERS, "UserDefinedObjectVariable.get_source_by_walking_mro", ("self", "tx", "name"), _FRAMES
    ),
    "seeds": Patch("torch._dynamo.utils", "preserve_rng_state", (), _VERIFIED, everywhere=True),
    "tracer": Patch("torch.fx._symbolic_trace", "Tracer.trace", ("self", "root", "concrete_args"), _VERIFIED),
    "stop: phases": Patch("torch._dynamo.utils", "get_chromium_event_logger", (), _VERIFIED),
    "stop: traced nodes": Patch(
        "torch.fx.experimental.symbolic_shapes", "PropagateUnbackedSymInts.run_node", ("self", "n"), _VERIFIED
    ),
    "stop: lowered nodes": Patch("torch._inductor.graph", "GraphLowering.run_node", ("self", "n"), _VERIFIED),
    "place: coordinate": Patch(_MESH, "DeviceMesh.get_coordinate", ("self",), _RANKS),
    "place: one coordinate": Patch(_MESH, "DeviceMesh._sym_get_coordinate", ("self", "index"), _RANKS),
    "place: rank": Patch(_MESH, "DeviceMesh.get_rank", ("self",), _RANKS),
    "place: local rank": Patch(_MESH, "DeviceMesh.get_local_rank", ("self", "mesh_dim"), _RANKS),
    "place: local shape": Patch(
        "torch.distributed.tensor._sharding_prop",
        "ShardingPropagator._adjust_shape_and_stride_args",
        ("self", "out_tensor_meta", "schema", "spec"),
        _RANKS,
    ),
    "place: scatter": Patch("torch.distributed.tensor._collective_utils", "mesh_scatter", ("output",), _RANKS),
    "place: convolution": Patch("torch.distributed.tensor._tp_conv", "tp_convolution", ("op_call",), _RANKS),
    "place: convolution backward": Patch(
        "torch.distributed.tensor._tp_conv", "tp_convolution_backward", ("op_call",), _RANKS
    ),
    "fake world": Patch(_GROUPS, "init_process_group", ("backend", "init_method"), "warmgraph warm", everywhere=True),
    "fake groups": Patch(_GROUPS, "_new_group_with_tag", ("ranks", "timeout", "backend"), "warmgraph warm"),
    "fake gradients": Patch(
        "torch.nn.parallel.distributed", "DistributedDataParallel.__init__", ("self", "module"), "warmgraph warm"
    ),
    "debug": Patch("torch._inductor", "debug", None, "a warm start without Inductor's scheduler"),
    "force fx_graph_cache": Patch("torch._inductor.config", "_config.fx_graph_cache", None, "keeping results"),
    "force enable_autograd_cache": Patch(
        "torch._functorch.config", "_config.enable_autograd_cache", None, "keeping results"
    ),
    "inductor by name": Patch("torch", "_TorchCompileInductorWrapper", None, "warmgraph run"),
    "cudagraphs by name": Patch("torch", "_TorchCompileWrapper", None, "warmgraph run"),
}
PATCHES = {name: patch for name, patch in _OF_ALL.items() if name not in _HERE.without}


class Moved(AttributeError):
    """What is to be replaced is not there, or takes other arguments."""


_MISSING: Any = object()
_lock = fork_safe_lock()
_undo: dict[str, list[Callable[[], None]]] = {}


def install(name: str, wrap: Wrap) -> None:
    """Put `wrap(original)` in the place of one of PATCHES, once per process. Raises Moved and replaces nothing.

    Does nothing where this version is noted to have no such place.
    """
    if name in _undo or name in _HERE.without:  # the usual case, without a lock
        return
    patch = PATCHES[name]
    owner, attribute = _place(patch)  # may import it: not under the lock
    with _lock:
        if name in _undo:
            return
        held, original = _original(patch, owner, attribute)
        replacement = functools.wraps(original)(wrap(original))
        if isinstance(held, (staticmethod, classmethod)):
            replacement = type(held)(replacement)  # type: ignore[assignment]
        others = _modules_with(attribute, original) if patch.everywhere else []
        for place in (owner, *(module for module in others if module is not owner)):
            _put(name, place, attribute, replacement)


def replace(name: str, owner: Any, attribute: str, value: Any) -> None:
    """Set one attribute for one of PATCHES, and note how to set it back."""
    assert name in PATCHES, name
    with _lock:
        _put(name, owner, attribute, value)


def _put(name: str, owner: Any, attribute: str, value: Any) -> None:
    before = _held(owner, attribute)
    setattr(owner, attribute, value)
    _undo.setdefault(name, []).append(functools.partial(_restore, owner, attribute, value, before))


def installed() -> list[str]:
    """Which of PATCHES are in force in this process."""
    with _lock:
        return sorted(_undo)


def uninstall() -> None:
    """torch as it was. What somebody else has replaced since is left as it is."""
    with _lock:
        while _undo:
            _, restores = _undo.popitem()
            for restore in reversed(restores):
                restore()


def _restore(owner: Any, attribute: str, ours: Any, before: Any) -> None:
    if _held(owner, attribute) is not ours:
        return
    if before is _MISSING:
        delattr(owner, attribute)
    else:
        setattr(owner, attribute, before)


def _held(owner: Any, attribute: str) -> Any:
    """What stands there itself: not what it inherits, and not what a descriptor makes of it."""
    return vars(owner).get(attribute, _MISSING) if hasattr(owner, "__dict__") else getattr(owner, attribute)


def _place(patch: Patch) -> tuple[Any, str]:
    try:
        return _at(patch.module, patch.path)
    except (ImportError, AttributeError) as error:
        if patch.elsewhere is not None:
            with contextlib.suppress(AttributeError):
                return _at(patch.module, patch.elsewhere)
        raise Moved(f"{patch.module}.{patch.path} is gone ({error}); without it: no {patch.needed_for}") from None


def _at(module: str, path: str) -> tuple[Any, str]:
    *parts, attribute = path.split(".")
    owner: Any = importlib.import_module(module)
    for part in parts:
        owner = getattr(owner, part)
    inspect.getattr_static(owner, attribute)
    return owner, attribute


def check(name: str) -> None:
    """Raises Moved where one of PATCHES could not be installed."""
    if name not in _undo:
        _original(PATCHES[name], *_place(PATCHES[name]))


def _original(patch: Patch, owner: Any, attribute: str) -> tuple[Any, Any]:
    """What stands there (a function, a staticmethod ...) and the function in it. Raises Moved if that takes others."""
    held = inspect.getattr_static(owner, attribute)
    original = getattr(held, "__func__", held)
    wanted = patch.parameters or ()
    try:
        found = tuple(inspect.signature(original).parameters)
    except (TypeError, ValueError) as error:  # a property now, or a compiled function
        raise Moved(
            f"{patch.module}.{patch.path} is another thing ({error}); without it: no {patch.needed_for}"
        ) from None
    if found[: len(wanted)] != wanted:
        raise Moved(
            f"{patch.module}.{patch.path} takes ({', '.join(found)}) and not ({', '.join(wanted)}, ...); "
            f"without it: no {patch.needed_for}"
        )
    return held, original


def _modules_with(attribute: str, original: Any) -> list[Any]:
    return [
        module
        for name, module in tuple(sys.modules.items())
        if name.startswith("torch.") and getattr(module, "__dict__", {}).get(attribute) is original
    ]
