"""What each reason means and what to do about it, in words. Decides nothing; `cache.Reason` has the list."""

from __future__ import annotations

from collections.abc import Sequence

from warmgraph.cache import ONE_DEVICE, Reason

# reason -> (what happened, what to do).
REASONS: dict[str, tuple[str, str]] = {
    Reason.ABSENT.value: ("nothing was stored under this key", ""),
    Reason.GUARDS.value: (
        "results of this graph are there, and the shape guards of none hold for these inputs",
        "compile once for all sizes: torch.compile(dynamic=True), or torch._dynamo.mark_dynamic(x, dim, min=, max=)",
    ),
    Reason.INCOMPLETE.value: (
        "an entry was there, but not all of its blobs",
        "blobs were evicted: give it more room (WARMGRAPH_MAX_SIZE; maxmemory of the server)",
    ),
    Reason.CORRUPT.value: (
        "an entry was there, and its bytes were not what was written",
        "it was set aside and compiled anew; `warmgraph verify` reads all others, and the disk or network is suspect",
    ),
    Reason.UNTRUSTED.value: (
        "an entry was there, signed with no key that this process knows",
        "give all hosts one key file (WARMGRAPH_SIGNING_KEY_FILE); `warmgraph config` lists the keys known here",
    ),
    Reason.LOAD_FAILED.value: (
        "an entry was there and whole, and still did not load",
        "it was set aside and compiled anew; if it happens again, please report it with the detail",
    ),
    Reason.REFRESH.value: (
        "mode=refresh: nothing was looked up, on purpose",
        "set WARMGRAPH_MODE=readwrite once everything is published",
    ),
    Reason.UNREADABLE.value: (
        "the store could not be read, so nobody knows whether it was there",
        "see the detail; `warmgraph ping` asks the server, `warmgraph config` says which store is meant",
    ),
    Reason.UNWRITABLE.value: ("the store could not be written", "see the detail"),
    Reason.UNHASHABLE.value: (
        "the graph holds something without a stable identity, so it has no key",
        "the detail names it; define functions and classes at module level, pass tensors as inputs",
    ),
    Reason.WRAPPED_CALL.value: (
        "a torch.fx.wrap call whose behaviour nothing identifies",
        "set node.meta['user_cache_hash'] to a text that changes whenever the function does",
    ),
    Reason.CONSTANT_TOO_LARGE.value: (
        "a constant too large to hash is baked into the graph",
        "pass it as an input, or register it as a buffer",
    ),
    Reason.UNSAFE_OP.value: (
        "the graph calls what neither torch's key nor ours describes",
        "the detail names it; make it a torch.library.custom_op, or call it outside the compiled function",
    ),
    Reason.FREEZING.value: (
        "Inductor's freezing, where no weights are left to make its constants of",
        "the detail says why",
    ),
    Reason.CACHES_DISABLED.value: (
        "caches are switched off",
        "unset TORCHINDUCTOR_FORCE_DISABLE_CACHES, or WARMGRAPH_MODE=off",
    ),
    Reason.UNSUPPORTED_TORCH.value: (
        "this torch is not as warmgraph needs it",
        "upgrade warmgraph, or use a torch that docs/versions.md lists",
    ),
    Reason.UNSUPPORTED_MODE.value: (
        "a setting of torch under which results cannot be kept",
        "the detail names it",
    ),
    Reason.NOT_SERIALISABLE.value: (
        "it was compiled, and its result cannot be stored",
        "the detail says what is in the way",
    ),
    Reason.DIFFERS.value: (
        "a hit was compared with a fresh compile, and their results differ: it was set aside",
        "results of that process may be wrong; please report it with the detail and `warmgraph show --graph`",
    ),
    Reason.NOT_COMPARABLE.value: (
        "a hit was to be compared with a fresh compile, and could not be",
        "the detail says why; the hit itself was used",
    ),
    Reason.INTERNAL.value: (
        "warmgraph failed; the graph was compiled normally",
        "please report it with the detail; WARMGRAPH_STRICT=1 raises it where it happens",
    ),
    Reason.FRAME_CHANGED.value: (
        "the frame was traced once before, and something that the trace relied on is not as it was",
        "the detail names it; it was traced again, and recorded beside the others",
    ),
    Reason.NOT_RESTORABLE.value: (
        "the frame was traced, and will be in each process: something of it cannot be carried to another",
        "the detail names it; docs/frames.md says what is restored (its compiled graphs are cached all the same)",
    ),
    Reason.SKIP_CPU.value: (
        "without CUDA graphs: it works on the CPU, wholly or in part",
        "move the tensor that the detail names to the GPU (device=...), or set graph_partition=True to record the rest",
    ),
    Reason.SKIP_DEVICES.value: (
        "without CUDA graphs: it works on several devices, or on one that has none",
        "keep each compiled function on one GPU",
    ),
    Reason.SKIP_OP.value: (
        "without CUDA graphs: an operation cannot be recorded",
        "move it out of the compiled function, or set graph_partition=True to record what is around it",
    ),
    Reason.SKIP_MUTATION.value: (
        "without CUDA graphs: it writes to an input whose memory CUDA graphs do not manage",
        "return the new value instead of writing to the input, or make it a buffer, "
        "or torch._dynamo.mark_static_address(x) if it stays where it is",
    ),
    Reason.SKIP_DYNAMIC.value: (
        "without CUDA graphs: its sizes are symbolic",
        "torch.compile(dynamic=False), or unset cudagraph_skip_dynamic_graphs to record once per size",
    ),
    Reason.SKIP_RERECORDED.value: (
        "without CUDA graphs from now on: it was recorded too often, as its static inputs move from call to call",
        "do not replace parameters or buffers between calls (copy into them); "
        "cudagraph_unexpected_rerecord_limit is the bound",
    ),
    Reason.SKIP_DISABLED.value: (
        "without CUDA graphs: switched off",
        "the detail names the setting, the annotation or the policy",
    ),
    Reason.SKIP_OTHER.value: (
        "without CUDA graphs, for a reason that only torch names",
        "see the detail; TORCH_LOGS=cudagraphs says more",
    ),
}

# part -> what to do when it is what differs.
ADVICE: dict[str, str] = {
    "graph": "the code that was traced is another one: edited, another branch taken, or another constant captured",
    "inputs": "call it with inputs of the same kind, dtype, layout and flags on every run",
    "sizes": "compile once for all sizes: torch.compile(dynamic=True), or torch._dynamo.mark_dynamic(x, dim)",
    "weights": "code with frozen weights is made for what they hold: it hits with the same weights; without freezing "
    "(torch._inductor.config.freezing) it does with any",
    "devices": "another device, or another index: ranks that see several GPUs compile for each; give each rank one "
    "(torchrun --virtual-local-rank), or set TORCH_COMPILE_ON_ONE_RANK=1 (torch 2.15), and they share",
    "symbols": "which sizes are dynamic, and their ranges, must be the same on every run",
    "hooks": "saved-tensors hooks are another code than before",
    "compiler": "compile with the same mode, options and Inductor settings on every run and rank",
    "ambient": "set grad mode, autocast, precision and the number of threads (OMP_NUM_THREADS) alike everywhere",
    "code": "the source of an operator, kernel or function in the graph is another one",
    "toolchain": "after an upgrade each graph is compiled once; use one image on all hosts to share results",
    "machine": "hosts of another kind compile for themselves; ATEN_CPU_CAPABILITY and the GPU are part of it",
}


def meaning(reason: str | None) -> str:
    return REASONS.get(reason or "", (reason or "no reason was given", ""))[0]


def advice_for(reason: str | None) -> str | None:
    return REASONS.get(reason or "", ("", ""))[1] or None


def advice_about(parts: Sequence[str], names: Sequence[str], detail: str | None = None) -> str | None:
    """What to do about the first part that differs. names: of what differs in it, if that is known. detail: the miss's.

    Code for another device differs from the nearest in the graph or the inputs, and in the machine.
    """
    first = next((part for part in parts if part in ADVICE), None)
    if (detail or "").startswith(ONE_DEVICE) and (not parts or "machine" in parts):
        first = "devices"
    elif first == "inputs" and any(name.endswith((" size", " stride")) for name in names):
        first = "sizes"
    elif first == "inputs" and names and all(name.endswith(" holds") for name in names):
        first = "weights"
    elif first == "inputs" and any(name.endswith(" device") for name in names):
        first = "devices"
    return None if first is None else ADVICE[first]
