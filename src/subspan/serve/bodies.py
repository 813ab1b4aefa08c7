"""What a request that writes may hold: the one kind of body that its route declares, and in it only keys that it knows.

A key that nobody reads is a guard that nobody keeps: with ``versoin``, whatever is last would be undone.
"""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from subspan.serve.access import is_write
from subspan.serve.errors import RefusedError


class StrictBody(BaseModel):
    """A body without unknown keys."""

    model_config = ConfigDict(extra="forbid")


class UndoBody(StrictBody):
    """What the client takes for the last session."""

    version: str = Field(description="The current version as the client knows it; another one: 409.")


class OneBodyRoute(APIRoute):
    """A route that refuses a write whose body is not of the declared kind, or that says anything beside its body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()

        async def checked(request: Request) -> Response:
            if is_write(request.method, self.path):
                await self._check(request)
            return await answer(request)

        return checked

    async def _check(self, request: Request) -> None:
        for key in request.query_params:
            raise RefusedError(422, f"{key}: this belongs into the body, not into the address")
        declared = getattr(self.body_field and self.body_field.field_info, "media_type", None)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        has_body = request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers
        if kind != declared and (kind or has_body):
            raise RefusedError(415, f"the body must be of content type {declared}; got {kind or 'none'}")
        if kind == "application/json" and (await request.body()).strip() in (b"", b"null"):
            raise RefusedError(422, "the body must be a JSON object; leave its content type out to send none")
