"""Which configuration of a Triton kernel was chosen, told to later processes. Compiles and benchmarks nothing.

torch stores a kernel's autotuner, with all of its compiled configurations, before the kernel is first launched; only
then are they benchmarked. So a load on a fresh host would benchmark them again. Here the choice follows the entry, as
lines beside it (`kept_choices`), and a load keeps the chosen one of the configurations that the entry holds. A wrong
line costs speed, never a result: each of them computes the same. What coordinate descent or `dynamic_scale_rblock`
compiled after the entry was made is kept beside it as well, if it was chosen.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from warmgraph.hashing import sha256_hex

from ..reporting.fail_open import attempt
from ..torch_api import cudagraph_trees as compat
from ..torch_api import patches
from ..torch_api.generated_code.triton_bundle import take_configuration, with_binary
from .listening import watch_here
from .watching import Choices


class _Follower(Struct):
    """Whom to tell of an autotuner's choice, and how the kernel is called there. late: configurations that were
    compiled meanwhile, with their binaries, by name.
    """

    choices: Choices
    name: str
    late: dict[str, tuple[Any, bytes]] = field(default_factory=dict)


# Live autotuners whose choice is still to come.
_followed: weakref.WeakKeyDictionary[Any, _Follower] = weakref.WeakKeyDictionary()


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
        choice = known.get(name)
        if choice is not None and (choose(one.kernel, choice) or _take_late(graph, one, choice, watch.choices)):
            continue
        follow(one.kernel, watch.choices, name)


def is_undecided(kernel: Any) -> bool:
    """Whether the first launch would compare several configurations, or compile others to compare with."""
    return len(kernel.compile_results) > 1 or compat.may_scale(kernel) or compat.descends(kernel)


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


def choose(kernel: Any, choice: str) -> bool:
    """Keep one of a kernel's configurations. False when it has no such one, and is left as it is."""
    for result in kernel.compile_results:
        if config_name(result.config) == choice:
            kernel.compile_results = [result]
            _settle(kernel, result)
            return True
    return False


def _take_late(graph: Any, one: Any, choice: str, choices: Choices) -> bool:
    """The same of a configuration that is kept by itself."""
    result = choices.late(kernel_name(one.cache_key), choice)
    if result is None or config_name(result.config) != choice:
        return False
    take_configuration(graph, one.kernel, result)
    _settle(one.kernel, result)
    return True


def _settle(kernel: Any, result: Any) -> None:
    """No other configuration is to be tried: they lost against this one where it was chosen."""
    kernel.inductor_meta = {**kernel.inductor_meta, "dynamic_scale_rblock": False}
    kernel.__dict__.pop("_could_rblock_scale", None)
    if compat.descends(kernel):
        result.config.found_by_coordesc = True


def follow(kernel: Any, choices: Choices, name: str) -> None:
    _followed[kernel] = _Follower(choices, name)
    patches.install("choices", _autotune_to_one_config)
    patches.install("choices by descent", _coordinate_descent_tuning)
    patches.install("late configurations", _precompile_config)


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
        if not compat.descends(kernel):
            attempt("tuning", False, lambda: _tell(kernel, *kernel.launchers))

    return autotune_to_one_config


def _coordinate_descent_tuning(original: Callable[..., Any]) -> Callable[..., Any]:
    def coordinate_descent_tuning(kernel: Any, launcher: Any, *args: Any, **named: Any) -> Any:
        winner = original(kernel, launcher, *args, **named)
        attempt("tuning", False, _tell, kernel, winner)
        return winner

    return coordinate_descent_tuning


def _precompile_config(original: Callable[..., Any]) -> Callable[..., Any]:
    def precompile_config(kernel: Any, config: Any) -> Any:
        made = original(kernel, config)
        attempt("tuning", False, _note_late, kernel, made)
        return made

    return precompile_config


def _note_late(kernel: Any, made: Any) -> None:
    """Now: once it is loaded, its binary is let go. What Triton launches has none of its own."""
    followed, binary = _followed.get(kernel), getattr(made.kernel, "cubin_raw", None)
    if followed is not None and binary is not None:
        followed.late[config_name(made.config)] = made, binary


def _tell(kernel: Any, launcher: Any) -> None:
    followed = _followed.pop(kernel, None)
    if followed is not None:
        choice = config_name(launcher.config)
        late = followed.late.get(choice)
        followed.choices.tuned(followed.name, choice, None if late is None else with_binary(*late))
