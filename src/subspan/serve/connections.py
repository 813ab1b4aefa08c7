"""The connections under the service: how many there are, and how long one may hold its place without moving.

uvicorn does not limit connections, does not time the head of a request, and waits for ever for a client that reads
nothing. Here whoever owes us something has a clock; where too many came, the one whose clock runs out first makes room.
"""

import asyncio
import socket
import sys
from functools import partial
from typing import Any

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from subspan.serve.log import log_config
from subspan.serve.settings import ServeSettings

RESERVED = 64  # file handles for the store, the network, uploads and what else a process needs
BACKLOG = 256  # connections that the system holds until they are accepted


class Listener(socket.socket):
    """A listening socket that accepts nothing while more than ``most`` of its connections are open.

    One more is accepted, so that it can make another one go; without an end to accepting, a burst would take all file
    handles before the first of them is given back.
    """

    def __init__(self, settings: ServeSettings) -> None:
        host, port = settings.host, settings.port
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            plain = socket.create_server((host, port), family=family, backlog=BACKLOG)
        except OSError as error:
            raise OSError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
        super().__init__(plain.family, plain.type, plain.proto, plain.detach())
        self.most = most_connections(settings)
        self._open: set[socket.socket] = set()

    def accept(self) -> tuple[socket.socket, Any]:
        if len(self._open) > self.most:
            self._open = {one for one in self._open if one.fileno() != -1}
            if len(self._open) > self.most:
                raise BlockingIOError  # asyncio comes again in its next turn
        connection, address = super().accept()
        self._open.add(connection)
        return connection, address


class Connection(H11Protocol):
    """One connection, with a clock while it is the client's turn."""

    def __init__(self, limits: ServeSettings, most: int, **given: Any) -> None:
        super().__init__(**given)
        self._limits, self._most = limits, most
        self._seconds: float | None = None  # of the clock
        self._clock: asyncio.TimerHandle | None = None

    def _seconds_owed(self) -> float | None:
        """How long the client may take for what comes next; None while we are at work."""
        if self.cycle is not None and not self.cycle.response_complete:
            return self._limits.upload_seconds if self.flow.write_paused else None
        # Whoever is refused before all was sent may send the rest, so that clients that look up only then see why.
        return self._limits.head_seconds if self.conn.their_state is h11.IDLE else self._limits.upload_seconds

    def _set_clock(self, seconds: float | None) -> None:
        if seconds == self._seconds:
            return  # it runs on, whatever trickles in
        if self._clock is not None:
            self._clock.cancel()
        self._seconds = seconds
        self._clock = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._set_clock(self._seconds_owed())
        # Two turns later: by then whatever came along with the connections before this one has been read.
        self.loop.call_soon(self.loop.call_soon, self._make_room)

    def _make_room(self) -> None:
        """Where too many came, close the one whose clock runs out first; this one where all others are at work."""
        if len(self.connections) > self._most:
            others: Any = self.connections
            waiting = [one for one in others if one._clock is not None]
            min(waiting, key=lambda one: one._clock.when(), default=self).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_clock(self._seconds_owed())

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._set_clock(None)
        self._set_clock(self._seconds_owed())

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_clock(self._seconds_owed())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_clock(self._seconds_owed())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._set_clock(None)


def most_connections(settings: ServeSettings) -> int:
    """As many as the settings say, or as the file handles of this process carry."""
    if sys.platform == "win32":
        return settings.max_connections
    import resource

    handles, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if handles == resource.RLIM_INFINITY:
        return settings.max_connections
    return min(settings.max_connections, max(1, handles - RESERVED))


def uvicorn_config(app: FastAPI, settings: ServeSettings) -> uvicorn.Config:
    """For a server that is to run on a `Listener`."""
    http: Any = partial(Connection, settings, most_connections(settings))
    return uvicorn.Config(
        app,
        loop="asyncio",  # others accept by themselves, past the `Listener`
        http=http,
        ws="none",
        log_config=log_config(),
        log_level="info" if settings.access_log else "warning",
        access_log=settings.access_log,
        proxy_headers=settings.behind_proxy,
        server_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=30,
    )
