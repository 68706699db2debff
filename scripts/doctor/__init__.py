"""`warmgraph doctor`: is everything here as the cache needs it?"""
