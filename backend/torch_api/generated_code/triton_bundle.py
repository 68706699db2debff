"""A compiled graph's kernels as Triton's files: what is kept of them, where a load puts them. Read on 2.11 to 2.15."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import torch
from torch._inductor.triton_bundler import TritonBundler, TritonKernelArtifact, TritonKernelArtifacts


def without_launchers(graph: Any) -> None:
    """Take out of each kernel what launches it in this process.

    torch's launcher in C++ is kept on a kernel once that was loaded, and no `__getstate__` takes it off (2.11 to 2.15):
    a graph that shares a kernel with one that came before, as layers that are alike do, would not be serialisable. The
    bundle has copies, and a kernel that is asked for its launcher again looks it up.
    """
    for one in graph._triton_bundle.static_autotuners if graph._triton_bundle else ():
        for result in one.kernel.compile_results:
            _forget_launcher(result.kernel)


def _forget_launcher(kernel: Any) -> None:
    vars(kernel).pop("C_impl", None)


def binaries_alone(graph: Any) -> None:
    """Leave of each kernel that torch launches itself what is launched: a third of the bytes, one file of eight.

    torch bundles Triton's whole folder: the kernel in four languages between Python and the GPU's, and what Triton
    knows it by. A load reads the binary alone; Triton, should it be asked for the same kernel, finds no entry of its
    own and compiles. What Triton launches (a user's kernel, say) keeps all of it.
    """
    bundle = graph._triton_bundle
    if not bundle or not bundle.kernel_artifacts:
        return
    from torch._inductor.runtime.runtime_utils import triton_hash_to_path_key  # for who compiled
    from torch._inductor.utils import GPU_KERNEL_BIN_EXTS

    endings = tuple(GPU_KERNEL_BIN_EXTS.values())
    launched = {
        triton_hash_to_path_key(result.kernel.hash)
        for one in bundle.static_autotuners
        for result in one.kernel.compile_results
    }
    kernels = []
    for kernel in bundle.kernel_artifacts:
        binary = [file for file in kernel.artifacts if file.filename.endswith(endings)]
        if binary and kernel.kernel_hash in launched:
            kernel = dataclasses.replace(kernel, artifacts=binary)
        kernels.append(kernel)
    graph._triton_bundle = dataclasses.replace(bundle, kernel_artifacts=kernels)


def with_binary(result: Any, binary: bytes) -> Any:
    """A copy of one compiled configuration of a kernel, with its binary, that serialises."""
    result = copy.copy(result)
    result.kernel = copy.copy(result.kernel)  # without what it is loaded as
    _forget_launcher(result.kernel)
    result.kernel.cubin_raw = binary
    return result


def take_configuration(graph: Any, autotuner: Any, result: Any) -> None:
    """Let one of the kernels in a graph's bundle have `result` (of `with_binary`) for its only configuration.

    Its binary goes the way of the others: torch writes files whole.
    """
    from torch._inductor.runtime.runtime_utils import triton_hash_to_path_key

    kernel, bundle = result.kernel, graph._triton_bundle
    binary, kernel.cubin_raw = kernel.cubin_raw, None
    file = TritonKernelArtifact(f"{kernel.name}{_binary_ending(result)}", binary)
    device = result.compile_meta.get("device", 0)
    added = TritonKernelArtifacts(triton_hash_to_path_key(kernel.hash), device, [file])
    graph._triton_bundle = dataclasses.replace(bundle, kernel_artifacts=[*bundle.kernel_artifacts, added])
    autotuner.compile_results = [result]


def _binary_ending(result: Any) -> str:
    from torch._inductor.utils import GPU_KERNEL_BIN_EXTS

    return str(GPU_KERNEL_BIN_EXTS["hip" if torch.version.hip else result.compile_meta["device_type"]])


def emit_triton(graph: Any) -> None:
    """Put the entry's kernels and chosen configurations where torch and Triton look for them."""
    bundle = graph._triton_bundle
    if not bundle:
        return
    if any(kernel.device is None for kernel in bundle.kernel_artifacts):
        # Of no device. torch would put them into a folder "None", and looks for them in the current device's.
        here = torch.accelerator.current_device_index()
        kernels = [dataclasses.replace(kernel, device=here) for kernel in bundle.kernel_artifacts]
        bundle = dataclasses.replace(bundle, kernel_artifacts=kernels)
    TritonBundler.read_and_emit(bundle)
