"""The command line `warmgraph ...`: what is in the store and what happened. Starts without torch."""

from .cli import main

__all__ = ["main"]
