"""The routes of the service: ``uvicorn.run(create_app("birds.subspan"))``. `connections` limits what is under them."""

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from fastapi import Body, FastAPI, File, Form, Request, Response, Security, UploadFile
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from fastapi.security import HTTPBearer
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import Field
from pydantic.json_schema import SkipJsonSchema
from starlette.exceptions import HTTPException

from subspan import __version__
from subspan.catalogue.catalogue import REJECT_SHARE, Catalogue
from subspan.catalogue.records import AddReport, SessionEntry, WeightMap
from subspan.serve import bodies
from subspan.serve.access import PAGE, Access, find_token
from subspan.serve.bodies import ErrorAnswer, OneBodyRoute, RefusedError, StrictBody, error_response
from subspan.serve.guard import Guard
from subspan.serve.service import Service
from subspan.serve.settings import ServeSettings

REFUSALS = (400, 401, 403, 408, 409, 413, 415, 421, 422, 428, 429, 503)  # of any request, each with its sentence
TOKEN = Security(HTTPBearer(auto_error=False, description="The token that the service was started with."))


def create_app(
    catalogue: Catalogue | str | Path, settings: ServeSettings | None = None, token: str | None = None
) -> FastAPI:
    """The service of one catalogue.

    Parameters
    ----------
    catalogue : or its path.
    token : by default from ``settings.token_file`` or ``SUBSPAN_TOKEN``; without either, nobody can write.
    """
    settings = settings or ServeSettings()
    opened = catalogue if isinstance(catalogue, Catalogue) else Catalogue.open(catalogue)
    service = Service(opened, settings)
    access = Access(settings, find_token(settings)[0] if token is None else token)
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
    app.router.route_class = OneBodyRoute
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
    several = File(
        description=f"1 to {limits.max_images} images: JPEG, PNG, WebP, GIF or BMP, each at most "
        f"{limits.max_image_bytes} bytes and {limits.max_pixels} pixels.",
        json_schema_extra={"minItems": 1, "maxItems": limits.max_images},
    )

    class AddBody(StrictBody):
        name: str = Field(min_length=1, max_length=200, description="What all the images show.")
        images: Annotated[list[UploadFile], several]
        description: str | None = Field(None, max_length=2000, description="A sentence about the class.")
        careful: bool = Field(False, description="Learn nothing where images look like another class: 428.")

    def counted(uploads: list[UploadFile]) -> list[Any]:
        if len(uploads) > limits.max_images:
            raise RefusedError(413, f"a request has at most {limits.max_images} images; got {len(uploads)}")
        return [upload.file for upload in uploads]

    @app.post("/predict", **to_read)
    async def predict(
        images: Annotated[list[UploadFile], several],
        top: Annotated[int, Form(ge=1, le=1000, description="Classes to name for each image.")] = 5,
        reject: Annotated[bool, Form(description='Allow the answer "none of these".')] = False,
        reject_share: Annotated[
            float, Form(gt=0, lt=1, description="Share of images of known classes that may be rejected.")
        ] = REJECT_SHARE,
    ) -> bodies.PredictAnswer:
        """Classify images."""
        version, answers = await service.predict(counted(images), top, reject_share if reject else False)
        return bodies.PredictAnswer(version, tuple(bodies.ImageAnswer(one.name, one.candidates) for one in answers))

    @app.post("/classes", status_code=201, **to_write)
    async def add(form: Annotated[AddBody, Form(media_type="multipart/form-data")]) -> AddReport:
        """Add a new class, or show more of one that is known. Answers when it is learned and on the disk."""
        return await service.add(form.name, counted(form.images), form.description, form.careful)

    @app.get("/classes", **to_read)
    async def classes() -> bodies.ClassesAnswer:
        """All classes in the order they were learned."""
        return bodies.ClassesAnswer(tuple(catalogue.classes()))

    @app.get("/sessions", **to_read)
    async def sessions() -> bodies.SessionsAnswer:
        """What was learned when, and what it did to the other classes."""
        return bodies.SessionsAnswer(tuple(catalogue.sessions()))

    @app.get("/about", **to_read)
    async def about() -> bodies.AboutAnswer:
        """The catalogue's name, and what may be sent."""
        sizes = limits.max_images, limits.max_image_bytes, limits.max_pixels
        return bodies.AboutAnswer(catalogue.path.stem, __version__, limits.read_only, *sizes)

    @app.get("/progress", **to_read)
    async def progress() -> bodies.ProgressAnswer:
        """How far the class that is being added has come."""
        return bodies.ProgressAnswer(service.stage, service.stage, max(0, service.writers - 1))

    @app.post("/undo", **to_write)
    async def undo(body: Annotated[bodies.UndoBody | SkipJsonSchema[None], Body()] = None) -> SessionEntry:
        """Take the last session back; without a body, whichever it is."""
        return await service.undo(None if body is None else body.version)

    @app.get("/map", **to_read)
    def weight_map() -> WeightMap:  # in a thread: a thousand rows take a while
        """The classes on the two principal components of their rows."""
        return catalogue.weight_map()

    @app.get("/healthz", **to_read)
    async def health() -> bodies.HealthAnswer:
        """That the service answers, from which version, and whether it still sees what others write."""
        status = "ok" if service.store_error is None else "stale"
        return bodies.HealthAnswer(status, catalogue.version, len(catalogue.classes()), service.store_error)

    @app.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}}, **to_read)
    async def metrics() -> Response:
        """Counters for Prometheus."""
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


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
