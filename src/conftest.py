"""Doctests: modules that are not searched for them, as importing them takes a package that may be absent."""

collect_ignore = ["subspan/engine/on_chip.py", "subspan/engine/on_chip_kernel.py"]  # triton
