"""`warmgraph push`, `pull`, `export`, `import`, `ping` and `keygen`."""
