"""What every request passes before anything of it is read: address, origin, crowd, rate, size and token.

It wraps the whole application, so that no route can forget it: refusals come before the body is received, the body is
counted while it arrives, and every answer leaves with the same security headers. An error inside becomes one sentence
for the client and a traceback in the log.
"""

import asyncio
import logging
import time
from http import HTTPMethod

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from subspan.serve.access import Access, is_write
from subspan.serve.bodies import RefusedError, error_response
from subspan.serve.metrics import Metrics
from subspan.serve.rate import RateLimit
from subspan.serve.settings import ServeSettings

log = logging.getLogger("subspan.serve")

SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, settings: ServeSettings, access: Access, metrics: Metrics) -> None:
        self.app, self.settings, self.access, self.metrics = app, settings, access, metrics
        self.limit = RateLimit(settings.rate, settings.burst)
        self.requests = 0  # at work
        self.bytes = 0  # of their bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, body = time.perf_counter(), 0, Body(self, receive)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message).update(SECURITY_HEADERS)
            await send(message)

        self.requests += 1
        try:
            self._admit(scope)
            await self.app(scope, body.receive, answer)
        except RefusedError as error:
            await error_response(error.status_code, error.detail, error.headers)(scope, receive, answer)
        except Exception:
            log.exception("%s %r failed", scope["method"], scope["path"])
            if status:
                raise
            sentence = "something went wrong inside the service; its log says what"
            await error_response(500, sentence)(scope, receive, answer)
        finally:
            self.requests -= 1
            self.bytes -= body.bytes
            method = scope["method"] if scope["method"] in HTTPMethod.__members__ else "other"
            route = getattr(scope.get("route"), "path", "other")
            self.metrics.answered(method, route, status, time.perf_counter() - began)

    def _admit(self, scope: Scope) -> None:
        """Raise what speaks against a request, judged by its first lines."""
        headers, method, path = Headers(scope=scope), scope["method"], scope["path"]
        host, origin, limits = headers.get("host", ""), headers.get("origin"), self.settings
        if not self.access.allows_host(host):
            raise RefusedError(421, "this service answers on loopback only, under the names of this machine")
        if origin is not None and origin.partition("://")[2].lower() != host.lower():
            raise RefusedError(403, "requests from pages of other sites are not answered")
        if wait := self.limit.wait(client_of(scope)):
            raise RefusedError(429, f"too many requests; come back in {wait} s", wait)
        if self.requests > limits.max_requests:
            raise RefusedError(429, f"{limits.max_requests} requests are at work already; come back in 1 s", 1)
        token = scope["token"] = self.access.token(headers.get("authorization", ""))
        if token is None and self.access.needs_token(method, path):
            raise RefusedError(401, "this needs the token that the service was started with")
        if is_write(method, path) and limits.read_only:
            raise RefusedError(403, "this service answers questions only: nothing is added or undone here")
        if is_write(method, path) and token is not None and not token.teaches:
            raise RefusedError(403, "this token answers questions only: nothing is added or undone with it")
        length = headers.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length[:20]) > limits.max_body_bytes:
            raise self.too_large()

    def too_large(self) -> RefusedError:
        return RefusedError(413, f"a request has at most {self.settings.max_body_bytes} bytes")


def client_of(scope: Scope) -> str:
    """By which the limits of one client count: its address."""
    return scope["client"][0] if scope.get("client") else "unknown"


class Body:
    """The body of one request, counted and timed while it arrives."""

    def __init__(self, guard: Guard, receive: Receive) -> None:
        self.guard, self._receive = guard, receive
        self.bytes, self._whole = 0, False
        self._deadline = time.monotonic() + guard.settings.upload_seconds

    async def receive(self) -> Message:
        if self._whole:
            return await self._receive()
        limits = self.guard.settings
        try:
            message = await asyncio.wait_for(self._receive(), max(0.0, self._deadline - time.monotonic()))
        except TimeoutError:
            raise RefusedError(408, f"the request took over {limits.upload_seconds:g} s to arrive") from None
        self._whole = not message.get("more_body", False)
        count = len(message.get("body", b""))
        self.bytes += count
        self.guard.bytes += count
        if self.bytes > limits.max_body_bytes:
            raise self.guard.too_large()
        if self.guard.bytes > 4 * limits.max_body_bytes:
            raise RefusedError(429, "too many uploads at once; come back in 1 s", 1)
        return message
