"""What a service refuses: a status and one sentence, always as JSON ``{"error": ...}``."""

from dataclasses import dataclass

from fastapi.responses import JSONResponse


@dataclass(frozen=True)
class ErrorAnswer:
    """Why a request was refused, in one sentence."""

    error: str


class RefusedError(Exception):
    """A request that is not served."""

    def __init__(self, status: int, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after

    def response(self) -> JSONResponse:
        headers = {}
        if self.retry_after is not None:
            headers["Retry-After"] = str(self.retry_after)
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return error_response(self.status, self.sentence, headers)


def error_response(status: int, sentence: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status, headers)
