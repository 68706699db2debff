"""Every setting, state of torch, tool and fact of the machine, changed alone, changes its own line."""

from __future__ import annotations

import contextlib
import importlib
import threading

import pytest
import torch
from torch._inductor.choices import InductorChoices
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.utils import set_customized_partition_wrappers
from torch._inductor.virtualized import V
from warmgraph.backend.key.compiler_settings import IGNORED_SETTINGS, settings_in_force
from warmgraph.backend.torch_api import compile as compat
from warmgraph.backend.torch_api import versions
from warmgraph.backend.torch_api.generated_code import wrapper_module
from warmgraph.hashing import Key, Uncacheable, build
from warmgraph.hashing.build import named_lines
from warmgraph.hashing.parts import machine, toolchain

from .cases import changed, of_inputs
from .state_fields import AMBIENT, COMPILER, CPU, GPU, MACHINE, TOOLCHAIN, another

SETTINGS = [f"{prefix}.{name}" for prefix, module in compat.config_modules.items() for name in module.get_config_copy()]


def key() -> Key:
    return of_inputs(torch.ones(3)).key()


def lines(keyed: Key, part: str) -> dict[str, str]:
    """The part's lines, by name."""
    return dict(line.split(": ", 1) for line in keyed.texts()[part].splitlines())


def moved(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


def settings() -> dict[str, str]:
    return dict(line.split(": ", 1) for line in named_lines(settings_in_force()))


def test_every_setting_of_torch_changes_the_key_or_is_listed_with_a_reason(record_property):
    """Each of the 700, alone. What is left out is left out by name; a new one is in the key by itself."""
    wrong = {}
    for full in SETTINGS:
        prefix, _, name = full.partition(".")
        module = compat.config_modules[prefix]
        before = settings()
        with module.patch({name: another(module.get_config_copy()[name])}):
            try:
                found = {line.partition(".")[0] if line.startswith('"') else line for line in moved(before, settings())}
            except Uncacheable:
                found = {full}  # a file that is not there: never the same key, at any rate
        shown = full.startswith("inductor.trace.") and "provenance_tracking" not in full
        left_out = shown or full in IGNORED_SETTINGS
        expected = set() if left_out and full not in COMPILER else {full}
        if {line for line in found if not line.startswith(f"{full}.")} - expected or bool(found) != bool(expected):
            wrong[full] = found
    assert wrong == {}
    kept = [name for name in SETTINGS if name not in IGNORED_SETTINGS]
    record_property("key_field", ["compiler", f"each of {len(kept)} settings of {', '.join(compat.config_modules)}"])


@pytest.mark.parametrize("name", IGNORED_SETTINGS)
def test_a_setting_that_is_left_out_of_keys_exists_and_says_why(name, record_property):
    """A renamed setting would move from "left out" to "in the key", or the other way, unseen."""
    assert name in SETTINGS or name in versions.here().lacks
    assert len(IGNORED_SETTINGS[name]) > 10
    record_property("key_field", ["settings left out, with a reason", name])


def test_every_line_of_the_compiler_part_is_a_setting_or_listed():
    """Nothing else gets in unseen."""
    before = settings()
    of_compiler = {f"compiler.{name}" for name in torch.compiler.config.get_config_copy()}
    unlisted = set(lines(key(), "compiler")) - set(SETTINGS) - set(COMPILER) - of_compiler
    containers = {name for name in SETTINGS if isinstance(settings_in_force().get(name), dict)}
    assert {name for name in unlisted if not any(name.startswith(f"{holder}.") for holder in containers)} == set()
    assert set(lines(key(), "compiler")) - set(before) == {"backend", "format"}


# What reaches the graph before it comes here, or is a place or a switch of profiles and caches.
ELSEWHERE = {"job_id", "pgo_extra_read_key", "pgo_extra_write_key", "force_disable_caches"}
ELSEWHERE |= {"dynamic_sources", "dynamic_values", "static_sources", "unbacked_sources"}


def test_settings_of_torch_compiler_are_in_the_key_or_listed(record_property):
    """Each changed alone; `compile_on_one_rank` is one of them since torch 2.14."""
    before, moved = key(), set()
    for name, value in torch.compiler.config.get_config_copy().items():
        other = not value if isinstance(value, bool) else f"{value}x"
        if name != "force_disable_caches":
            with torch.compiler.config.patch({name: other}):
                moved |= {name} if changed(before, key()) == {"compiler"} else set()
    assert moved == set(torch.compiler.config.get_config_copy()) - ELSEWHERE
    # Of another module before; its name there is an alias since, which no copy of the settings has.
    assert ("compile_on_one_rank" in moved) == (versions.at_hand() >= (2, 14))
    record_property("key_field", ["compiler", "settings of torch.compiler.config"])


@pytest.mark.parametrize("name", COMPILER)
def test_a_compiler_line_that_is_no_setting_changes_it_too(name, monkeypatch, record_property):
    """The backend's name, the tag for breaking caches, provenance, and what steers kernels from elsewhere."""
    before = key()
    if name == "backend":
        monkeypatch.setattr("tests.keys.cases.BACKEND", "another")
    elif name == "format":
        monkeypatch.setattr(wrapper_module, "FORMAT", 0)
    elif name == "sm_carveout":
        monkeypatch.setattr(compat, "sm_carveout", lambda: 8)
    elif name == "dynamo.custom_ops_profile":
        monkeypatch.setattr(compat, "custom_ops_profile", lambda: "profile")
    with (
        torch.compiler.config.patch(cache_key_tag="tag") if name.endswith("tag") else contextlib.nullcontext(),
        compat.inductor_config.patch(
            {"trace.provenance_tracking_level": 2} if name.endswith("level") else {"max_autotune": False}
        ),
    ):
        after = key()
    assert changed(before, after) == {"compiler"}
    assert moved(lines(before, "compiler"), lines(after, "compiler")) == {name}
    record_property("key_field", ["compiler", name])


class Choices:
    """A user's class among the settings."""


class Told(Choices):
    """One that says when it changes."""

    version = 1

    def uuid(self):
        return f"told {self.version}"


def test_a_class_among_the_settings_is_known_by_its_uuid_and_never_by_its_name(monkeypatch):
    """As torch does for `inductor_choices_class`; an edited class has the same name."""
    with compat.inductor_config.patch(inductor_choices_class=Choices), pytest.raises(Uncacheable, match="uuid"):
        key()
    with compat.inductor_config.patch(inductor_choices_class=Told):
        before = key()
        monkeypatch.setattr(Told, "version", 2)
        assert changed(before, key()) == {"compiler"}


def test_a_file_among_the_settings_is_known_by_its_content(tmp_path):
    """Profiles of collectives steer the schedule; the path says nothing."""
    name = "aten_distributed_optimizations.profile_guided_estimations_profile_path"
    if f"inductor.{name}" not in SETTINGS:
        pytest.skip("no such setting before 2.13")
    found = []
    for file, content in (("a", "1"), ("b", "1"), ("a", "2")):
        (tmp_path / file).write_text(content)
        with compat.inductor_config.patch({name: str(tmp_path / file)}):
            found.append(key())
    assert changed(found[0], found[1]) == set()
    assert changed(found[0], found[2]) == {"compiler"}


def test_code_generated_from_outside_torch_is_refused(monkeypatch):
    """Whoever registers a code generator of his own decides what is compiled, and nothing says when it changes."""
    import torch._inductor.codegen.common as common

    monkeypatch.setitem(common.device_codegens, "cpu", common.DeviceCodegen(Choices, Choices))
    with pytest.raises(Uncacheable, match="Choices"):
        key()


@pytest.mark.parametrize("name", AMBIENT)
def test_a_state_of_torch_changes_its_line(name, record_property):
    """And no other part; where torch ties two settings together, both lines move."""
    change, around, tied = AMBIENT[name]
    case = of_inputs(torch.ones(3))
    with contextlib.ExitStack() as stack:
        if around is not None:
            stack.enter_context(around())
        before = case.key()
        stack.enter_context(change())
        after = case.key()
    assert changed(before, after) == {"ambient"}
    found = moved(lines(before, "ambient"), lines(after, "ambient"))
    assert name in found
    assert found <= {name, *tied}
    record_property("key_field", ["ambient", name])


def test_the_dtype_of_autocast_changes_its_line(record_property):
    """Not only whether it is on (pytorch#181564)."""
    case = of_inputs(torch.ones(3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        before = case.key()
    with torch.autocast("cpu", dtype=torch.float16):
        after = case.key()
    assert changed(before, after) == {"ambient"}
    assert moved(lines(before, "ambient"), lines(after, "ambient")) == {"autocast.cpu"}
    record_property("key_field", ["ambient", "dtype of autocast"])


def test_every_line_of_the_ambient_part_is_listed():
    """A state that is read and not listed has no test."""
    with contextlib.ExitStack() as stack:
        for name in AMBIENT:
            if name.startswith(
                ("autocast.", "dtensors.", "sdp.order", "sdp.overrideable", "sdp.flash_4")
            ):  # only where they are not as usual
                stack.enter_context(AMBIENT[name][0]())
        assert set(lines(key(), "ambient")) == set(AMBIENT)


def test_every_line_of_toolchain_and_machine_is_listed():
    """A fact that is read and not listed has no test."""
    found = key()
    assert set(lines(found, "toolchain")) == set(TOOLCHAIN)
    assert {name for name in lines(found, "machine") if "." not in name} <= set(MACHINE)
    assert {name for name in lines(found, "machine") if "." in name} == {f"cpu.{name}" for name in CPU}


@pytest.mark.parametrize("name", TOOLCHAIN)
def test_a_tool_changes_its_line(name, monkeypatch, record_property):
    """Each fact about what made the code."""
    before = key()
    facts = toolchain.toolchain()
    monkeypatch.setattr(build, "toolchain", lambda: {**facts, name: another(facts[name])})
    after = key()
    assert changed(before, after) == {"toolchain"}
    assert moved(lines(before, "toolchain"), lines(after, "toolchain")) == {name}
    record_property("key_field", ["toolchain", name])


@pytest.mark.parametrize("name", CPU)
def test_a_fact_of_the_cpu_changes_its_line(name, monkeypatch, record_property):
    """Inductor builds with -march=native."""
    before = key()
    facts = machine.cpu()
    monkeypatch.setattr(machine, "cpu", lambda: {**facts, name: another(facts[name])})
    after = key()
    assert changed(before, after) == {"machine"}
    assert moved(lines(before, "machine"), lines(after, "machine")) == {f"cpu.{name}"}
    record_property("key_field", ["machine", f"cpu.{name}"])


class Properties:
    """What CUDA says of a GPU, as far as keys ask."""

    name = "NVIDIA X"
    gcnArchName = "gfx"
    major, minor = 9, 0
    multi_processor_count = 132


@pytest.fixture
def a_gpu(monkeypatch):
    """A machine with one GPU, as `torch.cuda` would describe it; the facts are asked anew each time."""
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: Properties)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_device_index", lambda: 0)
    monkeypatch.setattr(machine, "gpu", machine.gpu.__wrapped__)
    monkeypatch.setattr(machine, "driver", lambda: "550.1")
    return monkeypatch


@pytest.mark.parametrize(
    ("line", "attribute", "value"),
    [
        ("name", "name", "NVIDIA Y"),
        ("architecture", "gcnArchName", "gfx:xnack+"),
        ("capability", "major", 10),
        ("capability", "minor", 1),
        ("multiprocessors", "multi_processor_count", 78),
    ],
)
def test_a_fact_of_the_gpu_changes_the_machine(line, attribute, value, a_gpu, record_property):
    """And nothing but the line `gpus`."""
    cuda = [torch.device("cuda:0")]
    before = machine.machine(cuda)
    assert set(before) == set(MACHINE) - {"cpu"}
    assert set(before["gpus"][0]) == set(GPU)
    a_gpu.setattr(Properties, attribute, value)
    after = machine.machine(cuda)
    assert {name for name in before if before[name] != after[name]} == {"gpus"}
    assert before["gpus"][0][line] != after["gpus"][0][line]
    record_property("key_field", ["machine", f"gpus.{line}"])


@pytest.mark.parametrize("name", ["devices", "current_device", "driver", "triton"])
def test_what_else_gpu_code_depends_on_changes_the_machine(name, a_gpu, record_property):
    """Which devices, which of them is the current one, the driver, and Triton's environment."""
    before = machine.machine([torch.device("cuda:0")])
    devices = [torch.device("cuda:0")]
    if name == "devices":
        devices.append(torch.device("cuda:1"))
    elif name == "current_device":
        a_gpu.setattr(torch.accelerator, "current_device_index", lambda: 1)
    elif name == "driver":
        a_gpu.setattr(machine, "driver", lambda: "560.0")
    else:
        a_gpu.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    after = machine.machine(devices)
    assert {n for n in before if before[n] != after[n]} - {"gpus"} == {name}
    record_property("key_field", ["machine", name])


def test_hardware_that_nothing_describes_is_refused():
    """One XPU is not another."""
    with pytest.raises(Uncacheable, match="xpu"):
        machine.machine([torch.device("xpu")])


def test_a_wrapper_around_partitions_changes_the_key(record_property):
    """With one Inductor splits a graph into parts, and without it does not; it is kept beside the settings."""
    before = key()
    set_customized_partition_wrappers(lambda run, metadata: run)
    try:
        assert changed(before, key()) == {"compiler"}
    finally:
        set_customized_partition_wrappers(None)
    assert changed(before, key()) == set()
    record_property("key_field", ["compiler", "partitions_are_wrapped"])


class NoFusion(InductorChoices):
    """Decides for Inductor what is fused."""

    def __init__(self, identity="1"):
        super().__init__()
        self.identity = identity

    @staticmethod
    def can_fuse(scheduler, node1, node2, shared_data_score):
        return False

    def uuid(self):
        return self.identity


@pytest.mark.skipif(versions.at_hand() < (2, 15), reason="torch registers them since 2.15")
def test_choices_that_are_registered_change_the_key(record_property):
    """They are no setting: torch keeps them beside its settings."""
    from torch._inductor import choices

    before = key()
    try:
        choices.register_inductor_choices("mine", NoFusion)
        first = key()
        choices.register_inductor_choices("mine", lambda: NoFusion("2"))
        assert changed(before, first) == changed(first, key()) == {"compiler"}
    finally:
        choices.unregister_inductor_choices("mine")
    assert changed(before, key()) == set()
    record_property("key_field", ["compiler", "registered_choices"])


def test_choices_that_a_program_puts_there_itself_are_refused():
    """Nothing says when they change."""
    key()
    with V.set_choices_handler(NoFusion()), pytest.raises(Uncacheable, match="NoFusion"):
        key()
    with V.set_choices_handler(InductorChoices()):
        key()


def test_a_users_heuristics_for_a_template_are_refused(monkeypatch):
    name = "heuristics" if versions.at_hand() >= (2, 14) else "template_heuristics"
    registry = importlib.import_module(f"torch._inductor.{name}.registry")._TEMPLATE_HEURISTIC_REGISTRY
    key()
    monkeypatch.setitem(registry, ("mm", "cpu", None), NoFusion)
    with pytest.raises(Uncacheable, match="NoFusion"):
        key()


class HoldsALock(CustomGraphPass):
    """What cannot be copied, as vLLM's pass that holds a process group."""

    def __init__(self, identity):
        self.lock, self.identity = threading.Lock(), identity

    def __call__(self, graph):
        raise AssertionError

    def uuid(self):
        return self.identity


def test_a_pass_that_cannot_be_copied_is_known_by_its_uuid(record_property):
    """torch's own copy of its settings fails on it."""

    def keyed(identity, **more):
        with compat.inductor_config.patch(post_grad_custom_post_pass=HoldsALock(identity), **more):
            with pytest.raises(TypeError):
                compat.inductor_config.get_config_copy()
            return key()

    assert changed(keyed("one"), keyed("one")) == set()
    assert changed(keyed("one"), keyed("two")) == {"compiler"}
    assert changed(keyed("one"), keyed("one", max_autotune=True)) == {"compiler"}
    record_property("key_field", ["compiler", "a pass that cannot be copied"])
