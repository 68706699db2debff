"""Digests of functions and classes by their code and all that it reaches."""
