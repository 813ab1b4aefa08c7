"""How much may come: requests and pixels of one client, and lines of one kind in the log, which nobody can fill."""

import ipaddress
import logging
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable

LINES, LINES_A_SECOND = 10, 1 / 60  # of one kind at once, and in the long run
CLIENTS = 10_000  # remembered at once; whoever came longest ago is forgotten first


class RateLimit:
    """Each client has so many permissions at once, which come back at a steady rate.

    >>> now = [0.0]
    >>> limit = RateLimit(rate=2, burst=3, clock=lambda: now[0])
    >>> [limit.wait("10.0.0.1") for _ in range(4)]
    [0, 0, 0, 1]
    >>> now[0] = 0.5
    >>> limit.wait("10.0.0.1"), limit.wait("10.0.0.1"), limit.wait("10.0.0.2", cost=3), limit.wait("10.0.0.2", cost=3)
    (0, 1, 0, 2)
    """

    def __init__(self, rate: float, burst: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate, self.burst, self.clock = rate, burst, clock
        self._full: OrderedDict[str, float] = OrderedDict()  # when a client has all permissions again

    def wait(self, client: str, cost: float = 1) -> int:
        """0 where the client may go on, which costs it so many permissions; else whole seconds until it may."""
        client, now = _network(client), self.clock()
        full = max(self._full.pop(client, now), now)
        wait = math.ceil(full - now - (self.burst - cost) / self.rate - 1e-6)  # but for rounding
        self._full[client] = full if wait > 0 else full + cost / self.rate
        if len(self._full) > CLIENTS:
            self._full.popitem(last=False)
        return max(0, wait)


class Thinned(logging.Filter):
    """At most so many lines from one place of the code; the next one says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._limit, self._left_out = RateLimit(LINES_A_SECOND, LINES, clock), Counter[str]()

    def filter(self, record: logging.LogRecord) -> bool:
        place = f"{record.pathname}:{record.lineno}"
        if self._limit.wait(place):
            self._left_out[place] += 1
            return False
        if count := self._left_out.pop(place, 0):
            record.msg, record.args = f"{record.getMessage()} (and {count} more of this kind, left out)", ()
        return True


def _network(client: str) -> str:
    """One household has a whole /64 of IPv6 addresses: it counts as one client."""
    try:
        return str(ipaddress.ip_network((client, 64), strict=False)) if ":" in client else client
    except ValueError:
        return client
