"""A folder as a store: entries, locks, eviction, verification."""
