"""A plain script that registers its methods and calls the command: `python examples/by_command.py --workers 2`."""

import sys

import own_methods.average
import own_methods.offset  # noqa: F401 (imported to be known by name)

from subspan.cli import main

if __name__ == "__main__":
    words = ["bench", "--method", "average:gamma=0.1", "--method", "offset", "--against", "offset", "--no-memory"]
    sys.argv = ["subspan", *words, *sys.argv[1:]]
    main()
