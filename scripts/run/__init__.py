"""`warmgraph run`: a program as it is, with the cache."""
