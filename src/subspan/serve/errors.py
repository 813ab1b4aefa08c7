"""What a service refuses: a status and one sentence, always as JSON ``{"error": ...}``."""

from collections.abc import Mapping
from dataclasses import dataclass

from fastapi import HTTPException
from fastapi.responses import JSONResponse


@dataclass(frozen=True)
class ErrorAnswer:
    """Why a request was refused, in one sentence."""

    error: str


class RefusedError(HTTPException):
    """A request that is not served."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        if status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        super().__init__(status, sentence, headers)


def error_response(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers)
