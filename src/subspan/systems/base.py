"""What a system says of itself beyond what a method says: its reference, and how far its description was checked."""

from typing import ClassVar

from ..methods import Method

MARKS = {
    "C": "read in the authors' released code or config",
    "R": "in their README, log or result file",
    "M": "recalled, not checked: a reconstruction",
    "ours": "a departure that frozen features, or what the feature file lacks, make necessary",
}


class System(Method):
    """A published system. It keeps to the interface of methods; learned state lives in its rows."""

    kind = "system"
    reference: ClassVar[str]
    marks: ClassVar[str]  # which MARKS hold, and for what
    uses_bias = False
    moves_old_rows = False
