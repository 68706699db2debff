"""torch 2.15: what it has otherwise. Read and run on 2.15.0."""

from __future__ import annotations

from .base import Version

# "function 3 reaching the cudagraph-managed input re-recording threshold (=5)": the action "skip" on inputs that move.
SKIPS = ((r"input re-recording threshold", "skip-rerecorded"),)

PRISTINE: dict[str, dict[str, str]] = {
    "2.15.0": {
        "_functorch.aot_autograd.aot_autograd_decompositions": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.codegen.common.pointwise_overrides_data": "eced0f3dbbee3c4bd0c5642f5e0181a6",
        "_inductor.codegen.cpp_utils.DTYPE_TO_CPP": "31ac123fca70edf040b8520401481565",
        "_inductor.codegen.custom_extern_kernel_codegen.CUSTOM_EXTERN_KERNEL_CODEGEN": (
            "6f51d172f1100b4385f8fd928221995e"
        ),
        "_inductor.constant_folding._dont_constant_fold": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.decomposition.decompositions": "9616eeb27f179c4975b3476260c137a9",
        "_inductor.fx_passes.post_grad.noop_registry": "3beffd1cf37c889add32ef91847ffefd",
        "_inductor.fx_passes.reinplace.META_ONLY_OPS": "1ca5811b88a762d6101b90c847e07ced",
        "_inductor.fx_passes.reinplace.inplaceable_foreach_ops": "4bc4a0d987ee3c7578cb2843a04ee2ba",
        "_inductor.fx_passes.reinplace.inplaceable_ops": "52236ca91bf08746980e6ce77bd15b6b",
        "_inductor.ir.REDUCTION_COMBINE_FN": "18d5f3760e36122bed8cfcdc3e7daa6e",
        "_inductor.lowering._maybe_layout_constraints": "34db937e86d4ed7ab8d9a3943138833f",
        "_inductor.lowering.foreach_ops": "cd8aaf42cdafa410c8a80a341c87a8ea",
        "_inductor.lowering.inplace_foreach_ops": "65f08fee74f4c6b6124fedb2d577d9f3",
        "_inductor.lowering.inplaceable_foreach_ops": "e5989f82b8866a9e24ac5825243dc844",
        "_inductor.lowering.lowerings": "f10b8c9739fe9178596f04c4595d4c09",
        "_inductor.lowering.needs_realized_inputs": "4e0d7f1ad00fd79fd5fa6f07655d90ff",
        "_inductor.ops_handler.registered_pointwise_ops": "da36bf7369982c91cb521c37e311b77c",
        "accesses": "d728ebe67097888957179ac87f44f020",
    },
}

VERSION = Version(tested=("2.15.0",), skips=SKIPS, pristine=PRISTINE)
