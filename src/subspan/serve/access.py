"""Who may do what: the token, and the addresses at which it is not asked for."""

import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from subspan.serve.settings import ServeSettings

VARIABLE = "SUBSPAN_TOKEN"
SHORTEST = 16
PAGE = {  # the page without a word of the catalogue, where the token is entered: its files by address, and their types
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
READING = frozenset(["GET", "HEAD", "OPTIONS"])


class Access:
    """The rules of one service.

    On loopback, whoever is at the machine may read and classify, and the token is asked of whoever writes. Elsewhere
    it is asked for everything but the files of the page.
    """

    def __init__(self, settings: ServeSettings, token: str) -> None:
        check_token(token, "the token")
        self.token, self.names = token, {"localhost", "127.0.0.1", "[::1]", settings.host.lower()}
        self.everything = settings.behind_proxy or not is_loopback(settings.host)  # whether reading needs it too

    def needs_token(self, method: str, path: str) -> bool:
        if path in PAGE and method in READING:
            return False
        return self.everything or is_write(method, path)

    def knows(self, authorization: str) -> bool:
        """Whether the header holds the token; the time it takes does not tell how much of it was right."""
        scheme, _, given = authorization.partition(" ")
        right = hmac.compare_digest(given.strip().encode("utf-8", "replace"), self.token.encode())
        return right and scheme.lower() == "bearer"

    def allows_host(self, host: str) -> bool:
        """A page elsewhere can have its own name point to 127.0.0.1 and read answers: there only our names count."""
        return self.everything or re.sub(r":\d+$", "", host).lower() in self.names


def is_write(method: str, path: str) -> bool:
    """Everything but reading and classifying."""
    return method not in READING and path != "/predict"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def find_token(settings: ServeSettings, environment: Mapping[str, str] = os.environ) -> tuple[str, str | None]:
    """The token, and where it comes from; None where it was made up now and must be shown."""
    if settings.token_file is not None:
        place = f"'{settings.token_file}'"
        token = Path(settings.token_file).read_text("utf-8").strip()
    elif VARIABLE in environment:
        place, token = VARIABLE, environment[VARIABLE].strip()
    else:
        return secrets.token_urlsafe(24), None
    check_token(token, f"the token in {place}")
    return token, place


def check_token(token: str, what: str) -> None:
    if len(token) < SHORTEST or not all("!" <= letter <= "~" for letter in token):
        raise ValueError(f"{what} must have at least {SHORTEST} characters, letters, digits and signs without spaces")
