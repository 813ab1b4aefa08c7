"""The connections under the service: how many there are, and how long one may hold its place without moving.

uvicorn does not limit connections, does not time the head of a request, and waits for ever for a client that reads
nothing. Here whoever owes us something has so many seconds; where too many came, the one who has least left makes room.
"""

import math
import socket
import sys
from copy import deepcopy
from functools import partial
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.config import LOGGING_CONFIG
from uvicorn.protocols.http.h11_impl import H11Protocol

from subspan.serve.rate import Thinned
from subspan.serve.settings import ServeSettings

RESERVED = 64  # file handles for the store, the network, uploads, connections about to go and what else there is
BACKLOG = 256  # connections that the system holds until they are accepted
AT_ONCE = 4  # that are accepted in one turn of the event loop: a burst must not take all handles at once


class Connection(H11Protocol):
    """One connection, and since when it is the client's turn."""

    def __init__(self, limits: ServeSettings, most: int, **given: Any) -> None:
        super().__init__(**given)
        self._limits, self._most = limits, most
        self._state: Any = None
        self._since = 0.0

    def deadline(self) -> float:
        """Until when the client must move, as far as was seen; for ever while we are at work."""
        seconds = self._seconds_owed()
        if self._state != (self.cycle, seconds):  # else the time runs on, whatever trickles in
            self._state, self._since = (self.cycle, seconds), self.loop.time()
        return self._since + seconds

    def _seconds_owed(self) -> float:
        if self.cycle is not None and not self.cycle.response_complete:
            return self._limits.upload_seconds if self.flow.write_paused else math.inf
        # Whoever is refused before all was sent may send the rest, so that clients that look up only then see why.
        return self._limits.head_seconds if self.conn.their_state is h11.IDLE else self._limits.upload_seconds

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.deadline()
        # Two turns later: by then whatever came along with the connections before this one has been read.
        self.loop.call_soon(self.loop.call_soon, self._make_room)

    def _make_room(self) -> None:
        """Where too many came, close the one who has least time left; this one where all others are at work."""
        held: list[Any] = [one for one in self.connections if not one.transport.is_closing()]
        if len(held) > self._most:
            first = min(held, key=Connection.deadline)
            (first if math.isfinite(first.deadline()) else self).transport.abort()


class Server(uvicorn.Server):
    """A service on a socket of `listen`."""

    def __init__(self, app: FastAPI, settings: ServeSettings) -> None:
        logs = deepcopy(LOGGING_CONFIG)  # only the access log, for whoever asks for it, is written whole
        logs["filters"] = {"thinned": {"()": Thinned}}
        logs["handlers"]["default"]["filters"] = ["thinned"]
        logs["root"] = {"handlers": ["default"], "level": "WARNING"}
        http: Any = partial(Connection, settings, most_connections(settings))
        super().__init__(
            uvicorn.Config(
                app,
                loop="asyncio",
                http=http,
                ws="none",
                log_config=logs,
                log_level="info" if settings.access_log else "warning",
                access_log=settings.access_log,
                proxy_headers=settings.behind_proxy,
                server_header=False,
                backlog=AT_ONCE,
                timeout_graceful_shutdown=30,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # for asyncio both numbers are one

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: close the connections whose time is over."""
        connections: Any = list(self.server_state.connections)
        for one in connections:
            if one.deadline() <= one.loop.time():
                one.transport.abort()
        return await super().on_tick(counter)


def listen(settings: ServeSettings) -> socket.socket:
    """A socket that listens where the settings say."""
    host, port = settings.host, settings.port
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise OSError(f"cannot listen on {host}, port {port}: {error.strerror}") from error


def most_connections(settings: ServeSettings) -> int:
    """As many as the settings say, or as the file handles of this process carry."""
    if sys.platform == "win32":
        return settings.max_connections
    import resource

    handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    carried = math.inf if handles == resource.RLIM_INFINITY else max(1, handles - RESERVED)
    return int(min(settings.max_connections, carried))
