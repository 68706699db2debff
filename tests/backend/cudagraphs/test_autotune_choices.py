"""The configuration that was chosen for a Triton kernel follows its entry, and no line of it can do harm."""

import inspect
import types

import pytest
import torch
from torch._inductor.runtime import triton_heuristics
from torch._inductor.runtime.autotune_cache import AutotuneCache
from torch._inductor.runtime.hints import HeuristicType
from torch._inductor.triton_bundler import StaticallyLaunchedAutotuner, TritonBundle, TritonBundler
from warmgraph.backend.compilers.inductor import Inductor
from warmgraph.backend.cudagraphs import autotune_choices as tuned
from warmgraph.backend.cudagraphs import kept_choices, listening
from warmgraph.backend.cudagraphs.kept_choices import KeptChoices, choices_key, parsed_choices
from warmgraph.backend.reporting.report import Place, Report
from warmgraph.backend.torch_api import compile as torch_compat
from warmgraph.backend.torch_api import patches
from warmgraph.cache import flush, open_cache, profile_of, settings, today

KEY = "wg1" + "ab" * 32


class Kernel:
    """As much of an autotuner as is looked at: compiled configurations, of which the first launch takes the last."""

    def __init__(self, *blocks, scales=False):
        configs = [types.SimpleNamespace(kwargs={"XBLOCK": block}, num_warps=4, num_stages=1) for block in blocks]
        self.compile_results = [types.SimpleNamespace(config=config) for config in configs]
        self.launchers = list(self.compile_results)
        self.inductor_meta = {"kernel_name": "f"}
        self._could_rblock_scale = scales
        self.filename = self.save_cache_hook = None

    def autotune_to_one_config(self):
        self.launchers = [self.launchers[-1]]

    @property
    def blocks(self):
        return [result.config.kwargs["XBLOCK"] for result in self.compile_results]


@pytest.fixture(autouse=True)
def put_back(monkeypatch):
    """The stand-in takes the autotuner's place, and torch's functions are wrapped for the length of a test."""
    monkeypatch.setattr(Kernel, "autotune_to_one_config", Kernel.autotune_to_one_config)
    monkeypatch.setattr(TritonBundler, "put_static_autotuner", classmethod(lambda cls, key, kernel: None))
    stand_in = patches.Patch(__name__, "Kernel.autotune_to_one_config", ("self",), "tests")
    monkeypatch.setitem(patches.PATCHES, "choices", stand_in)
    others = {name: undo for name, undo in patches._undo.items() if name not in ("choices", "bundling")}
    monkeypatch.setattr(patches, "_undo", others)


def process():
    """Another process: nothing is known but what is in the store."""
    report = Report(None, Place("f", "f.py", 1), "warmgraph")
    report._key = types.SimpleNamespace(id=KEY)
    return KeptChoices(open_cache(settings()), report)


def loaded(writer, **kernels):
    """What `apply_autotune_choice` makes of an entry with these kernels."""
    bundle = TritonBundle([], [StaticallyLaunchedAutotuner(name, name, kernel) for name, kernel in kernels.items()])
    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    with listening.watching(gm, lambda reason, detail: None, writer, strict=True):
        tuned.apply_autotune_choice(types.SimpleNamespace(_triton_bundle=bundle))
    return kernels


def test_what_one_process_chose_another_takes_without_trying():
    """Chosen at the first launch of a fresh compile, told once, and kept alone by a load."""
    tuned.hear_bundling()
    gm, first = torch.fx.symbolic_trace(lambda x: x + 1), Kernel(16, 32, 64)
    with listening.watching(gm, lambda reason, detail: None, process(), strict=True):
        TritonBundler.put_static_autotuner("a", first)
    first.autotune_to_one_config()
    first.autotune_to_one_config()
    assert flush(60)
    found = loaded(process(), a=Kernel(16, 32, 64), b=Kernel(16, 32))
    assert found["a"].blocks == [64]
    assert found["a"].inductor_meta == {"kernel_name": "f", "dynamic_scale_rblock": False}
    assert found["b"].blocks == [16, 32]  # nobody has launched it yet


def test_a_load_that_finds_no_choice_tells_its_own():
    """The process that compiled may have ended before it ran."""
    found = loaded(process(), a=Kernel(16, 32))
    found["a"].autotune_to_one_config()
    assert flush(60)
    assert loaded(process(), a=Kernel(16, 32))["a"].blocks == [32]


def test_a_reduction_that_might_be_scaled_is_settled_too():
    """It has one configuration, and its load would compile another to compare."""
    kernel = Kernel(16, scales=True)
    loaded(process(), a=kernel)
    kernel.autotune_to_one_config()
    assert flush(60)
    again = loaded(process(), a=Kernel(16, scales=True))["a"]
    assert again.inductor_meta["dynamic_scale_rblock"] is False
    assert not vars(again).get("_could_rblock_scale")


@pytest.mark.parametrize(
    ("changed", "may"),
    [
        ({}, True),
        ({"heuristic_type": HeuristicType.POINTWISE}, False),
        ({"inductor_meta": {"persistent_reduction": True}}, False),
        ({"inductor_meta": {"dynamic_scale_rblock": False}}, False),
        ({"deterministic_mode": True}, False),
        ({"size_hints": None}, False),
    ],
)
def test_before_2_13_torch_is_asked_what_it_asks_itself(changed, may):
    """Its autotuners have no such property, and a load that failed there settled no kernel at all."""
    kernel = Kernel(16)
    del kernel._could_rblock_scale
    asked = {"heuristic_type": HeuristicType.REDUCTION, "size_hints": {"x": 64}, "deterministic_mode": False}
    vars(kernel).update(asked | changed)
    assert tuned.is_undecided(kernel) is may


def test_a_loaded_kernel_keeps_its_choice_in_this_process_s_folder(tmp_path, monkeypatch):
    """And neither reads nor writes where it was compiled, which may be a folder of somebody else's host."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "here"))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o500)
    kernel, cache = Kernel(16, 32), AutotuneCache.create({}, str(elsewhere / "ab" / "cabc.py"), "configs")
    kernel.filename, kernel.save_cache_hook = str(elsewhere / "ab" / "cabc.py"), cache.save
    loaded(process(), a=kernel)
    kernel.save_cache_hook(kernel.compile_results[0].config, 1)
    assert kernel.filename == str(tmp_path / "here" / "ab" / "cabc.py")
    assert [path.suffix for path in (tmp_path / "here" / "ab").iterdir()] == [".best_config"]
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("line", ["tuned {name} 0000000000000000", "tuned {name}", "tuned x y", "rm -rf"])
def test_a_choice_that_the_entry_does_not_hold_changes_nothing(line):
    """It was found by coordinate descent, or is no choice at all."""
    writer, name = process(), tuned.kernel_name("a")
    writer._cache.learning.learn(choices_key(KEY), profile_of({line.format(name=name): today()}), "a test")
    assert flush(60)
    kernel = loaded(writer, a=Kernel(16, 32))["a"]
    assert kernel.blocks == [16, 32]
    assert "dynamic_scale_rblock" not in kernel.inductor_meta


def test_hosts_that_chose_for_themselves_are_all_read_alike():
    """Two lines for one kernel: every reader takes the same."""
    one, other = (f"tuned {'ab' * 16} {digit * 16}" for digit in "12")
    assert parsed_choices([one, other]) == parsed_choices([other, one])
    assert set(parsed_choices([one, other])) == {"ab" * 16}


def test_a_kernel_with_one_configuration_asks_nobody():
    """A hit costs no round trip more."""
    writer = process()
    writer.known = lambda: pytest.fail("asked")
    assert loaded(writer, a=Kernel(16))["a"].blocks == [16]


def test_what_a_process_adds_for_one_graph_is_bounded_and_each_once(monkeypatch):
    """However many kernels it launches; and a choice that is told again is not written again."""
    writer, written = process(), []
    monkeypatch.setattr(writer._cache.learning, "learn", lambda key, profile, about: written.extend(profile.lines))
    for number in [*range(kept_choices.MAX_LINES + 10), 0]:
        writer.tuned(f"{number:032x}", "0" * 16)
    assert len(written) == len(parsed_choices(written)) == kept_choices.MAX_LINES


def test_a_bypassed_graph_keeps_no_choice():
    """It has no key, so that nobody would find it."""
    writer = KeptChoices(open_cache(settings()), Report(None, Place("f", "f.py", 1), "warmgraph"))
    writer.tuned("ab" * 16, "0" * 16)
    assert flush(60)
    assert writer._told == set()
    assert writer.known() == process().known() == {}


def test_torch_still_stores_autotuners_before_it_chooses():
    """Why this is needed; and what is wrapped is there, and chooses."""
    precompile = inspect.getsource(triton_heuristics.CachingAutotuner.precompile)
    assert precompile.index("put_static_autotuner") < precompile.index("_make_launchers()")
    chooses = inspect.getsource(triton_heuristics.CachingAutotuner.autotune_to_one_config)
    assert "self.launchers = [best_launcher]" in chooses or "self.launchers = [builtins.min(" in chooses  # 2.11
    assert "autotune_to_one_config(" in inspect.getsource(triton_heuristics.CachingAutotuner.run)
    asked = vars(triton_heuristics.CachingAutotuner)
    assert {"_could_rblock_scale", "_dynamic_scale_rblock"} & set(asked)
    assert {"filename", "save_cache_hook"} <= set(inspect.signature(triton_heuristics.CachingAutotuner).parameters)
    assert "dynamic_scale_rblock" in inspect.getsource(triton_heuristics.CachingAutotuner)
    assert {"static_autotuners", "kernel_artifacts"} <= set(TritonBundle.__dataclass_fields__)
    assert {"cache_key", "kernel"} <= set(StaticallyLaunchedAutotuner.__dataclass_fields__)


def test_a_graph_is_compiled_where_nothing_can_be_listened_to(monkeypatch):
    """A torch that nobody read may have neither place; who listens must not be what takes a compile down."""

    for name in ("partitions", "bundling"):
        moved = patches.Patch("torch._inductor.scheduler", "Gone.method", ("self",), "tests")
        monkeypatch.setitem(patches.PATCHES, name, moved)
        monkeypatch.delitem(patches._undo, name, raising=False)
    monkeypatch.setattr(torch_compat, "compile_fx", lambda gm, inputs, patches: "compiled")
    assert Inductor().compile(None, [], {}, None) == "compiled"
