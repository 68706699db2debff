"""C++ kernels: noted while they are built, found again without a compiler. Only `.so` files, no Python.

Generated code asks for a kernel by its argument types and source. torch's caches keep that source and
run g++ on it again on every new host; here the built `.so` is kept, under a digest of what was asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..torch_api import patches
from ..torch_api.loading import variables_of_kernels


class MissingKernel(Exception):
    """Generated code asked for a kernel that its entry does not have."""


_state = threading.local()


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
    """Replace the one method that all of Inductor's C++ bindings go through."""
    patches.install("kernels", _noted_or_served)


def _noted_or_served(original: Callable[..., Any]) -> Callable[..., Any]:
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

    return load_pybinding_async


def _serve(name: str, files: Mapping[str, Path], entry: str) -> Callable[[], Any]:
    if name not in files:
        raise MissingKernel(f"kernel {name[:12]} is not part of the entry")
    function = getattr(load(files[name], entry), entry)
    return lambda: function


def load(path: Path, entry: str) -> Any:
    """The extension module in `path`. `entry` names its init function (`PyInit_<entry>`)."""
    # Kernels read tensors through this pointer, which the generated init function takes from here.
    os.environ.update(variables_of_kernels())
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
