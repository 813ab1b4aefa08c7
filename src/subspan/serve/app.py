"""The routes of the service: ``uvicorn.run(create_app("birds.subspan"))``. `connections` limits what is under them."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Form, Request, Response, Security
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException

from subspan import __version__
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.records import AddReport, Review, SessionEntry, WeightMap
from subspan.serve import bodies
from subspan.serve.access import PAGE, Access, Token, find_tokens
from subspan.serve.bodies import ErrorAnswer, StrictRoute, error_response
from subspan.serve.guard import Guard, client_of
from subspan.serve.service import Service, cleaned
from subspan.serve.settings import ServeSettings

REFUSALS = (400, 401, 403, 408, 409, 413, 415, 421, 422, 428, 429, 503)  # of any request, each with its sentence
MULTIPART = "multipart/form-data"
TOKEN = Security(HTTPBearer(auto_error=False, description="The token that the service was started with."))


def create_app(
    catalogue: Catalogue | str | Path,
    settings: ServeSettings | None = None,
    token: str | Sequence[Token] | None = None,
) -> FastAPI:
    """The service of one catalogue.

    Parameters
    ----------
    catalogue : or its path.
    token : or several; by default from ``settings.token_file`` or ``SUBSPAN_TOKEN``; without either, nobody can write.
    """
    settings = settings or ServeSettings()
    opened = catalogue if isinstance(catalogue, Catalogue) else Catalogue.open(catalogue)
    service = Service(opened, settings)
    given = find_tokens(settings)[0] if token is None else token
    access = Access(settings, [Token(given)] if isinstance(given, str) else given)
    app = FastAPI(
        title="Subspan",
        version=__version__,
        summary="Classify images, add new classes from a few, take them back.",
        description='Errors are `{"error": "one sentence"}`. '
        + ("Every request needs the token." if access.everything else "Writing needs the token.")
        + " Send it as `Authorization: Bearer TOKEN`.",
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lambda _: service.running(),
        responses={status: {"model": ErrorAnswer} for status in REFUSALS},
    )
    app.router.route_class = StrictRoute
    app.add_middleware(Guard, settings=settings, access=access, metrics=service.metrics)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    _add_routes(app, service, access)
    _add_page(app)
    return app


def _add_routes(app: FastAPI, service: Service, access: Access) -> None:
    catalogue, limits = service.catalogue, service.settings
    to_write: Any = {"dependencies": [TOKEN]}
    to_read: Any = to_write if access.everything else {}

    @app.post("/predict", **to_read)
    async def predict(
        request: Request, form: Annotated[bodies.PredictBody, Form(media_type=MULTIPART)]
    ) -> bodies.PredictAnswer:
        """Classify images. One that cannot be read has an error in the place of its answer."""
        return await service.predict(form, client_of(request.scope))

    @app.post("/classes", status_code=201, **to_write)
    async def add(request: Request, form: Annotated[bodies.AddBody, Form(media_type=MULTIPART)]) -> AddReport:
        """Add a new class, or show more of one that is known. Answers when it is learned and on the disk."""
        return await service.add(form, client_of(request.scope), author_of(request))

    @app.get("/classes", **to_read)
    async def classes() -> bodies.ClassesAnswer:
        """All classes in the order they were learned."""
        return bodies.ClassesAnswer(tuple(catalogue.classes()))

    @app.get("/sessions", **to_read)
    def sessions() -> bodies.SessionsAnswer:
        """What was learned when, and what it did to the other classes."""
        return bodies.SessionsAnswer(tuple(catalogue.sessions()), service.undone())

    @app.get("/about", **to_read)
    def about(request: Request) -> bodies.AboutAnswer:
        """The catalogue's name, and what may be sent."""
        token: Token | None = request.scope["token"]
        return bodies.AboutAnswer(
            catalogue=catalogue.path.stem,
            subspan=__version__,
            read_only=limits.read_only or (token is not None and not token.teaches),
            can_reject=service.can_reject(),
            max_images=limits.max_images,
            max_review=limits.max_review,
            max_image_bytes=limits.max_image_bytes,
            max_pixels=limits.max_pixels,
        )

    @app.get("/progress", **to_read)
    async def progress() -> bodies.ProgressAnswer:
        """How far the class that is being added has come."""
        return bodies.ProgressAnswer(service.stage, service.stage, max(0, service.writers - 1))

    @app.post("/undo", **to_write)
    async def undo(body: bodies.UndoBody) -> SessionEntry:
        """Take the last session back, or all that came after a version; redo brings them back until `prune`."""
        return await service.write(lambda: catalogue.undo(body.version, body.to), 409)

    @app.post("/redo", **to_write)
    async def redo(body: bodies.UndoBody) -> SessionEntry:
        """Bring back the session that was undone last, or all up to a version."""
        return await service.write(lambda: catalogue.redo(body.version, body.to), 409)

    @app.post("/rename", **to_write)
    async def rename(request: Request, body: bodies.RenameBody) -> SessionEntry:
        """Give a class another name."""
        return await service.write(lambda: catalogue.rename(body.name, cleaned(body.new_name), author_of(request)))

    @app.post("/merge", **to_write)
    async def merge(request: Request, body: bodies.MergeBody) -> SessionEntry:
        """Make one class a part of another."""
        return await service.write(lambda: catalogue.merge(body.name, body.other, author_of(request)))

    @app.post("/remove", **to_write)
    async def remove(request: Request, body: bodies.RemoveBody) -> SessionEntry:
        """Forget a class."""
        return await service.write(lambda: catalogue.remove(body.name, author_of(request)))

    @app.post("/review", **to_read)
    async def review(request: Request, form: Annotated[bodies.ReviewBody, Form(media_type=MULTIPART)]) -> Review:
        """Which images look mislabelled, doubtful, doubled or like nothing known; nothing is learned."""
        return await service.review(form, client_of(request.scope))

    @app.get("/map", **to_read)
    def weight_map() -> WeightMap:  # in a thread: a thousand rows take a while
        """The classes on the two principal components of their rows."""
        return service.weight_map()

    @app.get("/healthz", **to_read)
    async def health() -> bodies.HealthAnswer:
        """That the service answers, from which version, and whether it still sees what others write."""
        status = "ok" if service.store_error is None else "stale"
        return bodies.HealthAnswer(status, catalogue.version, len(catalogue.classes()), service.store_error)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}, **to_read)
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def author_of(request: Request) -> str | None:
    """Who the history says has taught: the label of the token."""
    token: Token | None = request.scope["token"]
    return token and token.label


def _add_page(app: FastAPI) -> None:
    """The page: its files, read once; nothing of a request names a file."""

    def add(route: str, name: str, kind: str) -> None:
        answer = Response(files("subspan.serve").joinpath("page", name).read_bytes(), media_type=kind)
        app.get(route, include_in_schema=False)(lambda: answer)

    for route, file in PAGE.items():
        add(route, *file)
    app.get("/docs", include_in_schema=False)(lambda: RedirectResponse("/#api"))


async def _invalid(_: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    place = [str(part) for part in first["loc"] if part not in ("body", "query", "path")]
    message = str(first["msg"])
    return error_response(422, f"{'.'.join(place) or 'the request'}: {message[:1].lower()}{message[1:]}")


async def _http_error(request: Request, error: Any) -> JSONResponse:
    sentences = {404: "there is nothing at this address", 405: f"{request.method} is not possible here"}
    return error_response(error.status_code, sentences.get(error.status_code) or error.detail, error.headers)
