"""The shared tier: entries, blobs and leases on a Redis or Valkey server. Importing this imports no redis.

url = parse_url("rediss://user:password@cache:6379/0")
store = RedisStore(url, namespace="default", ttl=1e6)
leases = RedisLeases(store.clients, namespace="default")
"""

from ...config.redis_urls import RemoteUrl, parse_url
from .chunks import CorruptBlob
from .client import Client, Clients
from .inspect import RemoteUsage, advice
from .lease import RedisLease, RedisLeases
from .presence import Presence
from .store import RedisStore
from .stream import EventStream, StreamTail, events_lost
from .ttl_refresh import told_every

__all__ = [
    "Client",
    "Clients",
    "CorruptBlob",
    "EventStream",
    "Presence",
    "RedisLease",
    "RedisLeases",
    "RedisStore",
    "RemoteUrl",
    "RemoteUsage",
    "StreamTail",
    "advice",
    "events_lost",
    "parse_url",
    "told_every",
]
