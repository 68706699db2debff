"""The hardware that code was generated for. A graph that only uses a GPU does not depend on the CPU."""

from __future__ import annotations

import functools
import os
import platform
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from ..encoding.devices import device_text, for_current_device, is_current
from ..encoding.encode import Uncacheable

# Flags that the kernel makes up or that no compiler can use: mitigations, timers, topology, virtualisation.
# Everything else stays in, known or not: Inductor builds with -march=native.
_NOT_INSTRUCTIONS = frozenset(
    """
    acpi amd_lbr_v2 aperfmperf apic arat arch_capabilities arch_perfmon art avic bts bus_lock_detect cat_l2 cat_l3
    cdp_l3 cmp_legacy constant_tsc cpb cpuid cpuid_fault cqm cqm_llc cqm_mbm_local cqm_mbm_total cqm_occup_llc
    cr8_legacy de debug_swap decodeassists ds_cpl dtes64 dtherm dts epb ept ept_ad est extapic extd_apicid
    flexpriority flush_l1d flushbyasid ht hwp hwp_act_window hwp_epp hwp_notify hwp_pkg_req hypervisor ibpb
    ibpb_brtype ibpb_exit_to_user ibrs ibrs_enhanced ibs ibt ida invpcid_single irperf la57 lam lbrv mba mca mce
    md_clear monitor msr mtrr mwaitx nonstop_tsc nopl npt nrip_save nx ospke osvw overflow_recov pae pat
    pausefilter pbe pcid pdcm perfctr_core perfctr_llc perfctr_nb perfmon_v2 pfthreshold pge pku pln pni_ pse
    pse36 pti pts rapl rdt_a rep_good retpoline rrsba_ctrl rsb_ctxsw sev sev_es sev_snp skinit smap smca sme smep
    split_lock_detect ss ssbd stibp stibp_always_on succor svm svm_lock tm tm2 topoext tpr_shadow tsc tsc_adjust
    tsc_deadline_timer tsc_known_freq tsc_reliable tsc_scale tsxldtrk umip user_shstk v_spec_ctrl v_vmsave_vmload
    vgif vmcb_clean vme vmmcall vmx vnmi vpid wdt x2apic x2avic xtopology xtpr
    """.split()
)


# Triton's own list of what changes a kernel (its cache key has them), as far as code is concerned; and the
# interpreter. Read anew each time: a program may set them after torch was imported. Not the paths of ptxas and
# libdevice, which torch itself sets, on its first compile, to files of its own.
_TRITON_ENVIRONMENT = """
    AMDGCN_USE_BUFFER_OPS DISABLE_FAST_REDUCTION DISABLE_LLVM_OPT DISABLE_MMA_V3 DISABLE_MMA_V5 DISABLE_PTXAS_OPT
    LLVM_PASS_PLUGIN_PATH TRITON_DEFAULT_FP_FUSION TRITON_ENABLE_ASAN TRITON_F32_DEFAULT TRITON_INTERPRET
    TRITON_OVERRIDE_ARCH TRITON_USE_META_WS
""".split()


def machine(devices: Iterable[torch.device]) -> dict[str, Any]:
    """Name -> plain value for the devices that a graph uses. Raises Uncacheable for hardware it cannot describe."""
    devices = set(devices)
    types = {device.type for device in devices}
    if unknown := types - {"cpu", "cuda", "meta"}:
        raise Uncacheable(f"code for {', '.join(sorted(unknown))}: nothing in the key would say which hardware it fits")
    # Generated code names device indices; a factory without one means the current device.
    facts: dict[str, Any] = {"devices": sorted(set(map(device_text, devices)))}
    if types - {"cpu"} and torch.accelerator.is_available():
        anywhere = for_current_device() and all(d.index is None or is_current(d) for d in devices if d.type != "cpu")
        facts["current_device"] = "any" if anywhere else torch.accelerator.current_device_index()
    if "cpu" in types:
        facts["cpu"] = cpu()
    if "cuda" in types:
        indices = {torch.cuda.current_device() if d.index is None else d.index for d in devices if d.type == "cuda"}
        facts["gpus"] = [gpu(index) for index in sorted(indices)]
        facts["driver"] = driver()
        facts["triton"] = {name: os.environ[name] for name in _TRITON_ENVIRONMENT if name in os.environ}
    return facts


def named_devices(facts: Mapping[str, Any]) -> str:
    """The accelerators of `machine`'s facts that code is for, with their indices; empty for none, or for any."""
    current = facts.get("current_device", "any")
    if current == "any":
        return ""
    found = (device if ":" in device else f"{device}:{current}" for device in facts["devices"])
    return ", ".join(sorted({device for device in found if not device.startswith(("cpu", "meta"))}))


@functools.cache
def cpu() -> dict[str, Any]:
    """Architecture, instruction sets, and what torch was told to make of them."""
    return {
        "architecture": platform.machine(),
        "flags": cpu_flags(),
        "capability": torch.backends.cpu.get_cpu_capability(),
        "capability_override": os.environ.get("ATEN_CPU_CAPABILITY"),
        "onednn_override": os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA")),
    }


def cpu_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> list[str]:
    """The instruction-set flags of the first CPU, sorted; its model's name where there are no flags."""
    try:
        text = cpuinfo.read_text()
    except OSError:
        return [platform.processor()]
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    if found is None:
        return [platform.processor()]
    return sorted(set(found.group(1).split()) - _NOT_INSTRUCTIONS)


@functools.cache
def gpu(index: int) -> dict[str, Any]:
    """What generated GPU code is specialised on."""
    properties = torch.cuda.get_device_properties(index)
    return {
        "name": properties.name,
        "architecture": getattr(properties, "gcnArchName", None),  # AMD's features, as they are switched on
        "capability": [properties.major, properties.minor],
        "multiprocessors": properties.multi_processor_count,
    }


@functools.cache
def driver(path: Path = Path("/proc/driver/nvidia/version")) -> str | None:
    """The NVIDIA driver's version, or None where none is seen."""
    try:
        found = re.search(r"\b\d+\.\d+(?:\.\d+)?\b", path.read_text())
    except OSError:
        return None
    return found.group(0) if found else None
