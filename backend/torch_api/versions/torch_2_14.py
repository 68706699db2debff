"""torch 2.14: what it has otherwise. Read and run on 2.14.1."""

from __future__ import annotations

from .base import Version

# Settings that later versions have and keys leave out.
LACKS = frozenset({"inductor.compile_worker_mode"})

PRISTINE: dict[str, dict[str, str]] = {
    "2.14.1": {
        "_functorch.aot_autograd.aot_autograd_decompositions": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.codegen.common.pointwise_overrides_data": "044c9c364a6d412afce14d5d85d03404",
        "_inductor.codegen.cpp_utils.DTYPE_TO_CPP": "31ac123fca70edf040b8520401481565",
        "_inductor.codegen.custom_extern_kernel_codegen.CUSTOM_EXTERN_KERNEL_CODEGEN": (
            "6f51d172f1100b4385f8fd928221995e"
        ),
        "_inductor.constant_folding._dont_constant_fold": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.decomposition.decompositions": "fffaf9f38440e03f61423780f7a1208d",
        "_inductor.fx_passes.post_grad.noop_registry": "9304772d6f83eb8339c0679912ef8f7f",
        "_inductor.fx_passes.reinplace.META_ONLY_OPS": "1ca5811b88a762d6101b90c847e07ced",
        "_inductor.fx_passes.reinplace.inplaceable_foreach_ops": "4bc4a0d987ee3c7578cb2843a04ee2ba",
        "_inductor.fx_passes.reinplace.inplaceable_ops": "35c3e41bccc35aeb5d0906b745721fb8",
        "_inductor.ir.REDUCTION_COMBINE_FN": "f3792a684cafa9574043394ff8278d8a",
        "_inductor.lowering._maybe_layout_constraints": "0771fe3b78c26b7dda8ec04e68abceaa",
        "_inductor.lowering.foreach_ops": "cd8aaf42cdafa410c8a80a341c87a8ea",
        "_inductor.lowering.inplace_foreach_ops": "65f08fee74f4c6b6124fedb2d577d9f3",
        "_inductor.lowering.inplaceable_foreach_ops": "e5989f82b8866a9e24ac5825243dc844",
        "_inductor.lowering.lowerings": "771c4ee6cd6f51ac23ad099c93f6b36b",
        "_inductor.lowering.needs_realized_inputs": "4e0d7f1ad00fd79fd5fa6f07655d90ff",
    },
}

VERSION = Version(tested=("2.14.1",), lacks=LACKS, pristine=PRISTINE)
