"""How often one client may come: a bucket of permissions that fills up again steadily."""

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

CLIENTS = 10_000  # remembered at once; whoever came longest ago is forgotten first


class RateLimit:
    """One bucket per client, all with the same rate and size.

    >>> now = [0.0]
    >>> limit = RateLimit(rate=2, burst=3, clock=lambda: now[0])
    >>> [limit.wait("10.0.0.1") for _ in range(4)]
    [0, 0, 0, 1]
    >>> now[0] = 0.5
    >>> limit.wait("10.0.0.1"), limit.wait("10.0.0.1"), limit.wait("10.0.0.2")
    (0, 1, 0)
    """

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self.clock = rate, burst, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client: how full, when

    def wait(self, client: str) -> int:
        """0 where the client may go on, which costs it one permission; else whole seconds until it may."""
        client, now = _network(client), self.clock()
        full, then = self._buckets.pop(client, (float(self.burst), now))
        full = min(self.burst, full + (now - then) * self.rate)
        allowed = full >= 1
        self._buckets[client] = (full - allowed, now)
        if len(self._buckets) > CLIENTS:
            self._buckets.popitem(last=False)
        return 0 if allowed else max(1, math.ceil((1 - full) / self.rate))


def _network(client: str) -> str:
    """One household has a whole /64 of IPv6 addresses: it counts as one client."""
    try:
        address = ipaddress.ip_address(client)
    except ValueError:
        return client
    if address.version == 6:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return client
