"""Which configuration of a Triton kernel was chosen, told to later processes. Compiles and benchmarks nothing.

torch stores a kernel's autotuner, with all of its compiled configurations, before the kernel is first launched; only
then are they benchmarked. So a load on a fresh host would benchmark them again. Here the choice follows the entry, as
lines beside it (`kept_choices`), and a load keeps the chosen one of the configurations that the entry holds. A wrong
line costs speed, never a result: each of them computes the same. What coordinate descent or `dynamic_scale_rblock`
compiled after the entry was made is not in it, and is looked for again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from warmgraph.hashing import sha256_hex

from ..reporting.fail_open import attempt
from ..torch_api import cudagraph_trees as compat
from ..torch_api import patches
from .listening import watch_here
from .watching import Choices

# Live autotuners whose choice is still to come: whom to tell, and how the kernel is called there.
_followed: weakref.WeakKeyDictionary[Any, tuple[Choices, str]] = weakref.WeakKeyDictionary()


def apply_autotune_choice(graph: Any) -> None:
    """Before a loaded graph's kernels are taken out of its bundle: choose as others did; else listen for the choice."""
    watch, bundle = watch_here(), graph._triton_bundle
    if bundle is None:
        return
    for one in bundle.static_autotuners:
        relocate_autotune_cache(one.kernel)
    if watch is None or watch.choices is None:
        return
    undecided = [one for one in bundle.static_autotuners if is_undecided(one.kernel)]
    known: Mapping[str, str] = watch.choices.known() if undecided else {}
    for one in undecided:
        name = kernel_name(one.cache_key)
        if not choose(one.kernel, known.get(name)):
            follow(one.kernel, watch.choices, name)


def is_undecided(kernel: Any) -> bool:
    """Whether the first launch would compare several configurations, or compile another one to compare with."""
    return len(kernel.compile_results) > 1 or compat.may_scale(kernel)


def relocate_autotune_cache(kernel: Any) -> None:
    """Let a loaded kernel keep its choice where this process keeps Inductor's files.

    torch stores the path that these had where it was compiled, reads a choice from there and writes one to it: on
    another host that is anybody's folder, or one that nobody may write to, and the first launch would raise.
    """
    if kernel.filename is not None:
        kernel.filename = _at_home(kernel.filename)
    kept = getattr(kernel.save_cache_hook, "__self__", None)
    if kept is not None and kept.local_cache is not None:
        cache, path = kept.local_cache
        kept.local_cache = cache, _at_home(path)


def _at_home(path: str) -> str:
    """Files of Inductor's lie in folders of two letters."""
    return str(Path(compat.cache_dir(), *Path(path).parts[-2:]))


def choose(kernel: Any, choice: str | None) -> bool:
    """Keep one of a kernel's configurations. False when it has no such one, and is left as it is."""
    for result in kernel.compile_results:
        if config_name(result.config) == choice:
            kernel.compile_results = [result]
            # It lost against the chosen one where it was tried, and trying it means compiling it.
            kernel.inductor_meta = {**kernel.inductor_meta, "dynamic_scale_rblock": False}
            kernel.__dict__.pop("_could_rblock_scale", None)
            return True
    return False


def follow(kernel: Any, choices: Choices, name: str) -> None:
    _followed[kernel] = choices, name
    patches.install("choices", _autotune_to_one_config)


def hear_bundling() -> None:
    """Listen for the autotuners of what is compiled here. Imports Inductor's bundler, for who compiles anyway."""
    patches.install("bundling", _put_static_autotuner)


def kernel_name(cache_key: str) -> str:
    return sha256_hex(cache_key.encode())[:32]


def config_name(config: Any) -> str:
    """A configuration by what torch tells two apart by."""
    return sha256_hex(repr(compat.config_values(config)).encode())[:16]


def _put_static_autotuner(original: Callable[..., None]) -> Callable[..., None]:
    def put_static_autotuner(cls: type, key: str, kernel: Any) -> None:
        original(cls, key, kernel)
        watch = watch_here()
        if watch is not None and watch.choices is not None:
            attempt("tuning", False, follow, kernel, watch.choices, kernel_name(key))

    return put_static_autotuner


def _autotune_to_one_config(original: Callable[..., None]) -> Callable[..., None]:
    def autotune_to_one_config(kernel: Any, *args: Any, **named: Any) -> None:
        original(kernel, *args, **named)
        attempt("tuning", False, _tell, kernel)

    return autotune_to_one_config


def _tell(kernel: Any) -> None:
    followed = _followed.pop(kernel, None)
    if followed is not None:
        choices, name = followed
        (launcher,) = kernel.launchers
        choices.tuned(name, config_name(launcher.config))
