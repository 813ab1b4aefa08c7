"""What a system says of itself beyond what a method says: its reference, and how far its description was checked."""

from typing import ClassVar

from subspan.learners.parts.rows import RowLearner


class System(RowLearner):
    """A published system."""

    kind = "system"
    reference: ClassVar[str]
    marks: ClassVar[str]  # which of `subspan.learners.published.MARKS` hold, and for what
    uses_memory = False
    uses_bias = False
