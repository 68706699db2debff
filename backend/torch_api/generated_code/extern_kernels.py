"""Stands in for modules that generated code imports for one name each, at a cost of half a second.

`torch._inductor.select_algorithm` pulls in every lowering; generated code wants its `extern_kernels`
namespace, whose usual members are plain torch functions. Any other name loads the real module.
"""

from __future__ import annotations

from typing import Any

import torch

# name in Inductor's `extern_kernels` -> the function it is there (compared with the real one by a test).
PLAIN = {
    "mm": torch.mm,
    "addmm": torch.addmm,
    "bmm": torch.bmm,
    "baddbmm": torch.baddbmm,
    "_int_mm": torch._int_mm,
    "convolution": torch.convolution,
    "mm_dtype": torch.mm,
    "bmm_dtype": torch.bmm,
    "_scaled_mm": torch._scaled_mm,
}


class ExternKernels:
    """Inductor's `extern_kernels`, importing Inductor only for what is not a plain torch function."""

    def __getattr__(self, name: str) -> Any:
        found = PLAIN.get(name)
        if found is None:
            # The kernels' own modules register themselves there when they are imported.
            from torch._inductor.select_algorithm import extern_kernels as real

            found = getattr(real, name)
        setattr(self, name, found)
        return found


extern_kernels = ExternKernels()


# Lines of generated code and what they are replaced with on a hit. A line that is not found (another
# torch) stays, and costs the import it always did.
REPLACED_IMPORTS = (
    (
        "from torch._inductor.select_algorithm import extern_kernels\n",
        f"from {__name__} import extern_kernels\n",
    ),
    (
        "from torch._inductor.codegen.memory_planning import _align as align\n",
        "from torch._inductor.utils import _align as align\n",
    ),
)
