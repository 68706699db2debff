"""Where cases of things that keys are known to forget register themselves. Holds none itself."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

X = torch.arange(16.0).reshape(4, 4)


def load(name: str) -> Any:
    """A helper of these tests as a module, once: the folder is no package."""
    full = f"warmgraph_tests_{name}"
    if full not in sys.modules:
        spec = importlib.util.spec_from_file_location(full, Path(__file__).parent / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        sys.modules[full] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[full])
    return sys.modules[full]


trace = load("both_keys").trace


@dataclass(frozen=True, slots=True)
class Cases:
    """Each case takes a version, 1 or 2, and gives its trace.

    `differing`: each version has a key of its own. `refused`: neither has one, and the reason holds these words.
    """

    differing: dict[str, Callable[[int], Any]] = field(default_factory=dict)
    refused: dict[str, tuple[Callable[[int], Any], tuple[str, ...]]] = field(default_factory=dict)

    def differs(self, case: Callable[[int], Any]) -> Callable[[int], Any]:
        self.differing[case.__name__] = case
        return case

    def refuses(self, *words: str) -> Callable[[Callable[[int], Any]], Callable[[int], Any]]:
        def register(case: Callable[[int], Any]) -> Callable[[int], Any]:
            self.refused[case.__name__] = case, words
            return case

        return register
