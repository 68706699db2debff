"""The private corners of torch: each is there and still does what warmgraph takes it for."""

import inspect

import pytest
import torch
from torch._functorch._aot_autograd import aot_autograd_result, autograd_cache, schemas
from torch._inductor import async_compile, codecache, output_code
from warmgraph.backend import torch_compat as compat
from warmgraph.backend.compiler_settings import _IGNORED_SETTINGS, inductor_options
from warmgraph.backend.extern import PLAIN, REPLACED_IMPORTS


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_this_torch_is_one_that_was_read():
    """On any other, warmgraph compiles as plain Inductor does."""
    assert compat.unsupported() is None


def test_an_unknown_torch_is_said_to_be_one(monkeypatch):
    """One line, with what to do."""
    monkeypatch.setattr(torch, "__version__", "9.1.0+cpu")
    assert "9.1.0" in compat.unsupported()


def test_the_functions_that_are_intercepted_have_the_arguments_that_are_expected():
    """try_load(mod, args, aot_config, ...) and save(key, entry, remote)."""
    assert parameters(autograd_cache.AOTAutogradCache.try_load)[:3] in (
        ["mod", "args", "aot_config"],
        ["original", "mod", "args"],
    ) or hasattr(autograd_cache.AOTAutogradCache.try_load, "_warmgraph")
    assert hasattr(autograd_cache.AOTAutogradCache.save, "_warmgraph") or parameters(
        autograd_cache.AOTAutogradCache.save
    ) == ["key", "entry", "remote"]
    fields = [field.name for field in __import__("dataclasses").fields(schemas.AOTAutogradCacheInfo)]
    assert fields == ["cache_key", "start_time_ns", "forward_symints"]


def test_a_result_has_the_parts_that_a_load_replaces():
    """compiled_fw and compiled_bw are asked to `load` and `post_compile`; guards_expr speaks of positions."""
    fields = aot_autograd_result.GenericAOTAutogradResult.__dataclass_fields__
    assert {"compiled_fw", "compiled_bw", "guards_expr", "sanitized_aot_config", "runtime_metadata"} <= set(fields)
    assert parameters(aot_autograd_result.GenericAOTAutogradResult.wrap_post_compile) == [
        "self",
        "args",
        "aot_config",
        "fx_config",
    ]
    loads = inspect.getsource(aot_autograd_result.GenericAOTAutogradResult._load_and_post_compile)
    for used in ("compiled_fw.load", "compiled_bw.load", "compiled_fw.post_compile", "compiled_bw.post_compile"):
        assert used in loads


def test_a_compiled_graph_has_the_fields_that_are_set_on_a_load():
    """What torch's own loader sets in `after_deserialization`, and nothing more, is set in `backend/load.py`."""
    body = inspect.getsource(output_code.CompiledFxGraph.after_deserialization)
    assigned = {line.split("=")[0].strip() for line in body.splitlines() if line.strip().startswith("self.")}
    assert {name for name in assigned if name.replace("self.", "").isidentifier()} == {
        "self.current_callable",
        "self.recursively_apply_fns",
        "self.compiled_fn_runner",
    }
    used = inspect.getsource(output_code)
    for name in ("is_backward", "is_inference", "static_input_idxs"):
        assert f'fx_kwargs["{name}"]' in used


def test_every_binding_of_a_kernel_goes_through_one_method():
    """cpp_pybinding and the C++ wrapper both end in `load_pybinding_async`."""
    assert "CppPythonBindingsCodeCache.load_pybinding" in inspect.getsource(async_compile.AsyncCompile.cpp_pybinding)
    assert issubclass(codecache.CppWrapperCodeCache, codecache.CppPythonBindingsCodeCache)
    assert "load_pybinding_async" not in codecache.CppWrapperCodeCache.__dict__


def test_the_stand_in_for_extern_kernels_has_the_real_functions():
    """A hit runs the very functions that Inductor would have run."""
    import torch._inductor.lowering  # noqa: F401 - the kernels register themselves
    from torch._inductor.select_algorithm import extern_kernels as real
    from warmgraph.backend.extern import ExternKernels

    for name, function in PLAIN.items():
        if hasattr(real, name):
            assert getattr(real, name) is function, name
    stand_in = ExternKernels()
    for name in vars(real):
        assert getattr(stand_in, name) is getattr(real, name)
    with pytest.raises(AttributeError):
        stand_in.no_such_kernel  # noqa: B018


def test_the_imports_that_are_replaced_are_in_generated_code():
    """A line that torch no longer writes would silently cost half a second on every first hit."""
    from torch._inductor.codegen import wrapper

    header = inspect.getsource(wrapper.PythonWrapperCodegen.write_header)
    for line, _ in REPLACED_IMPORTS:
        assert line.strip() in header


@pytest.mark.parametrize("name", sorted(_IGNORED_SETTINGS))
def test_a_setting_that_is_left_out_of_keys_exists(name):
    """A renamed setting would move from "left out" to "in the key", or the other way, unseen."""
    assert any(name in module.get_config_copy() for module in compat.config_modules.values())


def test_modes_and_options_are_checked_by_torch():
    """Unknown ones raise torch's own errors, before anything is compiled."""
    assert inductor_options("max-autotune", None)["max_autotune"] is True
    assert inductor_options(None, {"cpp.threads": 3}) == {"cpp.threads": 3}
    with pytest.raises(RuntimeError, match="no_such_option"):
        inductor_options(None, {"no_such_option": 1})
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        inductor_options("fastest", None)


def test_torch_is_asked_what_is_unsafe():
    """Its own list stays the oracle: a graph that AOTAutograd's cache refuses is refused here."""

    def outside(x):
        return x

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(outside, (x,)),))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    assert "outside" in compat.unsafe_reason(gm, [torch.ones(1)])
