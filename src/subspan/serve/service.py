"""A catalogue at work for many clients: questions side by side, sessions one after the other.

Questions are answered from the version that is current when they come; a session at work does not hold them up. What
other processes write to the same store is taken up within `ServeSettings.refresh_seconds`.
"""

import asyncio
import contextlib
import logging
import unicodedata
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO, TypeVar

from subspan.catalogue.catalogue import Catalogue
from subspan.catalogue.errors import DoubtError
from subspan.catalogue.options import check_name
from subspan.catalogue.records import AddReport, Prediction, SessionEntry
from subspan.files.store import StoreBusyError, StoreChangedError, StoreError
from subspan.images.decode import usable_cores
from subspan.serve.bodies import RefusedError, Stage
from subspan.serve.metrics import Metrics
from subspan.serve.settings import ServeSettings
from subspan.serve.uploads import Decoder

log = logging.getLogger("subspan.serve")
Result = TypeVar("Result")


class Service:
    """The catalogue behind the routes. Its coroutines run on one event loop, its work in threads."""

    def __init__(self, catalogue: Catalogue, settings: ServeSettings) -> None:
        self.catalogue, self.settings = catalogue, settings
        self.metrics = Metrics(lambda: len(catalogue.classes()), lambda: len(catalogue.sessions()))
        self.decoder = Decoder(catalogue.backbone.views, settings)
        self.stage: Stage | None = None
        self.store_error: str | None = None
        self.writers = 0  # at work and waiting
        self._readers = ThreadPoolExecutor(settings.workers or usable_cores(), "subspan-reader")
        self._writer = ThreadPoolExecutor(1, "subspan-writer")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Look for what others wrote meanwhile; at the end, sessions that have come are finished first."""
        refreshing = asyncio.create_task(self._keep_refreshing())
        try:
            yield
        finally:
            refreshing.cancel()
            self._writer.shutdown(wait=True)
            self._readers.shutdown(wait=True)

    async def predict(self, files: Sequence[BinaryIO], top: int, reject: bool | float) -> tuple[str, list[Prediction]]:
        """The version that answered, and its answers."""

        def work() -> tuple[str, list[Prediction]]:
            features = self.catalogue.features(self.decoder.prepared(files))
            while True:
                version = self.catalogue.version
                answers = self.catalogue.predict_features(features, top, reject)
                if version == self.catalogue.version:
                    return version, answers

        answered = await self._run(self._readers, work)
        self.metrics.images.inc(len(files))
        return answered

    async def add(self, name: str, files: Sequence[BinaryIO], description: str | None, careful: bool) -> AddReport:
        """Learn a class; the name is given back as it was understood."""
        name = " ".join(unicodedata.normalize("NFC", name).split())  # as people type it, in one form of Unicode

        def tell(stage: str, done: int, total: int) -> None:
            # A count that is full says nothing: what follows it is the learning itself.
            self.stage = Stage(name, stage, done, total) if done < total else Stage(name, "learning", 0, 1)

        def work() -> AddReport:
            check_name(name)  # before the photographs cost anything
            try:
                tell("opening photographs", 0, len(files))
                squares = self.decoder.prepared(files, lambda done: tell("opening photographs", done, len(files)))
                return self.catalogue.add(name, squares, description, careful=careful, progress=tell)
            finally:
                self.stage = None

        return await self._in_turn(work)

    async def undo(self, expected: str | None) -> SessionEntry:
        """Take back the last session, if it is still the one that the client saw; gives the session undone."""

        def work() -> SessionEntry:
            try:
                return self.catalogue.undo(expected)
            except StoreChangedError as error:
                self.catalogue.refresh()  # whoever looks at the history again sees why
                raise RefusedError(409, "the last session is another one by now; look at the history again") from error
            except StoreError:
                raise
            except ValueError as error:
                raise RefusedError(409, str(error)) from error

        return await self._in_turn(work)

    async def _in_turn(self, work: Callable[[], Result]) -> Result:
        """Work that writes: one after the other, in the order of arrival."""
        if self.writers > self.settings.max_waiting:
            raise RefusedError(409, f"busy: {self.settings.max_waiting} others are waiting already", 1)
        self.writers += 1
        try:
            return await self._run(self._writer, work)
        finally:
            self.writers -= 1

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[[], Result]) -> Result:
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, work)
        except StoreBusyError as error:
            raise RefusedError(409, str(error), 1) from error
        except StoreError as error:
            log.error("%s", error)
            raise RefusedError(503, str(error)) from error
        except DoubtError as error:
            raise RefusedError(428, str(error)) from error
        except ValueError as error:  # what the catalogue or its method cannot do with this input
            raise RefusedError(422, str(error)) from error

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
