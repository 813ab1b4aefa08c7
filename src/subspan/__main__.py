"""``python -m subspan`` is ``subspan``."""

from subspan.cli import main

if __name__ == "__main__":
    main()
