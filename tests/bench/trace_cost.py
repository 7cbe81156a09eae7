"""What recording a trace costs of an acquire: `tests/run bench`.

The two kinds of acquire take turns, so that whatever else the machine does meanwhile falls on both alike. The
median of many tells the cost; what is promised is less than a twentieth.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import redis
import tenure
from engines.servers import redis_server
from redis.backoff import NoBackoff
from redis.retry import Retry

ROUNDS = 4000


def acquire_us(store: tenure.Store, name: str) -> float:
    began = time.perf_counter_ns()
    lease = store.acquire(name, 30)
    took = time.perf_counter_ns() - began
    lease.release()
    return took / 1000


def main() -> None:
    with redis_server("redis86") as server, tempfile.TemporaryDirectory() as folder:
        client = redis.Redis(port=server.port, socket_timeout=2, socket_connect_timeout=2, retry=Retry(NoBackoff(), 0))
        plain, traced = tenure.redis(client), tenure.redis(client, trace=Path(folder) / "trace")
        with plain, traced:
            took: dict[str, list[float]] = {"plain": [], "traced": []}
            for number in range(ROUNDS + 200):
                for how, store in (("plain", plain), ("traced", traced)):
                    spent = acquire_us(store, how)
                    if number >= 200:
                        took[how].append(spent)
    without, with_trace = statistics.median(took["plain"]), statistics.median(took["traced"])
    cost = with_trace / without - 1
    print(f"measured: an acquire on Redis 8.6 takes {without:.1f} us, {with_trace:.1f} us with a trace: {cost:+.1%}")


if __name__ == "__main__":
    main()
