"""The parts of a key, a file for each."""
