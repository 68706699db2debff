"""torch 2.13: what it has otherwise. Read and run on 2.13.0."""

from __future__ import annotations

from .base import Version

# Settings that later versions have and keys leave out.
LACKS = frozenset({"inductor.compile_worker_watchdog_interval_seconds", "inductor.compile_worker_mode"})

PRISTINE: dict[str, dict[str, str]] = {
    "2.13.0": {
        "_functorch.aot_autograd.aot_autograd_decompositions": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.codegen.common.pointwise_overrides_data": "ae2fe5d427ff3402fd971bc9d0718216",
        "_inductor.codegen.cpp_utils.DTYPE_TO_CPP": "bc1cee8a16142819f7491143694add50",
        "_inductor.codegen.custom_extern_kernel_codegen.CUSTOM_EXTERN_KERNEL_CODEGEN": (
            "6f51d172f1100b4385f8fd928221995e"
        ),
        "_inductor.constant_folding._dont_constant_fold": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.decomposition.decompositions": "8f0e54b60618f573cad290fea04f1eae",
        "_inductor.fx_passes.post_grad.noop_registry": "9c617ab5e91338c41292857455c43618",
        "_inductor.fx_passes.reinplace.META_ONLY_OPS": "1ca5811b88a762d6101b90c847e07ced",
        "_inductor.fx_passes.reinplace.inplaceable_foreach_ops": "4bc4a0d987ee3c7578cb2843a04ee2ba",
        "_inductor.fx_passes.reinplace.inplaceable_ops": "d964b368ef8f2dc5b81ed6fc382bc631",
        "_inductor.ir.REDUCTION_COMBINE_FN": "22a44d0e370f93c36f40f2f2bb06d4d7",
        "_inductor.lowering._maybe_layout_constraints": "ce77abdd30b29b5ec555c453e4ed031e",
        "_inductor.lowering.foreach_ops": "cd8aaf42cdafa410c8a80a341c87a8ea",
        "_inductor.lowering.inplace_foreach_ops": "65f08fee74f4c6b6124fedb2d577d9f3",
        "_inductor.lowering.inplaceable_foreach_ops": "e5989f82b8866a9e24ac5825243dc844",
        "_inductor.lowering.lowerings": "3e3d595388fbbb43dce9becc8dda0e44",
        "_inductor.lowering.needs_realized_inputs": "4e0d7f1ad00fd79fd5fa6f07655d90ff",
    },
}

VERSION = Version(tested=("2.13.0",), lacks=LACKS, pristine=PRISTINE)
