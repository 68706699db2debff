"""Entries carried between stores: bundles in files, and copies."""
