"""Where entries are kept: memory, a folder, Redis; and a circuit breaker around any of them."""
