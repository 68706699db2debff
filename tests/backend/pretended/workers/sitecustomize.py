"""For Inductor's compile workers, which are processes of their own: they see the pretended GPU, too."""

import ctypes
import os
import sys

if any("compile_worker" in argument for argument in sys.orig_argv):
    library = os.environ["PRETENDED_GPU"]
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    import gpu

    gpu.pretend(0, library)
