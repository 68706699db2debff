"""Functions of torch's that code outside torch replaced: in its modules and classes. Finds them; describes none.

Only modules whose functions a compile runs, or that a graph's functions run while they are traced; what Dynamo traces
through is in the graph as it is.
"""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Callable
from typing import Any

import torch
from warmgraph.hashing import foreign, is_looked_after, plain_defaults, sha256_hex

from .. import operators as operators

_GENERATED = "torch._inductor.runtime.compile_tasks."  # what Inductor generated in this process


class _Space:
    """One module's or class's names, and what of them was replaced; looked at again when it has changed."""

    __slots__ = ("name", "names", "own", "replaced", "version")

    def __init__(self, name: str, names: dict[str, Any]) -> None:
        self.name = name
        self.names = names
        self.version = -1
        self.replaced: dict[str, Any] = {}
        self.own = ""  # digest of torch's own functions here, of a space in `_NAMED`

    def look(self, clean: set[Any]) -> None:
        self.version = operators.dict_version(self.names)
        self.replaced = {}
        if self.name in _NAMED:
            self.own = _digest(self.name, self.names)
        if self.name == _OF_FX:
            return
        for name, value in tuple(self.names.items()):
            kind = type(value)
            if kind in _PLAIN or (kind not in _FUNCTIONS and not callable(value)) or foreign(value, clean) is None:
                continue
            harmless = name in _OF_PYTHON or name in _ADDED or f"{self.name}.{name}" in _ELSEWHERE
            if not harmless and not name.startswith(_OF_DYNAMO):
                self.replaced[f"{self.name}.{name}"] = value


# Where functions lie that graphs name, or that those call: one of them may be exchanged for another of torch's own.
# All are there once Dynamo is imported, and torch adds no function later.
_NAMED = frozenset(
    """
    torch torch.functional torch.nn.functional torch.Tensor torch._tensor torch._refs torch._refs.nn.functional
    torch._refs.special torch._refs.linalg torch._refs.fft torch._decomp.decompositions torch._meta_registrations
    torch._prims_common torch._prims_common.wrappers torch._prims torch._decomp torch._C._nn torch._C._linalg
    torch._C._fft torch._C._special
    """.split()
)


# Of `torch.FloatTensor` and its like, of which there is no instance: each has a copy of all of `torch.Tensor`'s names.
_LEGACY: type = type(torch.FloatTensor)
_COMPILED = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.GetSetDescriptorType,
)


def _digest(space: str, names: dict[str, Any]) -> str:
    lines = []
    for name, held in tuple(names.items()):
        if f"{space}.{name}" in _ELSEWHERE:
            continue
        # Dynamo itself wraps some functions at the first compile. (`torch.ops` would make a namespace of any name.)
        value = getattr(held, "__wrapped__", held) if isinstance(held, types.FunctionType) else held
        if isinstance(value, types.FunctionType):
            code = value.__code__
            where = f"{code.co_firstlineno} {code.co_name} {plain_defaults(value)}"
        elif isinstance(value, _COMPILED):
            where = value.__name__
        else:
            continue
        lines.append(f"{name} {getattr(value, '__module__', None)} {value.__qualname__} {where}")
    return sha256_hex("\n".join(sorted(lines)).encode())


_FUNCTIONS = frozenset({types.FunctionType, types.MethodType, staticmethod, classmethod, property})
_PLAIN = frozenset(
    {types.ModuleType, str, int, float, bool, type(None), dict, list, tuple, set, frozenset, torch.dtype}
)
# Functions at torch's top that no graph names and no compile runs; programs do replace them.
_ELSEWHERE = frozenset(
    f"torch.{name}"
    for name in """
    load save compile export manual_seed seed initial_seed get_rng_state set_rng_state from_file set_printoptions
    set_default_device set_default_dtype set_default_tensor_type set_num_threads set_float32_matmul_precision
    use_deterministic_algorithms typename is_tensor is_storage
    """.split()
)
# What Dynamo puts into a module whose functions it compiled, and the class by which FX makes a function of a text.
_OF_DYNAMO = ("__compiled_fn_", "__resume_at_", "__comprehension_", "__nested_fn_", "__import_")
_OF_FX = "torch.fx.graph_module._CodeOnlyModule"
_OF_PYTHON = frozenset("__builtins__ __loader__ __spec__ __annotate__ __annotate_func__".split())
# What a package puts onto classes of torch's for itself, under names that torch asks for nowhere: spmd_types
# (torchtitan) onto those by which DTensors become plain tensors.
_ADDED = frozenset({"typecheck_forward"})


class _Looked:
    """Modules of torch's and the classes that they define, looked at again where one has changed."""

    def __init__(self, counts: Callable[[str], bool]) -> None:
        """counts: whether a module of this name is one of them."""
        self._counts = counts
        self._spaces: dict[int, _Space] = {}  # by the id of its dictionary, which lives as long as the module or class
        self._kept: list[Any] = []
        self._modules: dict[str, Any] = {}
        self._seen = 0  # how many modules there were
        self._names: list[dict[str, Any]] = []  # of each space, with the version at the last look: compared at each key
        self._versions: list[int] = []
        self._found: tuple[str, dict[str, Any]] = ("", {})

    def look(self, clean: set[Any]) -> tuple[str, dict[str, Any]]:
        """As `patched_functions` gives it."""
        if len(sys.modules) != self._seen:
            self._seen = len(sys.modules)
            for name, module in tuple(sys.modules.items()):
                if name not in self._modules and isinstance(module, types.ModuleType) and self._counts(name):
                    self._modules[name] = module
                    self._add(name, vars(module), module)
        if self._versions != [*map(operators.dict_version, self._names)]:
            spaces = self._spaces
            for space in tuple(spaces.values()):
                if space.version != operators.dict_version(space.names):
                    space.look(clean)
                    self._add_classes(space, clean)
            self._names = [space.names for space in spaces.values()]
            self._versions = [space.version for space in spaces.values()]
            own = "\n".join(sorted(f"{space.name} {space.own}" for space in spaces.values() if space.own))
            replaced = {name: value for space in spaces.values() for name, value in space.replaced.items()}
            self._found = sha256_hex(own.encode()), replaced
        return self._found

    def _add(self, name: str, names: dict[str, Any], owner: Any) -> _Space:
        identity = id(names)
        space = self._spaces.get(identity)
        if space is None:
            space = self._spaces[identity] = _Space(name, names)
            self._kept.append(owner)
            self._names.append(names)
            self._versions.append(-1)
        return space

    def _add_classes(self, space: _Space, clean: set[Any]) -> None:
        """The classes that a module defines, each with its own names."""
        if space.name not in self._modules:
            return
        for value in tuple(space.names.values()):
            if isinstance(value, type) and (value.__module__ == space.name or value is torch.Tensor):
                if type(value) is _LEGACY or value.__qualname__.startswith("_TorchCompile"):
                    continue  # the latter are what `torch.compile` makes for its own backends
                (names,) = gc.get_referents(value.__dict__)  # behind the proxy that Python shows
                of_class = self._add(f"{value.__module__}.{value.__qualname__}", names, value)
                if of_class.version == -1:
                    of_class.look(clean)


_of_graphs = _Looked(lambda name: is_looked_after(name) and not name.startswith(_GENERATED))
# Not how it asks a device, to which somebody's accelerator may add its own: what a trace finds out is compared.
_of_dynamo = _Looked(lambda name: name.startswith("torch._dynamo") and name != "torch._dynamo.device_interface")


def patched_functions(clean: set[Any]) -> tuple[str, dict[str, Any]]:
    """`module.name` or `module.Class.name` -> what stands there now. 35 ms at first, then 0.05 to 0.1 ms.

    And a digest of torch's own functions where graphs find theirs. The same object as before while nothing changed.
    clean: as `foreign` takes it.
    """
    return _of_graphs.look(clean)


def patched_dynamo() -> dict[str, Any]:
    """The same of Dynamo, which decides what becomes of a frame, and what is compiled of it. 10 ms at first."""
    return _of_dynamo.look(set())[1]
