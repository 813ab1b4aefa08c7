"""What requests may hold and what is answered, beside the records of the catalogue.

A request that writes holds the one kind of body that its route declares, and in it only keys that it knows. A key that
nobody reads is a guard that nobody keeps: with ``versoin``, whatever is last would be undone.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from fastapi import HTTPException, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field

from subspan.catalogue.records import Candidate, ClassEntry, SessionEntry
from subspan.serve.access import is_write

# Refusals


@dataclass(frozen=True)
class ErrorAnswer:
    """Why a request was refused, in one sentence."""

    error: str


class RefusedError(HTTPException):
    """A request that is not served: a status and one sentence."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        super().__init__(status, sentence, headers)


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers)


# Requests


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


# Answers


@dataclass(frozen=True)
class ImageAnswer:
    """What one image shows."""

    name: str | None  # the best class; null: none of these
    candidates: tuple[Candidate, ...]  # best first


@dataclass(frozen=True)
class PredictAnswer:
    """What the images of a request show, in their order."""

    version: str  # that answered
    predictions: tuple[ImageAnswer, ...]


@dataclass(frozen=True)
class AboutAnswer:
    """What a client must know of the service before it asks for anything else."""

    catalogue: str
    subspan: str
    read_only: bool
    max_images: int
    max_image_bytes: int
    max_pixels: int


@dataclass(frozen=True)
class ClassesAnswer:
    classes: tuple[ClassEntry, ...]


@dataclass(frozen=True)
class SessionsAnswer:
    """Sessions, oldest first; the version of the last one is current."""

    sessions: tuple[SessionEntry, ...]


@dataclass(frozen=True)
class Stage:
    """How far the session at work has come."""

    name: str  # the class
    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class ProgressAnswer:
    """The class that is being added, if there is one, and how many wait for their turn."""

    adding: Stage | None
    teaching: Stage | None  # the same under its name in version 0.1, until 0.4
    waiting: int


@dataclass(frozen=True)
class HealthAnswer:
    status: Literal["ok", "stale"]  # stale: the store cannot be read now
    version: str  # of the catalogue
    classes: int
    store_error: str | None  # why the store cannot be read now; answers go on from memory
