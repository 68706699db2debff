"""The two compilers behind the engine: Inductor, and AOTAutograd's graphs in CUDA graphs."""
