"""What every compiler of graphs must do (`backend/typing.py`), as a class of tests to inherit from. Needs torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from warmgraph.backend import Backend, Bypass, Compiler
from warmgraph.cache import flush, journal_dir, read, reset_settings, settings

Step = Callable[[Callable[..., Any], int], list[torch.Tensor]]


def _infers(compiled: Callable[..., Any], size: int) -> list[torch.Tensor]:
    run = compiled(lambda x, y: ((x @ y.t()).relu().sum(1), x.shape[0] * y))
    x = torch.linspace(-1, 1, size * 4).view(size, 4)
    return list(run(x, x.flip(0)))


def _trains(compiled: Callable[..., Any], size: int) -> list[torch.Tensor]:
    weight = torch.linspace(-2, 1, 12).view(4, 3).requires_grad_()
    x = torch.linspace(-1, 1, size * 4).view(size, 4).requires_grad_()
    run = compiled(lambda x, weight: (x @ weight).tanh().square().mean())
    loss = run(x, weight)
    loss.backward()
    assert weight.grad is not None and x.grad is not None
    return [loss.detach(), weight.grad, x.grad]


def _writes(compiled: Callable[..., Any], size: int) -> list[torch.Tensor]:
    def step(x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        seen += x.sum(0)
        return seen.view(2, 2).t()

    x, seen = torch.linspace(-1, 1, size * 4).view(size, 4), torch.ones(4)
    out = compiled(step)(x, seen)
    assert out.data_ptr() == seen.data_ptr()  # a view of what was written, as in eager
    return [out, seen]


STEPS = {"inference": _infers, "training": _trains, "a_written_input": _writes}


class CompilerConformance:
    """Subclasses give the fixture `compiler`. Each test has a store of its own, and errors are raised."""

    @pytest.fixture
    def compiler(self) -> Compiler:
        raise NotImplementedError

    @pytest.fixture
    def backend(self, compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
        monkeypatch.setenv("WARMGRAPH_DIR", str(tmp_path / "store"))
        monkeypatch.setenv("WARMGRAPH_STRICT", "1")
        reset_settings()
        yield Backend(compiler)
        torch.compiler.reset()
        reset_settings()

    def outcomes(self) -> list[str]:
        """What became of this test's graphs so far, in order."""
        assert flush(60)
        events = sorted(read(journal_dir(settings())), key=lambda event: float(event["time"]))
        return [event["outcome"] for event in events if event["outcome"] not in ("skipped", "restored", "traced")]

    def test_has_a_name_and_settings_that_stay(self, compiler: Compiler) -> None:
        """Both are in keys: told twice, they are the same."""
        assert compiler.name
        assert compiler.settings() == compiler.settings()
        assert isinstance(compiler.refusal(), Bypass | None)

    def test_options_are_refused_where_they_are_unknown(self, compiler: Compiler) -> None:
        """As torch does, at `torch.compile`'s call or the first of the function; without any, there are none."""
        assert compiler.options(None, None) == {}
        with pytest.raises(RuntimeError, match="no_such_option"):
            compiler.options(None, {"no_such_option": 1})

    @pytest.mark.parametrize("dynamic", [False, True])
    @pytest.mark.parametrize("step", STEPS.values(), ids=list(STEPS))
    def test_what_is_loaded_is_what_was_compiled(self, backend: Backend, step: Step, dynamic: bool) -> None:
        """A compile agrees with eager. A load has its bits (outputs, gradients, written inputs), and none is made."""
        expected, results = step(lambda function: function, 6), []
        for _ in ("cold", "warm"):
            torch.compiler.reset()
            results.append(step(lambda function: torch.compile(function, backend=backend, dynamic=dynamic), 6))
        cold, warm = results
        assert self.outcomes() == ["miss", "hit"]
        for eager, one, other in zip(expected, cold, warm, strict=True):
            torch.testing.assert_close(one, eager)
            assert torch.equal(one, other)
            assert one.stride() == other.stride() == eager.stride()

    def test_a_dynamic_graph_serves_other_sizes(self, backend: Backend) -> None:
        """What was compiled at one size is loaded at another, where its guards hold."""
        for size in (6, 9):
            torch.compiler.reset()
            found = _infers(lambda function: torch.compile(function, backend=backend, dynamic=True), size)
            torch.testing.assert_close(found, _infers(lambda function: function, size))
        assert self.outcomes() == ["miss", "hit"]

    def test_without_cuda_graphs_the_results_are_the_same(self, backend: Backend, compiler: Compiler) -> None:
        """It may be entered twice, and leaves everything as it was."""
        with compiler.without_cudagraphs(), compiler.without_cudagraphs():
            inside = _infers(lambda function: torch.compile(function, backend=backend), 6)
        torch.compiler.reset()
        outside = _infers(lambda function: torch.compile(function, backend=backend), 6)
        assert all(torch.equal(one, other) for one, other in zip(inside, outside, strict=True))
