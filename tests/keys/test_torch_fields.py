"""What torch's own keys are made of, field by field: each is one of ours, or a written equivalence.

The fields are read off live objects of a real compile. A torch that adds one fails here.
"""

from __future__ import annotations

import dataclasses
import uuid

import pytest
import torch
from torch._functorch._aot_autograd import autograd_cache, schemas
from torch._inductor import codecache, compile_fx
from torch._subclasses.fake_tensor import TensorMetadata
from warmgraph.backend.key.compiler_settings import settings_in_force
from warmgraph.backend.torch_api import versions

from .fields import GRAPH
from .input_fields import HOOKS, INPUTS, SYMBOLS
from .state_fields import AMBIENT, COMPILER, CPU, GPU, MACHINE, TOOLCHAIN

# The parts, and in them the lines or fields, by which a difference in torch's field reaches our key.
DETAILS: dict[str, str] = {
    "gm": "graph: *; inputs: metadata of a lifted attribute",
    "example_inputs": "inputs: *",
    "aot_config": "AOTConfig, below",
    "fx_kwargs": "_CompileFxKwargs, below",
    "grad_enabled": "ambient: grad_mode",
    "autocast_state": "ambient: autocast.cpu, autocast.cuda",
    "deterministic_algorithms": "ambient: deterministic",
    "deterministic_algorithms_settings": "ambient: deterministic, deterministic_warn_only, fill_uninitialized_memory",
    "default_dtype": "ambient: default_dtype",
    "cuda_matmul_settings": "ambient: matmul.fp32_precision, matmul.fp16_reduced, matmul.bf16_reduced",
    "cpp_runtime_thread_count": "ambient: threads",
    "default_cuda_device_index": "machine: current_device",  # only where an accelerator is
    "system_info": "machine: gpus; toolchain: cuda, hip, triton",
    "torch_version": "toolchain: torch, torch_files",
    "cache_key_tag": "compiler: compiler.cache_key_tag",
    "provenance_tracking_level": "compiler: inductor.trace.provenance_tracking_level",
    "inductor_config": "compiler: inductor.max_autotune",
    "inductor_config_comms": "compiler: comms.reorder_iterative_unsafe_collectives_reorder",
    "autograd_config": "compiler: functorch.cse",
    "post_grad_custom_pre_pass": "compiler: inductor.post_grad_custom_pre_pass",
    "post_grad_custom_post_pass": "compiler: inductor.post_grad_custom_post_pass",
    "joint_custom_pre_pass": "compiler: inductor.joint_custom_pre_pass",
    "joint_custom_post_pass": "compiler: inductor.joint_custom_post_pass",
    "pre_grad_custom_pass": "compiler: inductor.pre_grad_custom_pass",
    "_pre_fusion_custom_pass": "compiler: inductor._pre_fusion_custom_pass",
    "_post_fusion_custom_pass": "compiler: inductor._post_fusion_custom_pass",
    "_fuse_ddp_communication_passes": "compiler: inductor._fuse_ddp_communication_passes",
    "_custom_partitioner_fn": "compiler: inductor.custom_partitioner_fn",
    "custom_backend_passes": "equivalent: read from the same table (`_registered`), by the pass's uuid",
    "custom_backend_codegen_configs": "equivalent: read from the same table, and refused",
    "custom_estimator_solver_uuids": (
        "compiler: functorch.activation_memory_budget_runtime_estimator, functorch.activation_memory_budget_solver"
    ),
    "cudagraph_override": "graph: annotation of CUDA graphs",
    "cudagraph_annotation": "graph: annotation of CUDA graphs, annotation of CUDA graphs in the backward",
    "region_activation_memory_budget": "graph: annotation of a call",
    "sac_context_fn_hashes": "graph: checkpoint policy's hash",
    "saved_tensors_hooks_fx_wrap_cache_hashes": "hooks: user's hash of a wrapped call",
    "user_defined_triton_source": "graph: what a kernel's index stands for",
    "triton_kernel_source_codes": "equivalent: part `code`, by the operator that the kernels belong to",
    "var_to_hint_override": "symbols: hint override",
    "precompile_enabled": "equivalent: bundled results, which ours always are",
}

# Fields that only some versions have: from the first to the last one.
_NEVER = (99, 0)
SOME: dict[str, tuple[tuple[int, int], tuple[int, int], str]] = {
    "inputs_to_check": ((2, 11), (2, 12), "inputs: offset, static input"),  # whose alignment is checked at run time
    "disable_amp": ((2, 11), (2, 12), "ambient: autocast.cpu, autocast.cuda"),
    "compile_on_one_rank": ((2, 14), _NEVER, "compiler: compiler.compile_on_one_rank"),
    "provenance_tracking_to_timeline": ((2, 14), _NEVER, "compiler: inductor.trace.provenance_tracking_to_timeline"),
    "act_input_paths": ((2, 14), _NEVER, "inputs: subclass, subclass or not"),  # where results of collectives come in
    "nested_inductor_config_patches": ((2, 14), _NEVER, "equivalent: a nested graph with such a note is refused"),
    "region_activation_memory_budget_annotations": ((2, 15), _NEVER, "graph: annotation of a call"),
    "custom_backend_codegen_implications": ((2, 15), _NEVER, "equivalent: of devices whose settings are refused"),
}
DETAILS |= {name: ours for name, (first, last, ours) in SOME.items() if first <= versions.at_hand() <= last}

AOT_CONFIG: dict[str, str] = {
    "num_params_buffers": "inputs: metadata of a lifted attribute",
    "keep_inference_input_mutations": "equivalent: a constant of `compile_fx`, fixed by torch's files",
    "is_export": "equivalent: never, in a backend of Dynamo",
    "export_trace_joint": "equivalent: never, in a backend of Dynamo",
    "pre_dispatch": "equivalent: never, outside export",
    "no_tangents": "equivalent: never, in a backend of Dynamo",
    "dynamic_shapes": "symbols: source",
    "aot_autograd_arg_pos_to_source": "equivalent: for guards on inputs, which are kept by position",
    "static_input_indices": "inputs: static input, Parameter",
    "enable_log": "equivalent: says whether to log",
    "precompile_backend_id": "equivalent: names an artifact of torch's precompile, which is not used here",
    "aot_id": "equivalent: a running number, for logs",
    "cache_info": "equivalent: torch's own key",
    "fw_compiler": "compiler: backend",
    "bw_compiler": "compiler: backend",
    "inference_compiler": "compiler: backend",
    "partition_fn": "compiler: inductor.custom_partitioner_fn",
    "decompositions": "equivalent: part `code`, which has every rule that is not torch's own",
    "ignore_shape_env": "equivalent: only standalone compiles set it",
    "force_non_lazy_backward_lowering": "equivalent: always, so that one artifact holds both",
    "disable_functionalization": "compiler: functorch._test_disable_functionalization",
    "_disable_torch_fn_metadata_mode": "equivalent: a constant of `compile_fx`, fixed by torch's files",
}

FX_KWARGS: dict[str, str] = {
    "cudagraphs": "compiler: inductor.triton.cudagraphs",
    "boxed_forward_device_index": "equivalent: a box that the forward fills for the backward",
    "static_input_idxs": "inputs: static input, Parameter, metadata of a lifted attribute",
    "is_backward": "equivalent: one entry holds both",
    "is_inference": "ambient: grad_mode",
    "graph_id": "equivalent: a running number",
    "cpp_wrapper": "compiler: inductor.cpp_wrapper",
    "fx_wrapper": "compiler: inductor.fx_wrapper",
    "aot_mode": "equivalent: never, in a backend of Dynamo",
    "layout_opt": "compiler: inductor.layout_optimization",
    "extern_node_serializer": "equivalent: only ahead-of-time compiles have one",
    "get_decomp_fn": "equivalent: part `code`, which has every rule that is not torch's own",
}

TENSOR: dict[str, str] = {
    "dtype": "inputs: dtype",
    "shape": "inputs: size, number of dimensions",
    "stride": "inputs: stride",
    "device": "inputs: device",
    "layout": "equivalent: only strided tensors are cached",
    "memory_format": "inputs: stride",
    "storage_offset": "inputs: offset",
    "storage_bytes": "inputs: size of a shared storage, size of a storage that is resized",
    "requires_grad": "inputs: requires_grad",
    "is_quantized": "equivalent: quantized tensors are not cached",
    "is_conj": "inputs: conjugate bit",
    "is_neg": "inputs: negative bit",
    "is_inference": "inputs: inference tensor",
    "is_sparse": "equivalent: only strided tensors are cached",
    "is_coalesced": "equivalent: only strided tensors are cached",
    "dense_dim": "equivalent: only strided tensors are cached",
    "sparse_dim": "equivalent: only strided tensors are cached",
}


@pytest.fixture(scope="module")
def seen(inductor_cache):
    """Live details of a real compile by Inductor: AOTAutograd's, and those of the graph that it hands on."""
    found = []
    patch = pytest.MonkeyPatch()
    patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(inductor_cache))
    for kind in (autograd_cache.AOTAutogradCacheDetails, codecache.FxGraphHashDetails):

        def init(self, *args, original=kind.__init__, **kwargs):
            original(self, *args, **kwargs)
            found.append(self)

        patch.setattr(kind, "__init__", init)
    torch._dynamo.reset()
    with torch.compiler.config.patch(cache_key_tag=uuid.uuid4().hex):  # no other process has compiled it
        torch.compile(lambda x: x.sin() + 1)(torch.ones(3))
    patch.undo()
    torch._dynamo.reset()
    return found


def told(mapped: dict[str, str], there: set[str]) -> set[str]:
    """What torch has and the map does not."""
    return there - mapped.keys()


def test_every_field_of_torchs_keys_is_mapped(seen):
    """AOTAutograd's and Inductor's, as they stand on live objects."""
    kinds = {type(details).__name__ for details in seen}
    assert kinds == {"AOTAutogradCacheDetails", "FxGraphHashDetails"}
    assert told(DETAILS, {name for details in seen for name in vars(details)}) == set()


def test_a_field_that_a_new_torch_adds_is_not_passed_over(seen):
    """The check above can fail."""
    names = {name for details in seen for name in vars(details)} | {"brand_new"}
    assert told(DETAILS, names) == {"brand_new"}


def test_every_field_of_a_compiles_settings_is_mapped(seen):
    """AOTAutograd's configuration, and the keywords that Inductor is called with."""
    configs = [details.aot_config for details in seen if hasattr(details, "aot_config")]
    assert configs
    assert told(AOT_CONFIG, {field.name for config in configs for field in dataclasses.fields(config)}) == set()
    cacheable = getattr(schemas, "CacheableAOTConfig", None)  # since 2.13
    assert told(AOT_CONFIG, {field.name for field in dataclasses.fields(cacheable)} if cacheable else set()) == set()
    keywords = {name for details in seen for name in details.fx_kwargs}
    assert "is_backward" in keywords
    assert told(FX_KWARGS, keywords | compile_fx._CompileFxKwargs.__annotations__.keys()) == set()


def test_every_field_of_an_inputs_metadata_is_mapped():
    """What torch takes of a tensor for its key."""
    assert {field.name for field in dataclasses.fields(TensorMetadata)} == set(TENSOR)


LISTED = {
    **{part: {field.name for field in fields} for part, fields in (("graph", GRAPH), ("inputs", INPUTS))},
    **{part: {field.name for field in fields} for part, fields in (("symbols", SYMBOLS), ("hooks", HOOKS))},
    "ambient": set(AMBIENT),
    "toolchain": set(TOOLCHAIN),
    "machine": {*MACHINE, *CPU, *GPU},
}


@pytest.mark.parametrize(
    ("name", "ours"), [pair for mapped in (DETAILS, AOT_CONFIG, FX_KWARGS, TENSOR) for pair in mapped.items()]
)
def test_what_a_field_is_mapped_to_is_on_the_list_of_fields(name, ours):
    """Which tries it; or says why torch's field is none."""
    if ours.endswith(", below"):
        return
    for entry in ours.split("; "):
        part, _, wanted = entry.partition(": ")
        if part == "equivalent":
            assert len(wanted) > 10
            continue
        listed = {*settings_in_force(), *COMPILER} if part == "compiler" else LISTED[part]
        assert wanted == "*" or set(wanted.split(", ")) <= listed
