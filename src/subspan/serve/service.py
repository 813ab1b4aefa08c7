"""A catalogue at work for many clients: questions side by side, sessions one after the other.

Questions are answered from the version that is current when they come; a session at work does not hold them up, nor do
requests of many pixels, which wait for each other. What other processes write to the same store is taken up within
`ServeSettings.refresh_seconds`.
"""

import asyncio
import contextlib
import ctypes
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np
from fastapi import UploadFile

from subspan.arrays import FloatArray
from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import CatalogueError, CloseNameError, DoubtError
from subspan.catalogue.names import clean_name
from subspan.catalogue.records import AddReport, Review, SessionEntry, WeightMap
from subspan.files.store import StoreBusyError, StoreChangedError, StoreError
from subspan.images.decode import usable_cores
from subspan.serve import bodies
from subspan.serve.bodies import RefusedError
from subspan.serve.metrics import Metrics
from subspan.serve.rate import RateLimit
from subspan.serve.settings import ServeSettings
from subspan.serve.uploads import Upload, read_upload

LARGE = 8_000_000  # pixels of a request from which it waits for other large ones instead of holding up small ones
ALONE = 2_000_000  # pixels of an image from which it is decoded by itself, so that memory stays bounded

log = logging.getLogger("subspan.serve")
Result = TypeVar("Result")


class Service:
    """The catalogue behind the routes. Its coroutines run on one event loop, its work in threads."""

    def __init__(self, catalogue: Catalogue, settings: ServeSettings) -> None:
        self.catalogue, self.settings = catalogue, settings
        self.metrics = Metrics(lambda: len(catalogue.classes()), lambda: len(catalogue.sessions()))
        self.stage: bodies.Stage | None = None
        self.store_error: str | None = None
        self.writers = 0  # at work and waiting
        self._pixels = RateLimit(settings.pixel_rate, settings.max_request_pixels)
        self._small = ThreadPoolExecutor(settings.workers or usable_cores(), "subspan-small")
        self._large = ThreadPoolExecutor(1, "subspan-large")
        self._writer = ThreadPoolExecutor(1, "subspan-writer")
        self._drawing = threading.Lock()
        self._map: tuple[str, WeightMap] | None = None

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look for what others wrote meanwhile; at the end, sessions that have come are finished first."""
        refreshing = asyncio.create_task(self._keep_refreshing())
        try:
            yield
        finally:
            refreshing.cancel()
            for pool in (self._writer, self._small, self._large):
                pool.shutdown(wait=True)

    async def predict(self, form: bodies.PredictBody, client: str) -> bodies.PredictAnswer:
        """The version that answered, and an answer for every image; one that cannot be read costs only its own."""
        uploads, bad = await self._open(form.images, client)
        reject = form.reject_share if form.reject else False

        def work() -> bodies.PredictAnswer:
            features = self._look(uploads, bad)
            while True:
                version = self.catalogue.version
                answers = self.catalogue.predict_features(features, form.top, reject)
                if version == self.catalogue.version:
                    break
            found = iter([bodies.ImageAnswer(one.name, one.candidates, one.familiarity) for one in answers])
            every = (
                bodies.ImageAnswer(error=bad[place].detail) if place in bad else next(found)
                for place in range(len(form.images))
            )
            return bodies.PredictAnswer(version, tuple(every))

        pixels = sum(one.pixels for one in uploads.values())
        answer = await self._run(self._large if pixels > LARGE else self._small, work)
        self.metrics.images.inc(len(form.images) - len(bad))
        return answer

    async def add(self, form: bodies.AddBody, client: str, author: str | None) -> AddReport:
        """Learn a class; the name is given back as it was understood."""
        name = cleaned(form.name)
        uploads, bad = await self._open(form.images, client)
        if bad and not form.skip_bad:
            raise all_of(bad)

        def tell(stage: str, done: int, total: int) -> None:
            # A count that is full says nothing: what follows it is the learning itself.
            self.stage = bodies.Stage(name, *((stage, done, total) if done < total else ("learning", 0, 1)))

        def work() -> AddReport:
            try:
                images = {name: [one.image for one in uploads.values()]}
                said = {} if form.description is None else {name: form.description}
                how = {"skip_bad": form.skip_bad, "careful": form.careful, "new": not form.careful, "author": author}
                report = self.catalogue.add_all(images, said, **how, progress=tell)[0]
            finally:
                self.stage = None
                give_back_memory()
            return replace(report, skipped=(*reasons(bad), *report.skipped))

        return await self.write(work)

    async def write(self, work: Callable[[], Result], refused: int = 422) -> Result:
        """Work that writes: one after the other, in the order of arrival."""
        if self.writers > self.settings.max_waiting:
            raise RefusedError(409, f"busy: {self.settings.max_waiting} others are waiting already", 1)
        self.writers += 1
        try:
            return await self._run(self._writer, work, refused)
        finally:
            self.writers -= 1

    async def review(self, form: bodies.ReviewBody, client: str) -> Review:
        """What looks wrong among images that are said to show these classes, each by its place in the request."""
        if len(form.names) != len(form.images):
            raise RefusedError(422, f"names: {len(form.images)} images need as many names; got {len(form.names)}")
        uploads, bad = await self._open(form.images, client, self.settings.max_review)
        places: dict[str, list[int]] = {}
        for place in uploads:
            places.setdefault(cleaned(form.names[place]), []).append(place)

        def work() -> Review:
            images = {name: [uploads[place].image for place in places[name]] for name in places}
            found = self.catalogue.review(images, skip_bad=True)
            findings = tuple(replace(one, place=places[one.name][one.place]) for one in found.findings)
            return Review(findings, (*reasons(bad), *found.skipped))

        return await self._run(self._large, work)

    def weight_map(self) -> WeightMap:
        """The map of the version at work, drawn once for all who ask."""
        with self._drawing:
            if self._map is None or self._map[0] != self.catalogue.version:
                self._map = self.catalogue.version, self.catalogue.weight_map()
            return self._map[1]

    def undone(self) -> tuple[SessionEntry, ...]:
        """What redo brings back; nothing while the store cannot be read."""
        with contextlib.suppress(ValueError, OSError):
            return tuple(self.catalogue.undone())
        return ()

    def can_reject(self) -> bool:
        """Whether enough photographs were set aside to promise something of "none of these"."""
        try:
            self.catalogue.predict_features(np.zeros((0, 1), np.float32), reject=True)
        except CatalogueError:
            return False
        return True

    async def _open(
        self, images: Sequence[UploadFile], client: str, most: int | None = None
    ) -> tuple[dict[int, Upload], dict[int, RefusedError]]:
        """What may be looked at, and why the rest may not, by its place; a refusal where nothing may, or too much."""
        uploads: dict[int, Upload] = {}
        bad: dict[int, RefusedError] = {}
        most = most or self.settings.max_images
        if len(images) > most:
            raise RefusedError(413, f"a request has at most {most} images; got {len(images)}")

        def work() -> None:
            for place, image in enumerate(images):
                try:
                    uploads[place] = read_upload(image.file, place + 1, self.settings)
                except RefusedError as error:
                    bad[place] = error

        await self._run(self._small, work)
        if not uploads:
            raise all_of(bad)
        pixels, room = sum(one.pixels for one in uploads.values()), self.settings.max_request_pixels
        if pixels > room:
            raise RefusedError(413, f"a request has at most {room} pixels, of which a JPEG counts an eighth")
        if wait := self._pixels.wait(client, pixels):
            raise RefusedError(429, f"too many pixels; come back in {wait} s", wait)
        return uploads, bad

    def _look(self, uploads: Mapping[int, Upload], bad: dict[int, RefusedError]) -> FloatArray:
        """Features (n, d) of those that can be decoded, in their order; the others become a refusal in ``bad``."""
        light = [place for place, one in uploads.items() if one.pixels <= ALONE]
        rows: dict[int, FloatArray] = {}
        for group in filter(None, (light, *([place] for place in uploads if place not in light))):
            images = [uploads[place].image for place in group]
            found = self.catalogue.backbone.features(
                images, bad=lambda at, error, group=group: bad.update({group[at]: RefusedError(422, str(error))})
            )
            rows |= dict(zip(group, found, strict=True))
        if len(rows) > len(light):
            give_back_memory()
        if not (good := [rows[place] for place in uploads if place not in bad]):
            raise all_of(bad)
        return np.stack(good)

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[[], Result], refused: int = 422) -> Result:
        """Work in a thread, whose errors become refusals; ``refused`` is what the catalogue cannot do with it."""
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except StoreChangedError as error:
            with contextlib.suppress(ValueError, OSError):
                await asyncio.to_thread(self.catalogue.refresh)  # whoever looks at the history again sees why
            raise RefusedError(409, "the last session is another one by now; look at the history again") from error
        except StoreBusyError as error:
            raise RefusedError(409, str(error), 1) from error
        except StoreError as error:
            log.error("%s", error)
            raise RefusedError(503, str(error)) from error
        except (DoubtError, CloseNameError) as error:
            raise RefusedError(428, str(error)) from error
        except ValueError as error:  # what the catalogue or its method cannot do with this input
            raise RefusedError(refused, str(error)) from error

    async def _keep_refreshing(self) -> None:
        while True:
            await asyncio.sleep(self.settings.refresh_seconds)
            sentence = None
            try:
                await asyncio.to_thread(self.catalogue.refresh)
            except Exception as error:  # whatever it is: answers go on from memory, and the next look may succeed
                self.metrics.store_errors.inc()
                foreseen = isinstance(error, ValueError | OSError)
                sentence = str(error) if foreseen else f"the look at the store failed: {error!r}"
                if sentence != self.store_error:
                    log.error("the store cannot be read, answers go on: %s", sentence, exc_info=not foreseen)
            self.store_error = sentence


def cleaned(name: str) -> str:
    """A class name as people type it, in one form."""
    try:
        return clean_name(" ".join(name.split()))
    except ValueError as error:
        raise RefusedError(422, str(error)) from error


def all_of(bad: Mapping[int, RefusedError]) -> RefusedError:
    """One refusal for all images that are bad, with the status of the first."""
    return RefusedError(bad[min(bad)].status_code, "; ".join(reasons(bad)))


def reasons(bad: Mapping[int, RefusedError]) -> list[str]:
    return [str(bad[place].detail) for place in sorted(bad)]


def give_back_memory() -> None:
    """What large images needed goes back to the system; the C library would keep it for the next ones."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # it is glibc that knows how
        ctypes.CDLL(None).malloc_trim(0)
