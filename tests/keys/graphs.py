"""Drafts of programs and pairs of them, as Hypothesis strategies. What becomes of a draft is in `programs.py`.

A draft is plain numbers and names. Built, each step of it becomes a line of Python if it can run on the values
before it, and is dropped if it cannot. So every draft is a valid program, every change of a draft is one too, and
Hypothesis can shrink both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

# What one step may be. {0}, {1}: earlier values; {k}: 0 to 3; {f}: a float; {d}: a dimension; {t}: a dtype;
# {b}: a bool; n and s: the program's own scalar arguments.
TEMPLATES = (
    "torch.add({0}, {1}, alpha={k})",
    "torch.sub({0}, {1})",
    "{0} * {1}",
    "{0} * {f}",
    "{0} + {k}",
    "{f} - {0}",
    "{0}.sin()",
    "{0}.tanh()",
    "torch.relu({0})",
    "F.gelu({0})",
    "F.gelu({0}, approximate='tanh')",
    "F.leaky_relu({0}, {f})",
    "F.silu({0}, inplace={b})",
    "{0}.clamp(min={f})",
    "{0}.clamp(max={f})",
    "{0}.sum({d}, keepdim={b})",
    "{0}.mean({d}, keepdim={b})",
    "{0}.amax({d})",
    "{0}.softmax({d})",
    "{0}.cumsum({d})",
    "{0}.var({d}, correction={k})",
    "torch.std_mean({0}, {d})[{k}]",
    "{0}.mT",
    "{0}.transpose(0, {d})",
    "{0}.reshape(-1)",
    "{0}.reshape(-1, {k})",
    "{0}.unsqueeze({d})",
    "{0}[{k}:]",
    "{0}[..., ::{k}]",
    "{0}[{k}]",
    "{0}.narrow({d}, {k}, 2)",
    "{0}.flip({d})",
    "{0}.expand(2, *{0}.shape)",
    "{0}.contiguous()",
    "{0}.clone()",
    "{0}.detach()",
    "{0}.to({t})",
    "{0}.to({t}) * 2",
    "torch.where({0} > {f}, {0}, {1})",
    "torch.where({0} > {1}, {0}, {f})",
    "torch.cat([{0}, {1}], {d})",
    "torch.stack([{0}, {1}], {d})",
    "{0} @ {1}",
    "{0} @ {1}.mT",
    "F.linear({0}, {1})",
    "torch.addmm({0}, {0}, {1}.mT @ {1}, beta={f}, alpha={k})",
    "torch.full_like({0}, {f}) - {0}",
    "torch.zeros_like({0}, dtype={t}) + {0}",
    "{0} + torch.arange({0}.shape[-1])",
    "{0} * torch.tensor([{f}, {k}.0])[{b:d}]",
    "torch.ones({0}.shape[0], {k}, dtype={t})",
    "{0} * {0}.shape[0]",
    "{0} / {0}.numel()",
    "{0} * n",
    "{0} + s",
    "{0}[:n]",
    "F.layer_norm({0}, {0}.shape[-1:])",
    "F.pad({0}, ({k}, 1), value={f})",
    "torch.ops.aten.mul.Tensor({0}, {1})",
    "{0}.add_({1})",
    "{0}.mul_({f})",
    "{0}.add_({1}, alpha={k})",
    "{0}.copy_({1} * {f})",
    "{0}[{k}].fill_({f})",
    "torch.sort({0}, {d}, descending={b})[0]",
    "{0}.index_select(0, torch.tensor([{k}, 0]))",
)

FLOATS = (0.5, 2.0, -1.25, 0.0)
DTYPES = ("torch.float32", "torch.float64", "torch.bfloat16")
DIMS = (0, 1, -1)

# How a step is written: as it is, in a context, or as the body of a higher-order operator that torch can cache.
# (torch refuses graphs that hold an autocast region; the mode around a call is in AMBIENT.)
WRAPS = ("", "", "", "", "no_grad", "checkpoint", "region")

SHAPES = ((4, 6), (6, 4), (4, 4), (6,), (2, 4, 6), (1, 6))
LAYOUTS = ("plain", "plain", "transposed", "offset", "strided", "view of first", "first again")
KINDS = ("tensor", "tensor", "leaf", "parameter", "derived")

# State around the call, and Inductor's settings: each is one name that a change of the draft may replace.
AMBIENT = ("", "", "", "no_grad", "inference", "autocast", "float64", "deterministic", "matmul")
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"epilogue_fusion": False},
    {"max_fusion_size": 8},
    {"triton.cudagraphs": True},
    {"cpp.simdlen": 128},
    {"fallback_random": True},
)


@dataclass(frozen=True, slots=True)
class Input:
    """One tensor argument. `dynamic`: dimensions that the user marks."""

    shape: tuple[int, ...]
    dtype: str
    layout: str
    kind: str
    dynamic: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """One line, before it is known whether it can run."""

    template: int
    left: int
    right: int
    k: int
    f: int
    d: int
    t: int
    b: bool
    wrap: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A whole program. It returns its last value and those that `results` picks; `naming` names what is named."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    dynamic: bool | None
    ambient: str
    settings: int
    naming: int
    seed: int


# --- drawing ------------------------------------------------------------------------------------------

_SMALL = st.integers(0, 3)

inputs = st.builds(
    Input,
    shape=st.sampled_from(SHAPES),
    dtype=st.sampled_from(("torch.float32", *DTYPES)),
    layout=st.sampled_from(LAYOUTS),
    kind=st.sampled_from(KINDS),
    dynamic=st.sampled_from(((), (), (), (0,), (1,), (0, 1))),
)

steps = st.builds(
    Step,
    template=st.integers(0, len(TEMPLATES) - 1),
    left=st.integers(0, 7),
    right=st.integers(0, 7),
    k=_SMALL,
    f=st.integers(0, len(FLOATS) - 1),
    d=st.integers(0, len(DIMS) - 1),
    t=st.integers(0, len(DTYPES) - 1),
    b=st.booleans(),
    wrap=st.sampled_from(WRAPS),
)

drafts = st.builds(
    Draft,
    inputs=st.lists(inputs, min_size=1, max_size=3).map(tuple),
    steps=st.lists(steps, min_size=3, max_size=7).map(tuple),
    results=st.lists(st.integers(0, 9), max_size=2).map(tuple),
    dynamic=st.sampled_from((None, False, True)),
    ambient=st.sampled_from(AMBIENT),
    settings=st.just(0),
    naming=st.integers(0, 1),
    seed=st.integers(0, 3),
)


@st.composite
def pairs(draw: Callable[[Any], Any]) -> tuple[Draft, Draft]:
    """A draft and one small change of it. The change may turn out to mean nothing, or not to be one."""
    first: Draft = draw(drafts)
    part = draw(st.sampled_from(("step", "step", "step", "steps", "input", "input", "whole", "whole")))
    if part == "steps":  # one line more, one less
        at = draw(st.integers(0, len(first.steps)))
        new = draw(st.one_of(st.just(()), st.tuples(steps)))
        return first, dataclasses.replace(first, steps=(*first.steps[:at], *new, *first.steps[at + (not new) :]))
    if part == "step":
        return first, _changed(draw, first, "steps", steps)
    if part == "input":
        return first, _changed(draw, first, "inputs", inputs)
    field = draw(st.sampled_from(("results", "dynamic", "ambient", "settings", "naming", "seed")))
    values = (
        st.integers(0, len(SETTINGS) - 1) if field == "settings" else drafts.map(lambda other: getattr(other, field))
    )
    return first, dataclasses.replace(
        first, **{field: draw(values.filter(lambda value: value != getattr(first, field)))}
    )


def _changed(draw: Callable[[Any], Any], draft: Draft, name: str, strategy: Any) -> Draft:
    """`draft` with another value in one field of one of its steps or inputs."""
    values = list(getattr(draft, name))
    at = draw(st.integers(0, len(values) - 1))
    field = draw(st.sampled_from([field.name for field in dataclasses.fields(values[at])]))
    others = strategy.map(lambda other: getattr(other, field)).filter(lambda value: value != getattr(values[at], field))
    values[at] = dataclasses.replace(values[at], **{field: draw(others)})
    return dataclasses.replace(draft, **{name: tuple(values)})
