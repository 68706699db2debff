"""torch 2.12: what it has otherwise. Read and run on 2.12.1."""

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
    "2.12.1": {
        "_functorch.aot_autograd.aot_autograd_decompositions": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.codegen.common.pointwise_overrides_data": "dd94802f4845a48c651fe80ae7fec6d9",
        "_inductor.codegen.cpp_utils.DTYPE_TO_CPP": "bc1cee8a16142819f7491143694add50",
        "_inductor.codegen.custom_extern_kernel_codegen.CUSTOM_EXTERN_KERNEL_CODEGEN": (
            "6f51d172f1100b4385f8fd928221995e"
        ),
        "_inductor.constant_folding._dont_constant_fold": "e3b0c44298fc1c149afbf4c8996fb924",
        "_inductor.decomposition.decompositions": "97a1fceb0ea22535b94f98c33b3ff3c7",
        "_inductor.fx_passes.post_grad.noop_registry": "df10de42a20464ebcabf7460dbaad59e",
        "_inductor.fx_passes.reinplace.META_ONLY_OPS": "1ca5811b88a762d6101b90c847e07ced",
        "_inductor.fx_passes.reinplace.inplaceable_foreach_ops": "89ee61b73b5663e232f2da1d2d07169f",
        "_inductor.fx_passes.reinplace.inplaceable_ops": "372c0e8c7d9f87677d679b2cd4fcedd1",
        "_inductor.ir.REDUCTION_COMBINE_FN": "5a9430217b60657117f7b3df0c91bf69",
        "_inductor.lowering._maybe_layout_constraints": "821da3686e13ed193384d41b3b358353",
        "_inductor.lowering.foreach_ops": "cd8aaf42cdafa410c8a80a341c87a8ea",
        "_inductor.lowering.inplace_foreach_ops": "65f08fee74f4c6b6124fedb2d577d9f3",
        "_inductor.lowering.inplaceable_foreach_ops": "e5989f82b8866a9e24ac5825243dc844",
        "_inductor.lowering.lowerings": "0fe77204c2d4b64fd16d99fa873b6e04",
        "_inductor.lowering.needs_realized_inputs": "96797f8ec037f75f14edca222a773079",
    },
}

# Text and names are asked for by `BuiltinVariable` alone, and a class's attributes through sources of their own.
WITHOUT = frozenset(
    {"text of objects", "text of values", "names by getattr", "names by hasattr", "attributes on classes"}
)

VERSION = Version(tested=("2.12.1",), lacks=LACKS, pristine=PRISTINE, without=WITHOUT)
