"""How a catalogue is made, which is an option of ``subspan init`` each."""

from dataclasses import dataclass

from subspan.pretrained.registry import DEFAULT_BACKBONE
from subspan.values import check_options, option

DESCRIPTION = "description"  # the source of embeddings that encodes sentences about classes


@dataclass(frozen=True)
class CatalogueOptions:
    """Settings of a catalogue."""

    backbone: str = option(DEFAULT_BACKBONE, "network that sees the photographs (`subspan backbones`)")
    method: str = option("auto", "how classes are added, NAME[:option=value,...] (`subspan methods`)")
    memory: int = option(5, "examples of every class that later sessions learn from again, for methods that do")
    keep: int = option(10, "examples kept of every class, as features, to judge later sessions by")
    warn_drop: float = option(2.0, "warn when a session costs the old classes more percentage points than this")
    embeddings: str | None = option(
        None, "for language methods: 'description', a folder with a sentence encoder, or a file of word vectors"
    )
    seed: int = option(0, "of what is held out and of the start of new rows")

    def __post_init__(self) -> None:
        check_options(self, not_negative=("memory", "keep", "seed", "warn_drop"))
