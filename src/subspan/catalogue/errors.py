"""The errors a catalogue raises."""

from collections.abc import Sequence

from subspan.catalogue.records import Finding


class CatalogueError(ValueError):
    """What was asked of a catalogue cannot be done; the message says why, and the catalogue is as it was."""


class CloseNameError(CatalogueError):
    """A new class has nearly the name of one that is known; nothing was learned."""

    def __init__(self, name: str, known: str) -> None:
        self.name, self.known = name, known
        super().__init__(f"class '{name}' would be new beside '{known}': is that a typing error? Nothing was learned")


class DoubtError(CatalogueError):
    """Photographs that look mislabelled; nothing was learned."""

    def __init__(self, doubts: Sequence[Finding]) -> None:
        self.doubts = tuple(doubts)
        named = "; ".join(
            f"{one.photograph} is said to show '{one.name}' and looks like '{one.other}'" for one in doubts[:5]
        )
        more = f"; and {len(doubts) - 5} more" if len(doubts) > 5 else ""
        self.named = f"photographs look mislabelled: {named}{more}"
        super().__init__(f"nothing was learned, since {self.named}")
