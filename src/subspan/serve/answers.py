"""What the service answers, beside the records of the catalogue."""

from dataclasses import dataclass
from typing import Literal

from subspan.catalogue.records import Candidate, ClassEntry, SessionEntry
from subspan.serve.service import Stage


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
class ProgressAnswer:
    """The teacher at work, if there is one, and how many wait for their turn."""

    teaching: Stage | None
    waiting: int


@dataclass(frozen=True)
class HealthAnswer:
    status: Literal["ok", "stale"]  # stale: the store cannot be read now
    version: str  # of the catalogue
    classes: int
    store_error: str | None  # why the store cannot be read now; answers go on from memory
