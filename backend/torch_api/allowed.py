"""What stored results are made of: classes by module, for `unpickle`. Names alone; nothing here is imported.

Found by walking the pickles of a hundred kinds of graph, and for the GPU one of an autotuner whose kernels Triton had
compiled for an H100 on a machine without one. Read on torch 2.11.0, 2.12.0 and 2.13.0; a name that only some have is
harmless on the others. A real result that needs a name more fails to load as `NotAllowed`, which says the name; before
adding it, see that making a bare instance and setting its attributes (or its `__setstate__`) runs nothing.
"""

from __future__ import annotations

_AOT = "torch._functorch._aot_autograd."
_RUNTIME = "torch._inductor.runtime."

# Classes whose instances are attributes alone. Not: `CompiledAOTI`, which loads a library; `TritonCompileResult`,
# which builds its kernel's metadata as a new class. `*`: every dataclass of the module.
DATA = {
    f"{__package__}.generated_code.wrapper_module": "Payload",
    # AOTAutograd's result
    f"{_AOT}aot_autograd_result": (
        "BundledAOTAutogradResult BundledCompiledForward BundledCompiledBackward SerializedGraphModule"
    ),
    f"{_AOT}schemas": (
        "AOTConfig CacheableAOTConfig InputAliasInfo MemoryFormatMeta MutationType OpaqueMeta OutputAliasInfo "
        "OutputType PlainTensorMeta SubclassCreationMeta SubclassMeta ViewAndMutationMeta"
    ),
    f"{_AOT}descriptors": "*",
    f"{_AOT}functional_utils": "MetadataKey ViewMetaSequence",
    f"{_AOT}runtime_wrappers": "AOTDedupeWrapper AOTSyntheticBaseWrapper",
    "torch.fx.experimental.symbolic_shapes": "SymIntEqByExpr",
    # Inductor's compiled graph
    "torch._inductor.output_code": "CompiledFxGraph",
    "torch._inductor.metrics": "CachedMetricsDeltas",
    "torch._inductor.cudagraph_utils": "BoxedDeviceIndex CudagraphCachedInfo PlaceholderInfo",
    "torch._inductor.utils": "BoxedBool GraphPartitionMap",
    # GPU kernels with their chosen configurations. Each autotuner notes in which compile it was made.
    "torch._guards": "CompileId",
    "torch._inductor.triton_bundler": (
        "StaticallyLaunchedAutotuner TritonBundle TritonKernelArtifact TritonKernelArtifacts"
    ),
    f"{_RUNTIME}triton_heuristics": (
        "BenchmarkFailureReason CachingAutotuner InductorConfig StaticTritonCompileResult _ConstRepr"
    ),
    f"{_RUNTIME}static_triton_launcher": "StaticallyLaunchedCudaKernel StaticallyLaunchedXpuKernel",
    f"{_RUNTIME}hints": "AutotuneHint DeviceProperties HeuristicType ReductionHint TileHint",
    f"{_RUNTIME}coordinate_descent_tuner": "CoordescTuner",
    f"{_RUNTIME}autotune_cache": "AutotuneCache LocalAutotuneCache _LocalAutotuneCacheBackend",
    "torch._inductor.remote_cache": "LocalAutotuneCache LocalCacheBackend RemoteCacheJsonSerde",
    "torch.compiler._cache": "CacheArtifactRecorder",
    "triton.language.core": "dtype",
    "triton.runtime.autotuner": "Config",
    "triton.runtime.jit": "JITFunction KernelParam",
    "inspect": "_ParameterKind",
    # what DTensor's metadata holds
    "torch.distributed.tensor._dtensor_spec": "DTensorSpec ShardOrderEntry TensorMeta",
    "torch.distributed.tensor.placement_types": "Partial Replicate Shard _StridedShard",
}

# Classes that are referred to, not made.
LENT = {
    "torch": "Tensor SymInt SymFloat SymBool",
    "torch.nn.parameter": "Parameter Buffer",
    "torch._subclasses.functional_tensor": "FunctionalTensor",
    "torch._subclasses.fake_tensor": "FakeTensor",  # the type of an output that no tensor went into
    "torch._library.fake_class_registry": "FakeScriptObject",
    "torch.fx.experimental.proxy_tensor": "PythonKeyTracer",
    "torch.distributed._functional_collectives": "AsyncCollectiveTensor",
    "torch.distributed.tensor": "DTensor",
    "builtins": "bool bytes complex dict float frozenset int list range set slice str tuple",
    "inspect": "_empty",
    "triton.language.core": "constexpr tensor",
}

# Beginnings of modules whose classes (their functions parse text, and run it) serve compiling only: symbolic sizes,
# and the sources of inputs.
LEFT_OUT = ("sympy.", "torch.utils._sympy.functions", "torch.utils._sympy.numbers", "torch._dynamo.source")


# Methods that an autotuner keeps, and whose they are.
METHODS = {"save": f"{_RUNTIME}autotune_cache.AutotuneCache", "create_binder": "triton.runtime.jit.JITFunction"}

# How an output is a view of an input: records in C++, a class for each operator.
VIEWS = "torch._C._functionalization"
ENDS_OF_VIEWS = ("_ViewMeta", "InverseReturnMode")

# Functions that are called, each in a version that checks its arguments.
TENSORS = (("torch._utils", "_rebuild_tensor_v2"), ("torch._utils", "_rebuild_tensor_v3"))
LAYOUT = ("torch.serialization", "_get_layout")
STORAGE = ("torch.storage", "_load_from_bytes")
ORDERED_SET = ("torch.utils._ordered_set", "OrderedSet")
