"""Frames of Dynamo's that were traced once: recorded, and restored in another process instead of traced again."""
