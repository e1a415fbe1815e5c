"""``python -m segstore`` is the ``segstore`` command."""

import sys

from segstore.cli import main

if __name__ == "__main__":
    sys.exit(main())
