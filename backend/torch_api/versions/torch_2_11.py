"""torch 2.11: what it has otherwise. Read and run on 2.11.0."""

from __future__ import annotations

from .base import Version

# Settings that later versions have and keys leave out.
LACKS = frozenset(
    {
        "inductor.compile_worker_wait_timeout",
        "inductor.compile_worker_watchdog_interval_seconds",
        "inductor.compile_worker_mode",
    }
)

PRISTINE: dict[str, dict[str, str]] = {
    "2.11.0": {
        "_functorch.aot_autograd.aot_autograd_decompositions": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.codegen.common.pointwise_overrides_data": "e6a054d4bb1e0e46a5ad713dcf1ee9ad",
        "_inductor.codegen.cpp_utils.DTYPE_TO_CPP": "bc1cee8a16142819f7491143694add50",
        "_inductor.codegen.custom_extern_kernel_codegen.CUSTOM_EXTERN_KERNEL_CODEGEN": (
            "6f51d172f1100b4385f8fd928221995e"
        ),
        "_inductor.constant_folding._dont_constant_fold": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.decomposition.decompositions": "3e045deaa71469fe3f1fefacd5d2b791",
        "_inductor.fx_passes.post_grad.noop_registry": "9e80852640c0cf095a34176adac1d489",
        "_inductor.fx_passes.reinplace.META_ONLY_OPS": "1ca5811b88a762d6101b90c847e07ced",
        "_inductor.fx_passes.reinplace.inplaceable_foreach_ops": "60cf301fa4954907d2572efac65bef7d",
        "_inductor.fx_passes.reinplace.inplaceable_ops": "372c0e8c7d9f87677d679b2cd4fcedd1",
        "_inductor.ir.REDUCTION_COMBINE_FN": "77f8c9a2576bf1d73dd552ae426af9eb",
        "_inductor.lowering._maybe_layout_constraints": "698d69f4eb5ef81370a8c0befa817e72",
        "_inductor.lowering.foreach_ops": "9d74d2d03549734146c60f542deb2701",
        "_inductor.lowering.inplace_foreach_ops": "62b04089c71ee2854ab829656cd0509c",
        "_inductor.lowering.inplaceable_foreach_ops": "df50f0125aae3e2e636c8fbd9d452058",
        "_inductor.lowering.lowerings": "723d05c508b9db104c4d9d29e17c929d",
        "_inductor.lowering.needs_realized_inputs": "9955fb7b16172f844c76af3049929e70",
    },
}

# Text and names are asked for by `BuiltinVariable` alone, and attributes of classes through sources of their own.
WITHOUT = frozenset(
    {
        "text of objects",
        "text of values",
        "names by getattr",
        "names by hasattr",
        "attributes on classes",
        "attributes on classes of objects",
    }
)

_VARIABLES = "torch._dynamo.variables"
MODULES = {f"{_VARIABLES}.{name}": f"{_VARIABLES}.dicts" for name in ("sets", "hashable")}

VERSION = Version(tested=("2.11.0",), lacks=LACKS, pristine=PRISTINE, without=WITHOUT, modules=MODULES)
