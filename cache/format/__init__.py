"""Entries as bytes: codec, blobs, signatures and keys to sign with."""
