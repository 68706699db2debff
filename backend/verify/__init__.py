"""Hits compared with a compile of their own."""
