"""A compiled result as bytes and back, without a compiler and without trust in what a pickle names."""
