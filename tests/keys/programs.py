"""From a draft to a program that runs: its text, its function, its arguments; and what one call of it decides.

The real Dynamo traces the function, so symbols, sources and metadata are genuine.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.compiler import nested_compile_region
from torch.utils.checkpoint import checkpoint


def load(path: Path) -> Any:
    """A helper of these tests as a module, once: the folder is no package."""
    name = f"warmgraph_tests_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


graphs = load(Path(__file__).parent / "graphs.py")


@dataclass(frozen=True, slots=True)
class Program:
    """A draft, built: `source` is its text, `function` takes what `arguments()` makes anew at each call."""

    draft: graphs.Draft
    source: str
    function: Callable[..., Any]

    def arguments(self) -> list[Any]:
        return [*make_inputs(self.draft), 3, 1.5]

    @property
    def settings(self) -> dict[str, Any]:
        return graphs.SETTINGS[self.draft.settings]

    @property
    def options(self) -> dict[str, Any]:
        return {"dynamic": self.draft.dynamic}


# --- building -----------------------------------------------------------------------------------------

_COUNT = itertools.count()
_SPACE: dict[str, Any] = {
    "torch": torch,
    "F": torch.nn.functional,
    "nested_compile_region": nested_compile_region,
    "checkpoint": checkpoint,
}
_NAMES = (("a", "b", "c", "v"), ("query", "key", "value", "hidden"))


def build(draft: graphs.Draft) -> Program:
    """Write the program's text, line by line, keeping the lines that run."""
    *names, prefix = _NAMES[draft.naming]
    names = names[: len(draft.inputs)]
    header, body = [], []
    space: dict[str, Any] = {**_SPACE, "n": 3, "s": 1.5}
    space.update(zip(names, make_inputs(draft), strict=True))
    values = list(names)
    with ambient(draft.ambient), torch.random.fork_rng():
        for number, step in enumerate(draft.steps):
            name = f"{prefix}{number}"
            above, lines = _write(step, name, values)
            try:
                exec("\n".join([*above, *lines]), space)
            except (RuntimeError, IndexError, ValueError, TypeError):
                continue
            if isinstance(space[name], torch.Tensor) and space[name].numel():
                header += above
                body += lines
                values.append(name)
    returned = ", ".join(values[-1 - pick % len(values)] for pick in (0, *draft.results))
    text = "\n".join(
        [*header, f"def f({', '.join(names)}, n, s):", *(f"    {line}" for line in body), f"    return ({returned},)\n"]
    )
    return Program(draft, text, function_of(text))


def function_of(text: str) -> Callable[..., Any]:
    """`f` of `text`, with a source that `inspect` can read."""
    file = f"/generated/oracle_{next(_COUNT)}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    space = dict(_SPACE)
    exec(compile(text, file, "exec"), space)
    function: Callable[..., Any] = space["f"]
    return function


def _write(step: graphs.Step, name: str, values: list[str]) -> tuple[list[str], list[str]]:
    """Lines before the function, and lines of its body."""
    template = graphs.TEMPLATES[step.template]
    operands = values[-1 - step.left % len(values)], values[-1 - step.right % len(values)]
    fill = {"k": step.k, "f": graphs.FLOATS[step.f], "d": graphs.DIMS[step.d], "t": graphs.DTYPES[step.t], "b": step.b}
    nested = step.wrap in ("checkpoint", "region")
    if (
        not nested
        or "_(" in template
        or "inplace" in template
        or " n" in template
        or " s" in template
        or ":n" in template
    ):
        expression = template.format(*operands, **fill)
        if step.wrap == "no_grad":
            return [], ["with torch.no_grad():", f"    {name} = {expression}"]
        return [], [f"{name} = {expression}"]
    inner = f"lambda x, y: ({template.format('x', 'y', **fill)}).sin() * y.sum()"
    if step.wrap == "checkpoint":
        return [], [f"{name} = checkpoint({inner}, {', '.join(operands)}, use_reentrant=False)"]
    return [f"region_{name} = nested_compile_region({inner})"], [f"{name} = region_{name}({', '.join(operands)})"]


# --- running ------------------------------------------------------------------------------------------


def make_inputs(draft: graphs.Draft) -> list[torch.Tensor]:
    """Fresh arguments: the same at each call, other values for another seed, never another layout."""
    with torch.random.fork_rng():
        torch.manual_seed(draft.seed)
        made: list[torch.Tensor] = []
        for wanted in draft.inputs:
            made.append(_tensor(wanted, made))
    for wanted, tensor in zip(draft.inputs, made, strict=True):
        for dim in wanted.dynamic:
            if dim < tensor.dim() and tensor.shape[dim] > 1:
                torch._dynamo.maybe_mark_dynamic(tensor, dim)
    return made


def _tensor(wanted: graphs.Input, before: list[torch.Tensor]) -> torch.Tensor:
    if before and wanted.layout == "first again":
        return before[0]
    if before and wanted.layout == "view of first" and before[0].is_contiguous():
        return before[0].detach().view(-1)[1 : 1 + before[0].numel() // 2]
    tensor = _strided(wanted.shape, wanted.layout, getattr(torch, wanted.dtype.partition(".")[2]))
    if wanted.kind == "leaf":
        return tensor.requires_grad_()
    if wanted.kind == "parameter":
        return torch.nn.Parameter(tensor)
    if wanted.kind == "derived":
        return tensor.requires_grad_() * 1
    return tensor


def _strided(shape: tuple[int, ...], layout: str, dtype: torch.dtype) -> torch.Tensor:
    if layout == "transposed":
        return torch.randn(shape[::-1], dtype=torch.float64).to(dtype).permute(*range(len(shape))[::-1])
    if layout == "offset":
        flat = torch.randn(3 + torch.Size(shape).numel(), dtype=torch.float64).to(dtype)
        return flat[3:].view(shape)
    if layout == "strided":
        return torch.randn((*shape[:-1], 2 * shape[-1]), dtype=torch.float64).to(dtype)[..., ::2]
    return torch.randn(shape, dtype=torch.float64).to(dtype)


@contextlib.contextmanager
def ambient(name: str) -> Iterator[None]:
    """The state of torch that a draft asks for, around its compile and its run alike."""
    with contextlib.ExitStack() as stack:
        if name == "no_grad":
            stack.enter_context(torch.no_grad())
        elif name == "inference":
            stack.enter_context(torch.inference_mode())
        elif name == "autocast":
            stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
        elif name == "float64":
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float64)
        elif name == "deterministic":
            stack.callback(torch.use_deterministic_algorithms, False)
            torch.use_deterministic_algorithms(True)
        elif name == "matmul":
            stack.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
            torch.set_float32_matmul_precision("high")
        yield


def run(program: Program, compiled: Callable[..., Any]) -> list[torch.Tensor]:
    """Everything that a call decides: its results, the arguments as it left them, and the gradients."""
    with ambient(program.draft.ambient):
        arguments = program.arguments()
        results = [value for value in compiled(*arguments) if isinstance(value, torch.Tensor)]
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        wanted = [value for value in results if value.requires_grad and torch.is_grad_enabled()]
        leaves = [value for value in tensors if value.requires_grad]
        gradients: list[torch.Tensor] = []
        if wanted and leaves:
            loss = torch.stack([value.double().sum() for value in wanted]).sum()
            found = torch.autograd.grad(loss, leaves, allow_unused=True)
            gradients = [value for value in found if value is not None]
    return [value.detach().clone() for value in (*results, *tensors, *gradients)]
