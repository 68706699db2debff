"""`warmgraph stats`, `ls`, `show`, `verify`, `prune` and `config`: what a store holds."""
