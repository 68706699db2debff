"""`warmgraph demo`: a model compiled once and loaded in fresh processes."""
