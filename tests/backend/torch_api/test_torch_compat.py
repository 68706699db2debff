"""The private corners of torch: each is there and still does what warmgraph takes it for."""

import gc
import inspect
import itertools

import pytest
import torch
import torch.distributed.device_mesh
import torch.distributed.tensor.placement_types
from torch._dynamo import output_graph, pgo, symbolic_convert
from torch._dynamo.variables import builder
from torch._functorch._aot_autograd import aot_autograd_result, graph_compile, runtime_wrappers, schemas
from torch._inductor import async_compile, codecache, cudagraph_trees, cudagraph_utils, output_code
from torch.fx.experimental.proxy_tensor import make_fx
from warmgraph.backend import frames_unsupported
from warmgraph.backend.pgo.profiles import watch_sizes
from warmgraph.backend.torch_api import compile as compat
from warmgraph.backend.torch_api import operators as operator_compat
from warmgraph.backend.torch_api import patches, safety, versions
from warmgraph.backend.torch_api.changes import kernels, patterns, tables
from warmgraph.backend.torch_api.changes import registries as registered
from warmgraph.backend.torch_api.frames.dynamic_sizes import innermost_backend
from warmgraph.backend.torch_api.generated_code.extern_kernels import PLAIN, REPLACED_IMPORTS
from warmgraph.backend.torch_api.settings import inductor_options
from warmgraph.hashing import HOOKS


def parameters(function):
    return list(inspect.signature(function).parameters)


def test_this_torch_is_one_that_was_run():
    """It has all that is needed, and `versions/` has a file for it."""
    assert compat.unsupported() is None
    assert versions.untested() is None


def test_a_torch_that_is_newer_works_and_is_said_to_be_untested(monkeypatch):
    """Nothing that is needed has moved; one that is too old is refused."""
    monkeypatch.setattr(torch, "__version__", "9.1.0+cpu")
    assert compat.unsupported() is None
    assert "9.1.0" in versions.untested()
    monkeypatch.setattr(torch, "__version__", "2.10.1")
    assert "older than 2.11" in compat.unsupported()


def test_a_patch_release_that_is_newer_than_those_that_were_run_is_said_to_be_untested(monkeypatch):
    tested = versions.here().tested[-1]
    release, _, patch = tested.rpartition(".")
    monkeypatch.setattr(torch, "__version__", f"{release}.{int(patch) + 1}+cpu")
    assert tested in versions.untested()
    monkeypatch.setattr(torch, "__version__", f"{release}.0a0+git1234")
    assert versions.untested() is None


def test_a_torch_whose_version_says_nothing_works(run_python):
    """One that somebody built."""
    program = """
import torch
torch.__version__ = "main"
print(torch.compile(lambda x: x * 2, backend="warmgraph")(torch.ones(2)).tolist())
"""
    assert run_python(program) == [2.0, 2.0]


def test_each_version_that_is_known_names_the_build_that_it_was_run_on():
    for (major, minor), version in versions.KNOWN.items():
        assert all(build.startswith(f"{major}.{minor}.") for build in version.tested)
        assert version.tested


def test_the_functions_that_are_intercepted_have_the_arguments_that_are_expected():
    """Each of them, whether it is installed already or not."""
    for name, patch in patches.PATCHES.items():
        is_needed = patch.needed_for != "restored frames" or frames_unsupported() is None
        if patch.parameters is not None and is_needed:
            patches.check(name)
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
    result = aot_autograd_result.GenericAOTAutogradResult
    loads = inspect.getsource(getattr(result, "_load_and_post_compile", result.wrap_post_compile))  # since 2.12
    for used in ("compiled_fw.load", "compiled_bw.load", "compiled_fw.post_compile", "compiled_bw.post_compile"):
        assert used in loads


def test_a_compiled_graph_has_the_fields_that_are_set_on_a_load():
    """What torch's own loader sets in `after_deserialization`, and nothing more, is set in `artifact/load.py`."""
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
    from warmgraph.backend.torch_api.generated_code.extern_kernels import ExternKernels

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


def test_modes_and_options_are_checked_by_torch():
    """Unknown ones raise torch's own errors, before anything is compiled."""
    assert inductor_options("max-autotune", None)["max_autotune"] is True
    assert inductor_options(None, {"cpp.threads": 3}) == {"cpp.threads": 3}
    with pytest.raises(RuntimeError, match="no_such_option"):
        inductor_options(None, {"no_such_option": 1})
    with pytest.raises(RuntimeError, match="Unrecognized mode"):
        inductor_options("fastest", None)


def test_the_settings_that_keys_read_one_by_one_exist():
    """A number of multiprocessors or None; a profile or None; every module with settings is one that can be copied."""
    assert compat.sm_carveout() is None
    assert compat.custom_ops_profile() is None
    assert all(module.get_config_copy() for module in compat.config_modules.values())


def test_a_device_mesh_tells_what_keys_ask_of_it():
    """Its groups, its coordinate, its root and what was flattened of it."""
    mesh = torch.distributed.device_mesh.DeviceMesh
    for name in ("_get_root_mesh", "get_all_groups", "get_coordinate", "get_rank", "mesh_dim_names", "device_type"):
        assert hasattr(mesh, name)
    for name in ("_flatten_mapping", "_thread_id"):
        assert f"self.{name} = " in inspect.getsource(mesh.__init__)
    placements = torch.distributed.tensor.placement_types
    assert placements.Shard(1).dim == 1
    assert placements.Partial("max").reduce_op == "max"
    assert placements._StridedShard(0, split_factor=2).split_factor == 2


def test_dynamo_asks_about_sizes_where_profiles_listen():
    """`update_automatic_dynamic` is looked up in pgo.py at each call, with the frame, the input and its entry."""
    assert "return update_automatic_dynamic(" in inspect.getsource(pgo.process_automatic_dynamic)
    expected = ["tx", "name", "entry", "is_unspecialized_nn_module"]
    assert parameters(pgo.update_automatic_dynamic) == expected  # of the original, through functools.wraps
    watch_sizes()  # as naming the backend does
    assert "sizes" in patches.installed(), "nobody listens"
    assert "update_automatic_dynamic" not in vars(builder), "it is called by a name that is not replaced"


def test_what_dynamo_knows_of_sizes_has_the_parts_that_profiles_read():
    """A lattice element has scalar, size and stride; code is told apart by its closure; a frame knows its root."""
    fields = set(pgo.FrameStateSizeEntry.__dataclass_fields__)
    assert fields - {"excluded_sizes", "excluded_scalar"} == {"scalar", "size", "stride"}
    assert parameters(pgo.CodeId.make)[0] == "code"
    assert isinstance(pgo.get_code_state()["never compiled"].automatic_dynamic, dict)
    del pgo.get_code_state()["never compiled"]
    assert {"f_code", "f_locals", "f_globals", "closure", "distributed_state"} <= set(
        parameters(symbolic_convert.InstructionTranslatorBase.__init__)
    )
    assert {"root_tx", "compiler_fn"} <= set(parameters(output_graph.OutputGraph.__init__))
    for name in ("automatic_dynamic_shapes", "automatic_dynamic_local_pgo", "automatic_dynamic_remote_pgo"):
        assert hasattr(torch._dynamo.config, name)


def test_the_users_backend_is_found_in_its_wrappers():
    """As `torch.compile` and Dynamo wrap it: the frame's compiler is ours, or nobody's business."""
    from warmgraph.backend import warmgraph

    def other(gm, inputs):
        return gm.forward

    for backend, named in (("warmgraph", warmgraph), (other, other)):
        wrapped = torch._TorchCompileWrapper(backend, None, {"cpp.threads": 2}, None)
        debugged = torch._dynamo.repro.after_dynamo.wrap_backend_debug(wrapped, "name")
        assert innermost_backend(debugged) is named
    assert hasattr(warmgraph, "frame_profiles")


def test_torch_is_asked_what_is_unsafe():
    """Its own list stays the oracle: a graph that AOTAutograd's cache refuses is refused here."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    graph.output((graph.call_function(torch.nn.attention._cur_sdpa_kernel_backends, (x,)),))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    assert "_cur_sdpa_kernel_backends" in safety.unsafe_reason(gm, [torch.ones(1)])


def test_hooks_are_asked_for_as_aotautograd_asks():
    """The innermost pair, if both are GraphModules; nothing inside compiled autograd. Dynamo names the copies."""
    inlining = inspect.getsource(graph_compile.maybe_inline_graph_saved_tensors_hooks)
    for used in ("top_saved_tensors_hooks", "saved_tensors_hooks_are_inlineable", "in_compiled_autograd_region"):
        assert used in inlining
    # AOTAutograd calls the modules; backend/key/saved_tensors_hooks.py sees to it that their graphs are what they do.
    assert "pack_hook_gm(val)" in inlining or "prepare_hook_gm(aot_config, pack_hook_gm, (val,))" in inlining  # 2.15
    dynamo = inspect.getsource(output_graph.OutputGraph.maybe_install_saved_tensors_hooks_subgraphs)
    assert "pack_gm.graph" in dynamo  # the very graph, by which a copy is known
    for name in HOOKS:
        assert f'"{name}"' in dynamo


def test_the_code_of_a_hook_can_be_compared_with_its_graph():
    """What a GraphModule keeps of its graph's code, and how a traced container is taken apart."""
    gm = make_fx(lambda packed: packed["a"] + packed["b"][0])({"a": torch.ones(1), "b": [torch.ones(1)]})
    assert gm.graph.python_code("self").src == gm.code
    assert gm.graph._codegen._body_transformer is None
    info = gm.graph._codegen.pytree_info
    assert info._fields == ("orig_args", "in_spec", "out_spec")
    (packed,) = info.in_spec.children()
    assert (info.in_spec.type, packed.type, packed.context) == (tuple, dict, ["a", "b"])
    assert [child.type for child in packed.children()] == [None, list]


def test_tables_that_users_change_are_where_inductor_keeps_them():
    """All entries of torch's own are torch's, so that whatever is not is a user's."""
    from torch._inductor import decomposition, lowering
    from torch._inductor.pattern_matcher import PatternEntry, PatternExpr, PatternMatcherPass

    tables.import_inductor()
    assert isinstance(getattr(lowering, "user_lowerings", {}), dict)  # since 2.12
    assert registered.autotuned_operators() == []
    found = registered.inductor_tables()
    assert found["_inductor.lowering.lowerings"] is lowering.lowerings
    assert found["_inductor.decomposition.decompositions"] is decomposition.decompositions
    assert found["_inductor.lowering.needs_realized_inputs"] is lowering.needs_realized_inputs._dict
    newer = hasattr(torch._inductor.ops_handler, "register_pointwise_op")  # since 2.15
    assert len(found) == 17 + newer
    assert bool(registered.kernel_accesses()) is newer
    assert hasattr(torch._dynamo.side_effects, "_side_effect_replay_registry") is newer
    assert len(registered.base_tables()) == 5
    assert len(registered.growing_tables()) == 5
    assert {"pattern", "extra_check"} <= set(PatternEntry.__dataclass_fields__)
    assert "at 0x" not in repr(torch._inductor.pattern_matcher.CallFunction(torch.ops.aten.add, 1))
    assert isinstance(PatternMatcherPass().patterns, dict)
    assert PatternExpr is not None
    assert len(patterns._passes()) > 20


def test_a_pattern_in_the_place_of_one_that_is_gone_is_seen():
    """What was read before is not what is there now."""
    from torch._inductor.fx_passes.post_grad import pass_patterns
    from torch._inductor.pattern_matcher import CallFunction, KeywordArg, register_graph_pattern

    def put(number):
        pattern = CallFunction(torch.ops.aten.erfinv.default, KeywordArg("x"))
        register_graph_pattern(pattern, pass_dict=pass_patterns[2])(eval(f"lambda match, x: {number}"))

    where = pass_patterns[2].patterns
    before = {key: list(entries) for key, entries in where.items()}
    try:
        put(1)
        first = patterns.foreign_patterns(set())
        handlers = [value[4]["handler"](None, None) for value in first.values()]
        del first
        for key in [key for key in where if key not in before]:
            del where[key]
        put(2)
        again = [value[4]["handler"](None, None) for value in patterns.foreign_patterns(set()).values()]
    finally:
        where.clear()
        where.update(before)
    assert (handlers, again) == ([1], [2])
    assert patterns.foreign_patterns(set()) == {}


UNTOUCHED = """
import json, sys, torch
from warmgraph.backend.torch_api.changes import tables
if sys.argv[1] == "inductor":
    import torch._inductor.compile_fx, torch._functorch.vmap
    torch._functorch.vmap.lazy_load_decompositions()
    op = torch.library.custom_op("wguntouched::op", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    op.register_fake(torch.empty_like)
    torch.compile(lambda x: op(x @ x).sin().sum(), backend="inductor")(torch.ones(3, 3))
    lerp = torch.compile(lambda x, y: torch._foreach_lerp_(x, y, 0.1), backend="inductor")  # has no lowering
    lerp([torch.zeros(2), torch.zeros(3)], [torch.ones(2), torch.ones(3)])
    import pickle
    pickle.loads(pickle.dumps(torch.fx.symbolic_trace(torch.nn.ReLU())))  # FX makes functions, as in a load
digests, put_there = tables.changes()
print(json.dumps([digests, sorted(put_there), sorted(tables.kernels())]))
"""


@pytest.mark.exhaustive
def test_nothing_of_an_untouched_torch_counts_as_changed(run_python):
    """Whatever of it is imported, also by the user, and after a compile: the same digests, nothing from outside."""
    found = [run_python(UNTOUCHED, what) for what in ("dynamo", "inductor")]
    assert found[0] == found[1]
    digests, put_there, kernels = found[0]
    assert (set(digests), put_there, kernels) == ({"tables", "functions"}, [], [])


def test_versions_of_dictionaries_move_with_each_change():
    """Set, replaced, deleted; of a class's names too, behind the proxy that Python shows."""

    class Thing:
        pass

    (names,) = gc.get_referents(Thing.__dict__)
    versions = [operator_compat.dict_version(names)]
    for change in (lambda: setattr(Thing, "a", 1), lambda: setattr(Thing, "a", 2), lambda: delattr(Thing, "a")):
        change()
        versions.append(operator_compat.dict_version(names))
    assert len(set(versions)) == 4
    assert operator_compat.dict_version(names) == versions[-1]


@pytest.mark.parametrize("filled", [{1: 2}, {1: 3, 2: 4}])
def test_a_table_that_was_empty_is_read_again_once_it_is_filled(filled):
    """From Python 3.12 on its version stays what it was where `update` fills all of it."""
    table = {}
    seen = [tables._state_of([table])]
    for change in (lambda: table.update(filled), table.clear, lambda: table.update(filled)):
        change()
        seen.append(tables._state_of([table]))
    assert all(one != another for one, another in itertools.pairwise(seen))


def test_what_torch_keeps_of_a_custom_operator_is_where_it_is_read():
    """Its functions, its casts under autocast, its effect, its rules by class."""

    @torch.library.custom_op("wgcompat::op", mutates_args=())
    def op(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    kept = vars(operator_compat.OPDEFS["wgcompat::op"])
    functions = {"_abstract_fn", "_backward_fn", "_setup_context_fn", "_vmap_fn", "_torch_dispatch_fns"}
    assert functions <= set(kept)
    assert any(name.startswith("_autocast") for name in kept)
    entry = operator_compat.simple_registry.singleton.find("wgcompat::op")
    assert entry.effect.effect is None
    assert entry.torch_dispatch_rules._data == {}
    assert getattr(entry, "symm_mem_args", None) is None or entry.symm_mem_args._symm_mem_args is None  # since 2.13
    assert kernels.library_kernels("wgcompat::op") == {"CompositeExplicitAutograd", "Meta", "Autograd"}


def test_donated_buffers_are_named_by_position_in_the_runtime_metadata():
    """`donated_buffers.py` takes them out there, and that is where torch's refusal of `retain_graph` looks."""
    assert "bw_donated_idxs" in schemas.ViewAndMutationMeta.__dataclass_fields__
    assert "fw_metadata.bw_donated_idxs != []" in inspect.getsource(runtime_wrappers)
    assert compat.graph_is_kept() in (True, False)


def test_a_variable_that_forces_a_setting_can_be_made_a_default():
    """`backend/torch_api/capture.py` does so with the two that switch torch's caches off."""
    for module, name in (
        (compat.inductor_config, "fx_graph_cache"),
        (compat.functorch_config, "enable_autograd_cache"),
    ):
        entry = module._config[name]
        assert entry.env_value_force is compat.UNSET
        assert hasattr(entry, "env_value_default")


def test_torchs_structured_trace_takes_an_artifact_from_outside_a_compile():
    """Both functions are called only if somebody listens; without `expect_trace_id` a stack would be written."""
    names = parameters(compat.trace_structured)
    assert names[:2] == ["name", "metadata_fn"]
    assert {"payload_fn", "expect_trace_id"} <= set(names)


def test_what_is_listened_to_and_asked_of_cuda_graphs_is_there():
    """`backend/cudagraphs/`; the messages themselves are read in `test_skips.py`."""
    trees, manager = cudagraph_trees, cudagraph_trees.CUDAGraphTreeManager
    assert parameters(output_code.CompiledFxGraph.post_compile) == [
        "self",
        "example_inputs",
        "constants",
        "graph_kwargs",
    ]
    assert parameters(output_code.maybe_handle_backward_generation) == ["compiled_graph", "boxed_forward_device_index"]
    assert parameters(trees.get_manager) == ["device_index", "create_if_none_exists"]
    assert parameters(trees.log_cudagraph_skip_and_bump_counter) == ["msg"]
    assert hasattr(manager, "_get_cuda_graph_recorded_tensor_checker")
    for name in ("ids_to_funcs", "id_to_mode", "current_node"):
        assert f"self.{name}" in inspect.getsource(manager.__init__)
    for node in (trees.CUDAGraphNode, trees.CUDAWarmupNode):
        assert hasattr(node, "all_outputs_are_dead")
    fields = set(cudagraph_utils.WrappedFunction.__dataclass_fields__)
    assert {"placeholders", "static_input_idxs", "mutated_input_idxs"} <= fields
    assert {"name", "mutating_use_stack_trace"} <= set(cudagraph_utils.PlaceholderInfo.__dataclass_fields__)
    for name in ("cudagraph_info", "disabled_cudagraphs_reason", "partition_maps", "device_types", "device_idxs"):
        assert name in output_code.CompiledFxGraph.__dataclass_fields__


def test_what_warmgraph_run_takes_over_is_what_torch_compile_makes():
    """`torch.compile` looks these two up by name, in torch's own namespace, and Dynamo calls what is replaced."""
    source = inspect.getsource(torch.compile)
    assert "backend = _TorchCompileInductorWrapper(mode, options, dynamic" in source
    assert "backend = _TorchCompileWrapper(backend, mode, options, dynamic" in source
    inductor = torch._TorchCompileInductorWrapper
    called = list(inspect.signature(inductor.__call__).parameters)
    assert [name for name in called if name != "config_patches"] == ["self", "model_", "inputs_"]  # not in 2.11
    assert inductor(None, {"cpp.threads": 2}, None).config == {"cpp.threads": 2}
    assert not hasattr(inductor, "frame_profiles")
    assert torch._functorch.config.bundled_autograd_cache is False
    assert torch._dynamo.config.caching_precompile is False


def test_graphs_without_inductor_are_made_as_torchs_own_backend_makes_them():
    """What `warmgraph_cudagraphs` calls: AOTAutograd's entry, the trees' entry, torch's rules on what is recorded."""
    from torch._dynamo.backends import common, cudagraphs
    from torch._inductor import cudagraph_trees, cudagraph_utils
    from torch._inductor import utils as inductor_utils
    from warmgraph.backend.torch_api import cudagraph_trees as cudagraph_compat

    theirs = inspect.getsource(cudagraphs.cudagraphs)
    for said in ("cudagraphify_impl(", "stack_traces=", "placeholders=", "mutated_input_idxs=", "is_backward="):
        assert said in theirs
    assert "keep_inference_input_mutations=" in theirs
    assert "SerializableAOTDispatchCompiler" in inspect.getsource(common.AotAutograd.__call__)
    assert parameters(cudagraph_trees.cudagraphify_impl)[:3] == ["model", "inputs", "static_input_idxs"]
    named = parameters(cudagraph_trees.cudagraphify)
    assert {"device_index", "is_inference", "constants", "compile_id", "mutated_input_idxs"} <= set(named)
    assert parameters(cudagraph_trees.get_manager) == ["device_index", "create_if_none_exists"]
    for name in ("count_tangents", "get_first_incompatible_cudagraph_node"):
        assert callable(getattr(inductor_utils, name))
    assert callable(cudagraph_utils.get_placeholder_info)
    methods = ("prepare_for_serialization", "post_compile", "set_triton_bundle")
    assert all(hasattr(cudagraph_compat.OutputCode, method) for method in methods)
    assert isinstance(cudagraph_compat.keeps_input_mutations(), bool)
    assert isinstance(cudagraph_compat.supports_input_mutations(), bool)


@pytest.mark.skipif(versions.at_hand() < (2, 15), reason="torch.compile has a name for a region since 2.15")
def test_a_name_of_a_region_is_no_part_of_the_key(run_python):
    """It is for logs: it reaches the backend, which takes it, and says nothing of the result."""
    program = """
import torch, warmgraph
for name in ("first", "second"):
    torch._dynamo.reset()
    torch.compile(lambda x: x * 2, backend="warmgraph", name=name)(torch.ones(2))
    warmgraph.flush()
print([warmgraph.stats()["misses"], warmgraph.stats()["hits"]])
"""
    assert run_python(program) == [1, 1]
