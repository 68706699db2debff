"""The audit: what the cache did, over a journal or the whole fleet's. Imports no torch.

    events = open_events(fleet=False, namespaces=(), folder=None, since=None)
    document = audit_events(events, Filters(hosts=("gpu-1",)), source=events.source)

The commands are in `command` and `top`.
"""

from .counting import Auditor, audit_events
from .document import Document, Filters, Source, StoredEntry
from .sources import Events, open_events, stored_entries
from .wording import headline, summary_lines

__all__ = [
    "Auditor",
    "Document",
    "Events",
    "Filters",
    "Source",
    "StoredEntry",
    "audit_events",
    "headline",
    "open_events",
    "stored_entries",
    "summary_lines",
]
