"""A lookup over several stores: nearest first, one compile at a time, quarantine of what is damaged."""
