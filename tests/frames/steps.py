"""One step of a probe, in its own process: `save`, `changed` or `same` (and then changed). See `test_probes.py`."""

from __future__ import annotations

import contextlib
import copy
import importlib
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from warmgraph.backend.frames import world


def load(folder: str, source: str, name: str = "usermod") -> Any:
    """A user's module from a file, which has the same path in every step."""
    # Any edit of a file that is loaded ends a record (`test_program.py`); here, what would notice it without that.
    world.program = dict
    sys.dont_write_bytecode = True  # an edit of the same size in the same second would be read from the old bytecode
    path = Path(folder) / "src"
    path.mkdir(exist_ok=True)
    (path / f"{name}.py").write_text(source)
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
    importlib.invalidate_caches()
    sys.modules.pop(name, None)
    return importlib.import_module(name)


class Scene:
    """m: the user's module. fn: what is compiled. args: of the call."""

    def __init__(self, probe: Any, home: str, edited: bool) -> None:
        self.as_is = probe.as_is
        source = probe.program
        if edited and probe.edit is not None:
            old, new = probe.edit
            assert old in source, old
            source = source.replace(old, new)
        self.m = load(home, source)
        if probe.entry == "model":
            self.model = self.m.MLP().eval().requires_grad_(False)
            self.fn = self.model
        else:
            self.fn = getattr(self.m, probe.entry)
        torch.manual_seed(1)
        self.args = self.made(probe.args)

    def made(self, args: Callable[..., tuple[Any, ...]]) -> tuple[Any, ...]:
        return args(self) if self.as_is else args()


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach()
        if hasattr(value, "__tensor_flatten__"):
            names, said = value.__tensor_flatten__()
            return [type(value).__name__, repr(said), *(plain(getattr(value, name)) for name in names)]
        numbers = value.double().flatten().tolist() if value.device.type != "meta" else []
        return [str(value.dtype), list(value.shape), [float(x).hex() for x in numbers]]
    if isinstance(value, dict):
        return [[key, plain(item)] for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return repr(value)


def call(fn: Any, args: Any, backend: str, as_is: bool = False, **options: Any) -> Any:
    """What `run` says of the first call. Arguments are copied unless `as_is`."""
    args = given(args, as_is)
    torch.manual_seed(7)
    compiled = torch.compile(fn, backend=backend, **options) if backend != "eager" else fn
    return run(compiled, args)


def given(args: tuple[Any, ...], as_is: bool) -> tuple[Any, ...]:
    """What a call gets: copies of all together, so that what is one stays one, or the arguments themselves."""
    return args if as_is else copy.deepcopy(args)


def run(compiled: Any, args: Any) -> Any:
    """Outputs, arguments afterwards, and gradients of those that want them; or what was raised."""
    try:
        out = compiled(*args)
        wanted = [value.sum() for value in tensors(out) if value.requires_grad]
        if wanted:
            torch.autograd.backward(wanted)
    except Exception as error:
        return f"raises {type(error).__name__}"
    return [plain(out), plain(args), [plain(value.grad) for value in tensors(args) if value.requires_grad]]


def tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def events() -> list[list[Any]]:
    from warmgraph.cache import journal_dir, read, settings

    import warmgraph

    warmgraph.flush()
    mine = [event for event in read(journal_dir(settings())) if event["pid"] == os.getpid()]
    kinds = ("restored", "traced", "failed", "hit", "miss", "bypass", "verified")
    return [[e["outcome"], e["reason"], e["function"], e["detail"]] for e in mine if e["outcome"] in kinds]


def main(task: dict[str, Any]) -> dict[str, Any]:
    from frame_probes import PROBES

    probe, step, home = PROBES[task["probe"]], task["step"], task["home"]
    torch.set_num_threads(1)
    torch._inductor.config.fallback_by_default = True  # operators one by one: no C++ compiler
    warnings.simplefilter("ignore")
    if probe.before is not None:
        probe.before()
    return changed(probe, home) if step == "changed" else sequence(probe, Scene(probe, home, edited=False), step)


def changed(probe: Any, home: str) -> dict[str, Any]:
    """The change was there before the first call. want: what torch's own backend gives in this very process."""
    scene = scene_changed(probe, home)
    around = probe.around or contextlib.nullcontext
    with around():
        got = call(scene.fn, scene.args, "warmgraph", probe.as_is, **probe.options)
    what = events()
    torch._dynamo.reset()
    if probe.as_is:
        scene = scene_changed(probe, home)
    with around():
        want = call(scene.fn, scene.args, "inductor", probe.as_is, **probe.options)
    return {"got": got, "want": want, "events": what}


def scene_changed(probe: Any, home: str) -> Scene:
    scene = Scene(probe, home, edited=True)
    import warmgraph  # noqa: F401

    if probe.change is not None:
        probe.change(scene)
    return scene


def sequence(probe: Any, scene: Scene, step: str) -> dict[str, Any]:
    """A first call, then the change, then a second call of the same compiled function."""
    import warmgraph

    args = given(scene.args, probe.as_is)
    torch.manual_seed(7)
    compiled = torch.compile(scene.fn, backend="warmgraph", **probe.options)
    found: dict[str, Any] = {"first": run(compiled, args), "events": events()}
    if step == "save":
        warmgraph.configure(frames=False)
    if probe.edit is None and probe.after:
        if probe.change is not None:
            probe.change(scene)
        with (probe.around or contextlib.nullcontext)():
            args = given(scene.args, probe.as_is)
            torch.manual_seed(7)
            found["second"] = run(compiled, args)
    return found
