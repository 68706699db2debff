"""Generated wrapper modules: Python source that Inductor wrote, kept as bytecode, run without a file."""

from __future__ import annotations

import hashlib
import importlib.util
import linecache
import marshal
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any

from .extern_kernels import REPLACED_IMPORTS, extern_kernels

FORMAT = 3  # of what the blob `result` holds, and of entries: a host that would not know it does not look for it


@dataclass(frozen=True, slots=True)
class Payload:
    """What the blob `result` holds. bytecode: of each generated module, by its torch cache key."""

    result: Any
    alias_guards: Sequence[Sequence[Any]]
    bytecode: Mapping[str, bytes]


def dump_module(source: str) -> bytes:
    """`source` as this interpreter's bytecode, behind the interpreter's magic number."""
    source, path = _prepared(source)
    return importlib.util.MAGIC_NUMBER + marshal.dumps(compile(source, path, "exec", dont_inherit=True))


def run_module(source: str, bytecode: bytes | None, constants: Mapping[str, Any]) -> ModuleType:
    """Execute a generated module; its lines stay visible to tracebacks. Bytecode of another Python is not used."""
    source, path = _prepared(source)
    magic = importlib.util.MAGIC_NUMBER
    code: CodeType
    if bytecode is not None and bytecode.startswith(magic):
        code = marshal.loads(bytecode[len(magic) :])  # noqa: S302 - sealed with the result, and trusted as it is
    else:
        code = compile(source, path, "exec", dont_inherit=True)
    module = ModuleType("warmgraph_generated")
    module.__file__ = path
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    exec(code, module.__dict__)  # noqa: S102
    if module.__dict__.get("extern_kernels") is extern_kernels:
        # Looked up at every call: plain attributes, which the interpreter finds faster than ours.
        names = set(re.findall(r"extern_kernels\.(\w+)", source))
        module.__dict__["extern_kernels"] = SimpleNamespace(**{name: getattr(extern_kernels, name) for name in names})
    for name, value in constants.items():
        setattr(module, name, value)
    return module


def _prepared(source: str) -> tuple[str, str]:
    """The source with slow imports replaced, and the name under which tracebacks show it."""
    for line, replacement in REPLACED_IMPORTS:
        source = source.replace(line, replacement, 1)
    return source, f"<warmgraph {hashlib.sha256(source.encode()).hexdigest()[:16]}>"
