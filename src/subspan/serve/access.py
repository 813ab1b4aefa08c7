"""Who may do what: the tokens, and the addresses at which none is asked for."""

import hmac
import ipaddress
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from subspan.serve.settings import ServeSettings

VARIABLE = "SUBSPAN_TOKEN"
SHORTEST = 16
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
PAGE = {  # the page without a word of the catalogue, where the token is entered: its files by address, and their types
    "/" if file.name == "page.html" else f"/{file.name}": (file.name, TYPES[Path(file.name).suffix])
    for file in files("subspan.serve").joinpath("page").iterdir()
}
READING = frozenset(["GET", "HEAD", "OPTIONS"])
ASKING = frozenset(["/predict", "/review"])  # what is sent here changes nothing


@dataclass(frozen=True)
class Token:
    """One token, and what it allows; with a label, the history says it of what is taught."""

    secret: str
    label: str | None = None
    teaches: bool = True

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST or not all("!" <= letter <= "~" for letter in self.secret):
            raise ValueError(f"a token must have at least {SHORTEST} characters, letters, digits and signs, no spaces")


class Access:
    """The rules of one service.

    On loopback, whoever is at the machine may read and classify, and a token is asked of whoever writes. Elsewhere it
    is asked for everything but the files of the page.
    """

    def __init__(self, settings: ServeSettings, tokens: Sequence[Token]) -> None:
        self.tokens, self.names = tokens, {"localhost", "127.0.0.1", "[::1]", settings.host.lower()}
        self.everything = settings.behind_proxy or not is_loopback(settings.host)  # whether reading needs one too

    def needs_token(self, method: str, path: str) -> bool:
        if path in PAGE and method in READING:
            return False
        return self.everything or is_write(method, path)

    def token(self, authorization: str) -> Token | None:
        """The token that the header holds; the time it takes does not tell how much of it was right."""
        scheme, _, given = authorization.partition(" ")
        secret = given.strip().encode("utf-8", "replace")
        right = [one for one in self.tokens if hmac.compare_digest(secret, one.secret.encode())]
        return right[0] if right and scheme.lower() == "bearer" else None

    def allows_host(self, host: str) -> bool:
        """A page elsewhere can have its own name point to 127.0.0.1 and read answers: there only our names count."""
        return self.everything or re.sub(r":\d+$", "", host).lower() in self.names


def is_write(method: str, path: str) -> bool:
    """Everything but reading and asking."""
    return method not in READING and path not in ASKING


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address.

    >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def find_tokens(
    settings: ServeSettings, environment: Mapping[str, str] = os.environ
) -> tuple[tuple[Token, ...], str | None]:
    """The tokens, and where they come from; None where one was made up now and must be shown."""
    if settings.token_file is not None:
        place, text = f"'{settings.token_file}'", Path(settings.token_file).read_text("utf-8")
    elif VARIABLE in environment:
        place, text = VARIABLE, environment[VARIABLE]
    else:
        return (Token(secrets.token_urlsafe(24)),), None
    try:
        tokens = tuple(parse_token(line) for line in text.splitlines() if line.strip() and line[0] != "#")
        if not tokens or len({one.secret for one in tokens}) < len(tokens):
            raise ValueError("there must be at least one token, and none twice")
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    return tokens, place


def parse_token(line: str) -> Token:
    """A token as a line of a token file says it.

    >>> parse_token("anna teach cGxlYXNlLW1ha2UtYS1uZXctb25l")
    Token(secret='cGxlYXNlLW1ha2UtYS1uZXctb25l', label='anna', teaches=True)
    """
    match line.split():
        case [secret]:
            return Token(secret)
        case [label, "read" | "teach" as right, secret]:
            return Token(secret, label, right == "teach")
    raise ValueError("a line holds a token, or a label, 'read' or 'teach', and a token")
