"""`warmgraph explain`, `diff` and `lint`: why a graph missed, and what will."""
