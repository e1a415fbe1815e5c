"""NumPy, imported when something of it is first used.

Its import takes longer than to open a log and read a record, and many programs do no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["np"]

if TYPE_CHECKING:
    import numpy as np
else:

    class _NumPy:
        """Looks like the module; what was used once is found without asking again."""

        def __getattr__(self, name: str) -> object:
            from importlib import import_module

            found = getattr(import_module("numpy"), name)
            setattr(self, name, found)
            return found

    np = _NumPy()
