"""Leases on the store you already have: *who may act now?*

    import redis, tenure

    store = tenure.redis(redis.Redis())
    with store.lease("billing-run", ttl=30) as lease:
        charge(fence=lease.fence)

A lease is an exclusive right over a name that ends by itself if its holder dies.
"""

from ._core import __version__
from ._dynamodb import dynamodb
from ._durations import Duration
from ._errors import (
    Busy,
    ConfigError,
    Lost,
    OutcomeUnknown,
    StoreError,
    TenureError,
    TenureWarning,
)
from ._lease import Lease
from ._local import memory
from ._observations import Observation, Observations
from ._redis import redis
from ._sqlite import sqlite
from ._status import Status
from ._store import Scope, Store, StoreOptions

__all__ = [
    "Busy",
    "ConfigError",
    "Duration",
    "Lease",
    "Lost",
    "Observation",
    "Observations",
    "OutcomeUnknown",
    "Scope",
    "Status",
    "Store",
    "StoreError",
    "StoreOptions",
    "TenureError",
    "TenureWarning",
    "__version__",
    "dynamodb",
    "memory",
    "redis",
    "sqlite",
]
