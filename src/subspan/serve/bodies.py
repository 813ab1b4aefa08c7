"""What requests may hold and what is answered, beside the records of the catalogue.

A request with a body holds the one kind of body that its route declares, and in it only keys that it knows. A key that
nobody reads is a guard that nobody keeps: with ``versoin``, whatever is last would be undone.
"""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import File, HTTPException, Request, Response, UploadFile
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from starlette.datastructures import FormData
from starlette.formparsers import MultiPartException, MultiPartParser

from subspan.catalogue.catalogue import REJECT_SHARE
from subspan.catalogue.records import Candidate, ClassEntry, SessionEntry

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


ClassName = Annotated[str, Field(min_length=1, max_length=200)]
Images = Annotated[
    list[UploadFile],
    File(
        description="JPEG, PNG, WebP, GIF or BMP; `/about` says how many and how large.",
        json_schema_extra={"minItems": 1},
    ),
]
SeenVersion = Annotated[str, Field(description="The current version as the client knows it; another one: 409.")]


class StrictBody(BaseModel):
    """A body without unknown keys."""

    model_config = ConfigDict(extra="forbid")


class PredictBody(StrictBody):
    images: Images
    top: int = Field(5, ge=1, le=1000, description="Classes to name for each image.")
    reject: bool = Field(False, description='Allow the answer "none of these".')
    reject_share: float = Field(
        REJECT_SHARE, gt=0, lt=1, description="Share of images of known classes that may be rejected."
    )


class AddBody(StrictBody):
    name: ClassName = Field(description="What all the images show.")
    images: Images
    description: str | None = Field(None, max_length=2000, description="A sentence about the class.")
    careful: bool = Field(False, description="Learn nothing where images look like another class: 428.")
    skip_bad: bool = Field(False, description="Learn from the others where images cannot be read.")


class ReviewBody(StrictBody):
    images: Images
    names: list[ClassName] = Field(min_length=1, description="What each of the images is said to show.")


class UndoBody(StrictBody):
    version: SeenVersion
    to: str | None = Field(None, description="The version to go to; by default the one before, or what came after.")


class RemoveBody(StrictBody):
    name: ClassName


class RenameBody(StrictBody):
    name: ClassName
    new_name: ClassName


class MergeBody(StrictBody):
    name: ClassName
    other: ClassName = Field(description="The class that becomes a part of it.")


class Utf8Parser(MultiPartParser):
    """A reader of forms that refuses text in another encoding, where Starlette takes it for Latin-1."""

    def on_part_end(self) -> None:
        part = self._current_part
        try:
            part.data.decode()  # empty where the part is a file
        except UnicodeDecodeError:
            raise MultiPartException(f"{part.field_name}: text must be UTF-8") from None
        super().on_part_end()


class StrictRequest(Request):
    async def form(self, **_: Any) -> FormData:  # pyright: ignore[reportIncompatibleMethodOverride]
        try:
            return await Utf8Parser(self.headers, self.stream()).parse()
        except MultiPartException as error:
            raise RefusedError(400, error.message) from None


class StrictRoute(APIRoute):
    """A route that refuses a body of another kind than it declares, and all that is said beside the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()
        declared = self.body_field and getattr(self.body_field.field_info, "media_type", None)

        async def checked(request: Request) -> Response:
            if declared:
                for key in request.query_params:
                    raise RefusedError(422, f"{key}: this belongs into the body, not into the address")
                kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != declared:
                    raise RefusedError(415, f"the body must be of content type {declared}; got {kind or 'none'}")
            return await answer(StrictRequest(request.scope, request.receive))

        return checked


# Answers


@dataclass(frozen=True)
class ImageAnswer:
    """What one image shows, or why it was not looked at."""

    name: str | None = None  # the best class; null: none of these
    candidates: tuple[Candidate, ...] = ()  # best first
    familiarity: float | None = None  # how much it looks like any class: the less, the more of a stranger
    error: str | None = None


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
    read_only: bool  # the service, or the token that asks
    can_reject: bool  # whether "none of these" can be answered
    max_images: int
    max_review: int
    max_image_bytes: int
    max_pixels: int


@dataclass(frozen=True)
class ClassesAnswer:
    classes: tuple[ClassEntry, ...]


@dataclass(frozen=True)
class SessionsAnswer:
    """Sessions, oldest first; the version of the last one is current."""

    sessions: tuple[SessionEntry, ...]
    undone: tuple[SessionEntry, ...]  # what redo brings back, the next first


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
