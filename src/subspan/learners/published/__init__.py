"""Published systems: one file each, registered like a method, so that every protocol runs them.

A system's docstring says where it comes from, what setting it was built for, its equations, and where ours departs.
"""

MARKS = {  # how far the description of a system was checked
    "C": "read in the authors' released code or config",
    "R": "in their README, log or result file",
    "M": "recalled, not checked: a reconstruction",
    "ours": "a departure that frozen features, or what the feature file lacks, make necessary",
}
