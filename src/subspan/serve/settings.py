"""How a catalogue is served; every field is an option of ``subspan serve``."""

from dataclasses import dataclass

import PIL.Image

from subspan.values import check_options, option


@dataclass(frozen=True)
class ServeSettings:
    """Settings of a service."""

    host: str = option("127.0.0.1", "address to listen on; anything but loopback needs the token for everything")
    port: int = option(8000, "port to listen on; 0 takes a free one")
    token_file: str | None = option(
        None, "file of tokens, or lines LABEL read|teach TOKEN; else SUBSPAN_TOKEN, else one is made"
    )
    read_only: bool = option(False, "answer questions only: nothing is added or undone here")
    behind_proxy: bool = option(
        False, "a proxy on this machine passes requests on: believe its X-Forwarded-For, ask for the token always"
    )
    workers: int = option(0, "requests that are worked on at once; 0 is one per core")
    max_images: int = option(20, "images in one request")
    max_image_bytes: int = option(20_000_000, "bytes of one image")
    max_body_bytes: int = option(64_000_000, "bytes of one request")
    max_pixels: int = option(50_000_000, "pixels of one image, by its header")
    max_request_pixels: int = option(
        250_000_000, "pixels of one request; a JPEG, decoded at reduced size, counts an eighth"
    )
    pixel_rate: float = option(25e6, "pixels a second of one client in the long run, counted alike")
    max_review: int = option(500, "images of one review")
    max_connections: int = option(
        256, "connections at once; past it, whoever keeps the service waiting longest must go"
    )
    max_requests: int = option(64, "requests at once; more are told to come back")
    max_waiting: int = option(8, "sessions that wait for their turn; more are told that the service is busy")
    rate: float = option(20.0, "requests a second of one client in the long run")
    burst: int = option(40, "requests of one client at once before the rate counts")
    head_seconds: float = option(10.0, "time that a client has to send the first lines of its request")
    upload_seconds: float = option(60.0, "time that a client has to send its request, and to read on in the answer")
    refresh_seconds: float = option(1.0, "how often to look for what other processes added")
    access_log: bool = option(False, "print a line for every request")

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise ValueError(f"port must lie between 0 and 65535; got {self.port}")
        numbers = [name for name, value in vars(self).items() if type(value) in (int, float)]
        positive = [name for name in numbers if name not in ("port", "workers")]
        check_options(self, positive=positive, at_least={0: ("workers",)})
        limit = PIL.Image.MAX_IMAGE_PIXELS
        if limit is not None and self.max_pixels > limit:
            raise ValueError(f"max_pixels must be at most {limit}, what Pillow decodes; got {self.max_pixels}")
