"""Profile-guided dynamic sizes: which frames met which sizes, learnt and shared."""
