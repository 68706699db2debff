"""C++ kernels: noted while they are built, found again without a compiler. Only `.so` files, no Python.

Generated code asks for a kernel by its argument types and source. torch's caches keep that source and
run g++ on it again on every new host; here the built `.so` is kept, under a digest of what was asked.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from warmgraph.cache import fork_safe_lock

from ..torch_api.compile import CppPythonBindingsCodeCache


class MissingKernel(Exception):
    """Generated code asked for a kernel that its entry does not have."""


_state = threading.local()
_install = fork_safe_lock()


@contextlib.contextmanager
def noting() -> Iterator[dict[str, Callable[[], Any]]]:
    """While open, every kernel built on this thread is noted: name -> future of the built function."""
    _intercept()
    previous, _state.noted = getattr(_state, "noted", None), {}
    try:
        yield _state.noted
    finally:
        _state.noted = previous


@contextlib.contextmanager
def serving(files: Mapping[str, Path]) -> Iterator[None]:
    """While open, kernels asked for on this thread come from `files` (name -> `.so`), never from g++."""
    _intercept()
    previous, _state.files = getattr(_state, "files", None), files
    try:
        yield
    finally:
        _state.files = previous


def built_files(noted: Mapping[str, Callable[[], Any]]) -> dict[str, Path]:
    """Where the noted kernels lie; waits for those still being built."""
    return {name: Path(future().__self__.__file__) for name, future in noted.items()}


def kernel_name(cache: type, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> str:
    """Digest of what generated code asked for: the kind of binding and every argument, spelled out.

    `submit_fn` says where to build, not what, and is left out.
    """
    asked = {name: value for name, value in named.items() if name != "submit_fn"}
    text = json.dumps([cache.__name__, list(arguments), asked], sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()


def _intercept() -> None:
    """Replace the one method that all of Inductor's C++ bindings go through, once."""
    with _install:
        original = CppPythonBindingsCodeCache.__dict__["load_pybinding_async"].__func__
        if hasattr(original, "_warmgraph"):
            return

        @functools.wraps(original)
        def load_pybinding_async(cls: Any, *arguments: Any, **named: Any) -> Any:
            files = getattr(_state, "files", None)
            noted = getattr(_state, "noted", None)
            if files is None and noted is None:
                return original(cls, *arguments, **named)
            name = kernel_name(cls, arguments, named)
            if files is not None:
                return _serve(name, files, cls.entry_function)
            future = original(cls, *arguments, **named)
            if noted is not None:
                noted[name] = future
            return future

        load_pybinding_async._warmgraph = True  # type: ignore[attr-defined]
        CppPythonBindingsCodeCache.load_pybinding_async = classmethod(load_pybinding_async)


def _serve(name: str, files: Mapping[str, Path], entry: str) -> Callable[[], Any]:
    if name not in files:
        raise MissingKernel(f"kernel {name[:12]} is not part of the entry")
    function = getattr(load(files[name], entry), entry)
    return lambda: function


def load(path: Path, entry: str) -> Any:
    """The extension module in `path`. `entry` names its init function (`PyInit_<entry>`)."""
    # Kernels read tensors through this pointer, which the generated init function takes from here.
    os.environ["_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"] = str(
        torch._C._dynamo.guards._torchinductor_pyobject_tensor_data_ptr
    )
    module_name = f"warmgraph_kernels.{path.stem}.{entry}"
    known = sys.modules.get(module_name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise MissingKernel(f"{path} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[module_name] = module
    return module
