"""``python -m bochner`` is ``bochner``."""

import sys

from bochner.cli import main

if __name__ == "__main__":
    sys.exit(main())
