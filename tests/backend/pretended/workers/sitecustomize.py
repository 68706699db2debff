"""For Inductor's compile workers, which are processes of their own: they see the pretended GPU, too."""

import ctypes
import os
import sys

if any("compile_worker" in argument for argument in sys.orig_argv):
    ctypes.CDLL(os.environ["PRETENDED_GPU"], mode=ctypes.RTLD_GLOBAL)
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import gpu

    gpu.pretend(0)
