"""The audit as a page: rendered to a file, or served live. What is counted is `warmgraph.scripts.audit`'s matter."""

from .live import Live, has_metrics
from .rendering import render
from .server import Server, is_loopback

__all__ = ["Live", "Server", "has_metrics", "is_loopback", "render"]
